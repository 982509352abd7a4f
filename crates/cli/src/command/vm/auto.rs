//! `brisk vm autostart` and `autostop`: all VMs at once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use brisk_tools::reboot::config::{Config, VmsConfig};
use brisk_tools::reboot::restart::{Boot, Stage, Store, Way, is_jumping};
use brisk_tools::vm::{
    self as tool, Domains, Down, Error, HostRecipient, Outcome, StateDirs, Turn, Up,
};
use brisk_vm::cache::Cache;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::super::image::end_soon;
use super::named::explain;
use crate::exit;
use crate::output::printable;
use crate::parse::duration;
use crate::ui::{Ui, error_text};

/// Time for all VMs to go down: less than brisk-vms.service has (`TimeoutStopSec`).
const DEADLINE: Duration = Duration::from_secs(20 * 60);

/// Start all VMs with autoboot, and resume those that are suspended.
///
/// VMs that were suspended because this host went down are resumed, too, with or without autoboot,
/// and so are domains of libvirt. Resumed VMs run at once; their memory follows (see brisk vm
/// resume).
///
/// brisk-vms.service does this when this host boots. A VM that fails does not keep others from
/// starting; the exit status is then 125.
#[derive(Debug, clap::Args)]
pub(super) struct AutostartArgs {
    /// Number of VMs at once. Default: as many as there are processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// Load all memory of a VM before it runs.
    #[arg(long)]
    eager: bool,

    /// Only show what would be started or resumed, and what would fail: an image that is missing, or
    /// that the QEMU which is installed does not resume.
    #[arg(long)]
    dry_run: bool,
}

/// Suspend, stop or end all running VMs, each as its autoshutdown says.
///
/// Domains of libvirt that reboot.toml names (section [vms]) are suspended, too.
///
/// brisk-vms.service does this when this host shuts down. A VM that cannot be suspended, or not in
/// time, is stopped instead. A VM that fails does not keep others from stopping; the exit status is
/// then 125.
#[derive(Debug, clap::Args)]
pub(super) struct AutostopArgs {
    /// Number of VMs that are suspended at once. Default: that of reboot.toml, or as many as there
    /// are processors, from 2 to 8. VMs that stop do not count.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// Time for all VMs together. Default: that of reboot.toml, or 20m.
    ///
    /// What would not be suspended by then, less --timeout, is stopped instead: at the rate that is
    /// measured meanwhile, or when that time has come.
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    deadline: Option<Duration>,

    /// Time limit for a VM to stop; at most half of --deadline.
    #[arg(long, value_parser = duration, value_name = "DURATION", default_value = "90s")]
    timeout: Duration,
}

pub(super) fn start(args: &AutostartArgs, ui: &Ui) -> anyhow::Result<u8> {
    let jobs = args.jobs.map_or_else(processors, usize::from);
    let up = Up { eager: args.eager };
    let dirs = StateDirs::here().map_err(explain)?;
    if args.dry_run {
        return foresee(&dirs, ui);
    }
    let cache = Cache::open()?;
    with_all("starting VMs", dirs.names().len(), jobs, ui, |turn| {
        tool::autostart(&dirs, &cache, up, turn)
    })
}

fn foresee(dirs: &StateDirs, ui: &Ui) -> anyhow::Result<u8> {
    let mut status = exit::OK;
    for (name, action) in tool::foresee(dirs, &Cache::open()?) {
        let line = match action {
            Ok(action) => format!("{name}: would be {}", action.done()),
            Err(reason) => {
                status = exit::BRISK;
                format!("{name}: would fail: {reason}")
            }
        };
        ui.data(&(printable(&line) + "\n"))?;
    }
    Ok(status)
}

pub(super) fn stop(args: &AutostopArgs, ui: &Ui) -> anyhow::Result<u8> {
    let dirs = StateDirs::here().map_err(explain)?;
    let (config, wrong) = configuration(&dirs);
    if let Some(error) = &wrong {
        // VMs have to go down all the same.
        ui.note(&format!("error: {}", error_text(error)));
    }
    let cache = Cache::open();
    if let Err(error) = &cache {
        // Nor do they need it for that.
        ui.note(&format!("error: {error}"));
    }
    let domains = domains(&config);
    let jobs = args
        .jobs
        .map_or_else(|| suspended_at_once(&config), usize::from);
    let down = Down {
        deadline: args.deadline.or(config.deadline).or(Some(DEADLINE)),
        stop: args.timeout,
        domains: &domains,
        keep: None,
        ram_stays: restarts_warm(),
    };
    let guests = dirs.names().len() + domains.names.len();
    let had_key = dirs.key.exists();
    let status = with_all("stopping VMs", guests, jobs, ui, |turn| {
        tool::autostop(&dirs, cache.as_ref().ok(), down, turn)
    })?;
    if !had_key && dirs.key.exists() {
        ui.note(&HostRecipient::advice(&dirs.key));
    }
    Ok(match status {
        exit::OK if wrong.is_some() || cache.is_err() => exit::BRISK,
        _ => status,
    })
}

/// Whether the host goes down for a restart by kexec that brisk has asked for: what was kept in RAM
/// for it stays.
fn restarts_warm() -> bool {
    let here = Boot::read(Path::new("/")).id;
    let is_asked_for = Store::of_system().pending().is_some_and(|restart| {
        restart.way == Way::Warm && restart.stage == Stage::Restart && restart.from.id == here
    });
    // Another restart may have come first.
    is_asked_for && is_jumping()
}

/// Section `[vms]` of the configuration beside the definitions of VMs; if the configuration is wrong,
/// the reason, too, and the defaults if that section is.
pub(in crate::command) fn configuration(dirs: &StateDirs) -> (VmsConfig, Option<anyhow::Error>) {
    let Some(directory) = dirs.config.parent() else {
        return (VmsConfig::default(), None);
    };
    match Config::read(directory) {
        Ok(config) => (config.vms, None),
        Err(error) => {
            let vms = Config::only_vms(directory);
            (vms.unwrap_or_default(), Some(error.into()))
        }
    }
}

/// The domains of libvirt that a configuration names.
pub(in crate::command) fn domains(config: &VmsConfig) -> Domains {
    Domains {
        uri: config.uri.clone(),
        names: config.libvirt.clone(),
    }
}

/// Guests that are suspended at once: each compresses with all processors, and waits for the disk at
/// its end, while another one compresses.
pub(in crate::command) fn suspended_at_once(config: &VmsConfig) -> usize {
    let usual = || processors().clamp(2, 8);
    config.jobs.map_or_else(usual, usize::from)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn with_all(
    what: &str,
    guests: usize,
    jobs: usize,
    ui: &Ui,
    work: impl FnOnce(Turn<'_>) -> Vec<Outcome>,
) -> anyhow::Result<u8> {
    let cancel = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // A second signal means not to wait for the VMs that are under way.
        let status = i32::from(exit::INTERRUPTED);
        signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(&cancel))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&cancel)))
            .with_context(|| format!("cannot watch for signal {signal}"))?;
    }
    let bar = ui.bar(guests as u64, what);
    let done = AtomicU64::new(0);
    let report = |outcome: &Outcome| {
        bar.at(done.fetch_add(1, Ordering::Relaxed) + 1);
        if let Some(done) = outcome.done() {
            bar.above(&done);
        }
    };
    let turn = Turn {
        jobs,
        cancel: &cancel,
        report: &report,
    };
    let outcomes = work(turn);
    let is_over = Arc::<AtomicBool>::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // A terminal may take none of what follows.
        let _ = signal_hook::flag::register_conditional_default(signal, Arc::clone(&is_over));
    }
    is_over.store(true, Ordering::Relaxed);
    if cancel.load(Ordering::Relaxed) {
        end_soon();
    }
    drop(bar);
    let (mut failed, mut interrupted) = (false, false);
    for outcome in outcomes {
        match outcome.result {
            Ok(_) => {}
            Err(Error::Interrupted) => interrupted = true,
            Err(error) => {
                failed = true;
                let text = error_text(&explain(error));
                ui.note(&format!("error: {}: {text}", outcome.name));
            }
        }
    }
    if interrupted {
        ui.note("interrupted; VMs that were not done with are as they were");
        return Ok(exit::INTERRUPTED);
    }
    Ok(if failed { exit::BRISK } else { exit::OK })
}

//! `brisk vm autostart` and `autostop`: all VMs at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Context;
use brisk_tools::vm::{self as tool, Error, Outcome, StateDirs, Turn};
use brisk_vm::cache::Cache;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::named::explain;
use crate::exit;
use crate::parse::duration;
use crate::ui::{Ui, error_text};

/// VMs that are stopped at once; most of them only wait.
const DOWN: usize = 32;

/// Start all VMs with autoboot, and resume those that are suspended.
///
/// brisk-vms.service does this when this host boots. A VM that fails does not keep others from
/// starting; the exit status is then 125.
#[derive(Debug, clap::Args)]
pub(super) struct AutostartArgs {
    /// Number of VMs at once. Default: as many as there are processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
}

/// Suspend, stop or end all running VMs, each as its autoshutdown says.
///
/// brisk-vms.service does this when this host shuts down. A VM that cannot be suspended is stopped
/// instead. A VM that fails does not keep others from stopping; the exit status is then 125.
#[derive(Debug, clap::Args)]
pub(super) struct AutostopArgs {
    /// Number of VMs at once. Default: 32.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// Time limit for a VM to stop.
    #[arg(long, value_name = "DURATION", default_value = "90s")]
    timeout: String,
}

pub(super) fn start(args: &AutostartArgs, ui: &Ui) -> anyhow::Result<u8> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or(processors, usize::from);
    with_all("starting VMs", jobs, ui, tool::autostart)
}

pub(super) fn stop(args: &AutostopArgs, ui: &Ui) -> anyhow::Result<u8> {
    let limit = duration("--timeout", &args.timeout)?;
    let jobs = args.jobs.map_or(DOWN, usize::from);
    with_all("stopping VMs", jobs, ui, |dirs, cache, turn| {
        tool::autostop(dirs, cache, limit, turn)
    })
}

fn with_all(
    what: &str,
    jobs: usize,
    ui: &Ui,
    work: impl FnOnce(&StateDirs, &Cache, Turn<'_>) -> Vec<Outcome>,
) -> anyhow::Result<u8> {
    let dirs = StateDirs::here().map_err(explain)?;
    let cache = Cache::open()?;
    let cancel = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // A second signal means not to wait for the VMs that are under way.
        let status = i32::from(exit::INTERRUPTED);
        signal_hook::flag::register_conditional_shutdown(signal, status, Arc::clone(&cancel))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&cancel)))
            .with_context(|| format!("cannot watch for signal {signal}"))?;
    }
    let bar = ui.bar(dirs.names().len() as u64, what);
    let done = AtomicU64::new(0);
    let report = |outcome: &Outcome| {
        bar.at(done.fetch_add(1, Ordering::Relaxed) + 1);
        if let Ok(Some(action)) = &outcome.result {
            let (name, seconds) = (&outcome.name, outcome.took.as_secs_f64());
            bar.above(&format!("{name}: {} in {seconds:.1} s", action.done()));
        }
    };
    let turn = Turn {
        jobs,
        cancel: &cancel,
        report: &report,
    };
    let outcomes = work(&dirs, &cache, turn);
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

//! Starting, stopping, suspending and resuming.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use brisk_tools::vm::{self as tool, Lazily};
use brisk_vm::cache::Cache;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::super::guest::duration;
use super::super::image::Work;
use super::{concluded, explain, home};
use crate::exit;
use crate::ui::{Spinner, Ui};

/// Boot a machine.
#[derive(Debug, clap::Args)]
pub(super) struct StartArgs {
    /// Its name.
    pub(super) name: String,
}

/// Ask a machine to stop, and wait until it has.
#[derive(Debug, clap::Args)]
pub(super) struct StopArgs {
    /// Its name.
    pub(super) name: String,

    /// How long it may take.
    #[arg(long, value_name = "DURATION", default_value = "90s")]
    pub(super) timeout: String,
}

/// End a machine at once, as by a power cut; of a suspended one, throw the image away.
#[derive(Debug, clap::Args)]
pub(super) struct KillArgs {
    /// Its name.
    pub(super) name: String,
}

/// Write a running machine to its image, and end it when the image is durable.
///
/// If that fails, the machine goes on. Prints what was written and how quickly.
#[derive(Debug, clap::Args)]
pub(super) struct SuspendArgs {
    /// Its name.
    pub(super) name: String,
}

/// Go on from a machine's image.
///
/// The guest runs at once, and its memory comes as it asks for it, the rest in the background; the
/// machine's log says when all is there. The image is used up: once the guest has run, its disks
/// are not what they were.
#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    /// Its name.
    pub(super) name: String,

    /// Have the guest run at once: its memory comes as it asks for it, the rest in the background.
    /// If the process that serves it is killed meanwhile, the machine is lost. Needs QEMU 10.
    #[arg(long)]
    pub(super) lazy: bool,
}

/// Resume a machine and serve its memory until all is there.
#[derive(Debug, clap::Args)]
pub(super) struct FillArgs {
    /// Its name.
    pub(super) name: String,
}

pub(super) fn start(args: &StartArgs, ui: &Ui) -> anyhow::Result<u8> {
    let home = home(&args.name)?;
    let cache = Cache::open()?;
    let cancel = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&cancel))?;
    }
    let mut spinner: Option<Spinner> = None;
    let mut progress = |text: &str| {
        spinner = (!text.is_empty()).then(|| ui.spinner(text));
    };
    let started = tool::start(&home, &cache, &cancel, &mut progress);
    drop(spinner);
    concluded(started, "the machine is off", ui)
}

pub(super) fn stop(args: &StopArgs, ui: &Ui) -> anyhow::Result<u8> {
    let home = home(&args.name)?;
    let limit: Duration = duration("--timeout", &args.timeout)?;
    let spinner = ui.spinner("stopping");
    let stopped = tool::stop(&home, limit);
    drop(spinner);
    stopped.map_err(explain)?;
    Ok(exit::OK)
}

pub(super) fn kill(args: &KillArgs) -> anyhow::Result<u8> {
    tool::kill(&home(&args.name)?).map_err(explain)?;
    Ok(exit::OK)
}

pub(super) fn suspend(args: &SuspendArgs, ui: &Ui) -> anyhow::Result<u8> {
    let home = home(&args.name)?;
    let work = Work::new("suspending", ui)?;
    let suspended = tool::suspend(&home, work.control());
    drop(work);
    let written = suspended.map(|report| {
        for line in report.lines() {
            ui.plain(&format!("{line}\n"));
        }
    });
    concluded(written, "the machine goes on", ui)
}

pub(super) fn resume(args: &ResumeArgs, ui: &Ui) -> anyhow::Result<u8> {
    let home = home(&args.name)?;
    let cache = Cache::open()?;
    let work = Work::new("resuming", ui)?;
    if args.lazy {
        match tool::resume_lazily(&home, work.control()) {
            Ok(Lazily::Unable(reason)) if reason.is_empty() => {}
            Ok(Lazily::Unable(reason)) => {
                ui.note(&format!(
                    "all memory is loaded before the guest runs: {reason}"
                ));
            }
            Ok(Lazily::Runs(resumed)) => {
                drop(work);
                ui.plain(&format!(
                    "{} runs again after {:.3} s: {:.0} MB of memory come as it needs them\n",
                    home.name,
                    resumed.running.as_secs_f64(),
                    resumed.memory as f64 / 1e6,
                ));
                return Ok(exit::OK);
            }
            Err(error) => return concluded(Err(error), "the image is as it was", ui),
        }
    }
    let resumed = tool::resume(&home, &cache, work.control());
    drop(work);
    let said = resumed.map(|resumed| {
        ui.plain(&format!(
            "{} runs again after {:.3} s: {:.0} MB of memory loaded in {:.3} s\n",
            home.name,
            resumed.running.as_secs_f64(),
            resumed.memory as f64 / 1e6,
            resumed.loading.as_secs_f64()
        ));
    });
    concluded(said, "the image is as it was", ui)
}

pub(super) fn fill(args: &FillArgs) -> anyhow::Result<u8> {
    let home = home(&args.name)?;
    let cache = Cache::open()?;
    let cancel = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, Arc::clone(&cancel))?;
    tool::fill(&home, &cache, &cancel, &mut std::io::stdout()).map_err(explain)?;
    Ok(exit::OK)
}

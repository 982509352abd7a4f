//! `brisk vm start`, `stop`, `kill`, `discard`, `suspend`, `resume`, and the hidden commands.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use brisk_image::{Keys, Secret};
use brisk_tools::reboot::restart::Keep;
use brisk_tools::vm::{
    self as tool, Condition, HostRecipient, Postcopied, Resumed, VmPaths, condition,
    needs_passphrase,
};
use brisk_vm::cache::Cache;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::super::image::{KeyArgs, Work, passphrase_of, with_hint};
use super::exec::listed;
use super::named::{concluded, explain, paths};
use crate::parse::duration;
use crate::ui::{Spinner, Ui};
use crate::{exit, passphrase};

/// Boot a VM.
#[derive(Debug, clap::Args)]
pub(super) struct StartArgs {
    /// Name of the VM.
    pub(super) name: String,

    /// Time limit for the guest to come up.
    #[arg(long, value_parser = duration, value_name = "DURATION", default_value = "2m")]
    timeout: Duration,
}

/// Ask a VM to shut down, and wait until it has.
#[derive(Debug, clap::Args)]
pub(super) struct StopArgs {
    /// Name of the VM.
    pub(super) name: String,

    /// Time limit for the VM to stop.
    #[arg(long, value_parser = duration, value_name = "DURATION", default_value = "90s")]
    pub(super) timeout: Duration,
}

/// End a running VM at once, as by a power cut.
///
/// The image of a suspended VM stays: see `brisk vm discard`.
#[derive(Debug, clap::Args)]
pub(super) struct KillArgs {
    /// Name of the VM.
    pub(super) name: String,
}

/// Delete the image of a suspended VM, which is off afterwards.
///
/// What its guest had in memory is lost; its disks stay. If the image is missing, or its resume was
/// cut off, discard forgets or deletes it, too.
#[derive(Debug, clap::Args)]
pub(super) struct DiscardArgs {
    /// Name of the VM.
    pub(super) name: String,
}

/// What becomes of the memory of a VM that is suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::command) enum KeepMemory {
    /// It stays in RAM, and is written to the image.
    WithImage,
    /// It stays in RAM, and is written nowhere.
    Alone,
}

impl From<KeepMemory> for Keep {
    fn from(how: KeepMemory) -> Self {
        match how {
            KeepMemory::WithImage => Self::WithImage,
            KeepMemory::Alone => Self::Alone,
        }
    }
}

/// Suspend a running VM to its image.
///
/// QEMU ends when the image is durable. If the suspend fails, the VM continues. Prints how much was
/// written and how quickly.
#[derive(Debug, clap::Args)]
pub(super) struct SuspendArgs {
    /// Name of the VM.
    pub(super) name: String,

    /// File whose first line is a passphrase that opens the image, too; /dev/fd/N for a descriptor.
    ///
    /// Without it, the terminal is asked if the VM's definition wants a passphrase.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,

    /// Leave out the guest's page cache and free memory.
    ///
    /// The guest drops the cache that it can read from its disks again, which takes some seconds in
    /// which the guest runs. Default: as the VM's definition says.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    drop_cache: Option<bool>,

    /// Keep the memory in RAM, in the area that the VM has it in by keep-memory of its definition.
    ///
    /// The image says where it is and what it was. with-image writes the memory to it, too; alone
    /// does not, so that the VM is lost with the memory.
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true,
          default_missing_value = "with-image")]
    keep_memory: Option<KeepMemory>,

    /// Wait for commands of brisk vm exec to end; no other one begins meanwhile.
    ///
    /// Without it they end with the suspend, which names them.
    #[arg(long)]
    wait: bool,
}

/// Resume a suspended VM from its image.
///
/// The guest runs at once (postcopy): each page of its memory is copied when the guest touches it,
/// the rest in the background. The VM's log says when all memory has been copied. That needs QEMU
/// 10 and userfaultfd(2); without them all memory is loaded first. An image can be resumed once:
/// when the guest has run, its disks have changed.
#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    /// Name of the VM.
    pub(super) name: String,

    /// Load all memory before the guest runs.
    #[arg(long)]
    pub(super) eager: bool,

    /// Start a second VM of this name from the image, and leave the suspended one as it is.
    ///
    /// The clone gets a copy of the definition, the current time, randomness, a host name and a
    /// network card of its own, and a copy of each disk that is written to. All of its memory is
    /// loaded before it runs.
    #[arg(long, value_name = "NAME")]
    clone: Option<String>,

    /// Accept a disk that looks changed, but has the content that it had at the suspend. Repeatable.
    ///
    /// It was restored from a backup, for instance, or moved to another file system. If its content
    /// has changed, the guest destroys what is on it. Loads all memory first.
    #[arg(long, value_name = "PATH")]
    accept_disk: Vec<PathBuf>,

    /// Accept a host that does not have all features of the CPU that the guest had before.
    ///
    /// With KVM and the CPU model `host`, a guest has what the host's processor, its microcode and its
    /// kernel give. If programs in it, or its kernel, use what is missing, they fail. Loads all memory
    /// first.
    #[arg(long)]
    accept_cpu: bool,

    /// Accept a QEMU of another release than the one that made the image.
    ///
    /// An update of the same release needs no such option. Another release may refuse the image, which
    /// stays as it is then, or emulate a device differently, which the guest may not bear; the log of
    /// the VM says that it was tried. Loads all memory first.
    #[arg(long)]
    accept_qemu: bool,

    /// Resume an image again whose last resume was cut off by a crash or a power cut.
    ///
    /// Its disks must be as they were at the suspend. Loads all memory first.
    #[arg(long, conflicts_with = "clone")]
    again: bool,

    /// Keys that open the image, where this host's key does not.
    #[command(flatten)]
    keys: KeyArgs,
}

/// Resume a VM and serve its memory until all of it has been copied.
#[derive(Debug, clap::Args)]
pub(super) struct FillArgs {
    /// Name of the VM.
    pub(super) name: String,

    /// Wait beside the page server of a running VM, and take over when it ends.
    #[arg(long)]
    pub(super) standby: bool,
}

/// Keep the console and the messages of a running VM within bounds until it ends.
#[derive(Debug, clap::Args)]
pub(super) struct BoundLogsArgs {
    /// Name of the VM.
    pub(super) name: String,
}

pub(super) fn start(args: &StartArgs, ui: &Ui) -> anyhow::Result<u8> {
    let paths = paths(&args.name)?;
    let cache = Cache::open()?;
    let cancel = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&cancel))?;
    }
    let mut spinner: Option<Spinner> = None;
    let mut progress = |text: &str| {
        spinner = (!text.is_empty()).then(|| ui.spinner(text));
    };
    let started = tool::start(&paths, &cache, args.timeout, &cancel, &mut progress);
    drop(spinner);
    concluded(started, "the VM is off", ui)
}

pub(super) fn stop(args: &StopArgs, ui: &Ui) -> anyhow::Result<u8> {
    let paths = paths(&args.name)?;
    let spinner = ui.spinner("stopping");
    let stopped = tool::stop(&paths, args.timeout);
    drop(spinner);
    stopped.map_err(explain)?;
    Ok(exit::OK)
}

pub(super) fn kill(args: &KillArgs) -> anyhow::Result<u8> {
    tool::kill(&paths(&args.name)?).map_err(explain)?;
    Ok(exit::OK)
}

pub(super) fn discard(args: &DiscardArgs) -> anyhow::Result<u8> {
    tool::discard(&paths(&args.name)?).map_err(explain)?;
    Ok(exit::OK)
}

pub(super) fn suspend(args: &SuspendArgs, ui: &Ui) -> anyhow::Result<u8> {
    let paths = paths(&args.name)?;
    let passphrase = new_passphrase(&paths, args, ui)?;
    let executions = tool::executions(&paths);
    if !executions.is_empty() {
        ui.note(&match args.wait {
            true => format!("waiting for the end of {}", listed(&executions)),
            false => format!("ends {}; --wait lets it end first", listed(&executions)),
        });
    }
    let had_key = paths.key().exists();
    let work = Work::new("suspending", ui)?;
    let how = tool::Suspending {
        passphrase,
        drop_cache: args.drop_cache,
        wait: args.wait,
        keep: args.keep_memory.map(Keep::from),
    };
    let suspended = tool::suspend(&paths, how, work.control());
    drop(work);
    if !had_key && paths.key().exists() {
        ui.note(&HostRecipient::advice(paths.key()));
    }
    let written = suspended.map(|report| {
        for line in report.lines() {
            ui.plain(&format!("{line}\n"));
        }
    });
    concluded(written, "the VM goes on", ui)
}

/// The passphrase for a new image, if any; asks for it only where it would be used.
fn new_passphrase(paths: &VmPaths, args: &SuspendArgs, ui: &Ui) -> anyhow::Result<Option<Secret>> {
    if let Some(file) = &args.passphrase_file {
        return Ok(Some(Secret::read(file).map_err(with_hint)?));
    }
    let wanted = paths.definition().map_err(explain)?.suspend.passphrase;
    let there = || condition(paths).map_err(explain).map(can_be_suspended);
    if !wanted || !there()? || !std::io::stdin().is_terminal() {
        return Ok(None);
    }
    let prompt = format!("Passphrase for the image of {}: ", paths.name);
    Ok(Some(passphrase::ask_twice(&prompt, ui).map_err(with_hint)?))
}

fn can_be_suspended(now: Condition) -> bool {
    matches!(now, Condition::Running | Condition::Paused)
}

/// Keys that open the image; asks for a passphrase where only that is missing.
fn unlock(paths: &VmPaths, args: &KeyArgs) -> anyhow::Result<Keys> {
    let keys = args.given().map_err(with_hint)?;
    if args.passphrase_file.is_some() {
        return Ok(keys);
    }
    let Some(image) = needs_passphrase(paths, &keys).map_err(explain)? else {
        return Ok(keys);
    };
    let secret = passphrase_of(&image).map_err(with_hint)?;
    Ok(match secret {
        Some(secret) => keys.with_passphrase(secret),
        None => keys,
    })
}

pub(super) fn resume(args: &ResumeArgs, ui: &Ui) -> anyhow::Result<u8> {
    let paths = paths(&args.name)?;
    let cache = Cache::open()?;
    let keys = unlock(&paths, &args.keys)?;
    let absolute = |path: &PathBuf| std::path::absolute(path);
    let how = tool::How {
        keys,
        accepted_disks: args
            .accept_disk
            .iter()
            .map(absolute)
            .collect::<Result<_, _>>()?,
        accepts_cpu: args.accept_cpu,
        accepts_qemu: args.accept_qemu,
        again: args.again,
    };
    let accepts = args.accept_cpu || args.accept_qemu || !args.accept_disk.is_empty();
    let eager = args.eager || args.again || accepts;
    if let Some(name) = &args.clone {
        let new = super::named::paths(name)?;
        let work = Work::new("cloning", ui)?;
        let resumed = tool::resume_clone(&paths, &new, &cache, &how, work.control());
        drop(work);
        let reported = resumed.map(|resumed| report_eager(&format!("{name} runs"), resumed, ui));
        let left = format!("{} is as it was, and there is no {name}", paths.name);
        return concluded(reported, &left, ui);
    }
    let work = Work::new("resuming", ui)?;
    if !eager && !how.keys.is_empty() {
        ui.note("all memory is loaded before the guest runs: only this host's key does without");
    } else if !eager {
        match tool::resume_postcopy(&paths, work.control()) {
            Ok(Postcopied::Unable(reason)) if reason.is_empty() => {}
            Ok(Postcopied::Unable(reason)) => {
                ui.note(&format!(
                    "all memory is loaded before the guest runs: {reason}"
                ));
            }
            Ok(Postcopied::Runs(resumed)) => {
                drop(work);
                ui.plain(&format!(
                    "{} runs again after {:.3} s: {:.0} MB of memory come as it needs them\n",
                    paths.name,
                    resumed.running.as_secs_f64(),
                    resumed.memory as f64 / 1e6,
                ));
                return Ok(exit::OK);
            }
            Err(error) => return concluded(Err(error), "the image is as it was", ui),
        }
    }
    let resumed = tool::resume(&paths, &cache, &how, work.control());
    drop(work);
    let runs = format!("{} runs again", paths.name);
    let reported = resumed.map(|resumed| report_eager(&runs, resumed, ui));
    concluded(reported, "the image is as it was", ui)
}

fn report_eager(runs: &str, resumed: Resumed, ui: &Ui) {
    ui.plain(&format!(
        "{runs} after {:.3} s: {:.0} MB of memory loaded in {:.3} s\n",
        resumed.running.as_secs_f64(),
        resumed.memory as f64 / 1e6,
        resumed.loading.as_secs_f64()
    ));
}

pub(super) fn fill(args: &FillArgs) -> anyhow::Result<u8> {
    let paths = paths(&args.name)?;
    if args.standby {
        tool::stand_by(&paths).map_err(explain)?;
        return Ok(exit::OK);
    }
    let cache = Cache::open()?;
    let cancel = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, Arc::clone(&cancel))?;
    tool::fill(&paths, &cache, &cancel, &mut std::io::stdout()).map_err(explain)?;
    Ok(exit::OK)
}

pub(super) fn bound_logs(args: &BoundLogsArgs) -> anyhow::Result<u8> {
    tool::bound_logs(&paths(&args.name)?).map_err(explain)?;
    Ok(exit::OK)
}

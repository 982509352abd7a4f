//! `brisk reboot rehearse`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use brisk_host::files;
use brisk_host::interrupt::Interrupt;
use brisk_tools::reboot::Target;
use brisk_tools::reboot::rehearse::{
    Goal, Judgement, Origin, RehearseError, Request, Step, Verdict, rehearse,
};
use brisk_vm::cache::Cache;

use super::options::{Form, TargetArgs};
use crate::exit;
use crate::parse;
use crate::ui::Ui;

/// Boot the kernel that would be started in a VM, on this machine's disks, which stay as they are.
///
/// The VM gets the kernel, the initial RAM disks and the command line of the restart, and the disks
/// that the system is on, attached as they are here. It reads them and cannot write to them: what it
/// writes goes to memory. brisk watches its console until the init of the root runs, and says what
/// stops it before that: a damaged file, a driver that the initial RAM disk lacks, a root that is not
/// there.
///
/// Nothing is stopped and nothing restarts. A VM has other hardware than this machine: what a
/// rehearsal does not prove is listed with its verdict.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Exit status: 0 it reached the goal, 10 it did not, and a warm restart would \
                       end badly, 12 it asks for a passphrase, and what comes after is not known; \
                       125 if nothing was rehearsed, 130 after Ctrl-C."
)]
pub(super) struct RehearseArgs {
    #[command(flatten)]
    target: TargetArgs,

    /// Take this image (raw or qcow2) or block device in place of the disks that the system is on.
    /// Several are found in their order.
    #[arg(long = "disk", value_name = "FILE|DEVICE")]
    disks: Vec<PathBuf>,

    /// Wait until the init of the root runs (init), until systemd has started all (userspace), or
    /// until it has started this unit.
    #[arg(long, value_name = "init|userspace|UNIT", default_value = "init")]
    until: Goal,

    /// Time to the goal at most, such as 90s or 10m. initramfs-tools waits half a minute for the
    /// root, dracut three minutes, before they give up.
    #[arg(long, value_parser = parse::duration, value_name = "DURATION", default_value = "5m")]
    timeout: Duration,

    /// Memory of the VM, such as 2G. Default: 1 GiB, more for a large initial RAM disk, and less where
    /// this machine has less.
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<u64>,

    /// CPUs of the VM. Its processes are nice: they get what others leave.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: u32,

    /// Form of the verdict.
    #[arg(long, value_enum, default_value_t = Form::Table)]
    format: Form,
}

/// Rehearses.
///
/// # Errors
/// If the kernel cannot be found, or nothing can be rehearsed or printed.
pub(super) fn run(args: &RehearseArgs, ui: &Ui) -> anyhow::Result<u8> {
    let target = target(args)?;
    let limit = args.timeout;
    let request = Request {
        target: &target,
        disks: match &args.disks[..] {
            [] => Origin::System,
            disks => Origin::Named(disks.to_vec()),
        },
        goal: args.until.clone(),
        limit,
        memory_mib: args.memory,
        cpus: args.cpus,
    };
    let verdict = match watched(&request, ui)? {
        Ok(verdict) => verdict,
        Err(signal) => {
            ui.note("interrupted");
            return Ok(exit::by_signal(signal));
        }
    };
    show(&verdict, args.format, ui)?;
    Ok(match verdict.judgement() {
        Judgement::Passed => exit::OK,
        Judgement::Failed => exit::COLD,
        Judgement::Undecided => exit::UNDECIDED,
    })
}

/// Rehearses, and shows how far it is. The signal that ended it is an error of its own.
///
/// # Errors
/// If nothing can be rehearsed.
pub(super) fn watched(request: &Request<'_>, ui: &Ui) -> anyhow::Result<Result<Verdict, i32>> {
    let interrupt = Interrupt::by_signals().context("cannot watch for signals")?;
    let cache = Cache::open()?;
    let board = ui.board();
    let mut progress = |step: Step<'_>| match step {
        Step::Preparing(what) => board.text(what),
        Step::Running { stage, since } => {
            board.text(&format!("rehearsing until {}", request.goal));
            let end = Some(request.limit.as_secs());
            board.step(stage.name(), since.as_secs(), end);
        }
    };
    match rehearse(request, &cache, &interrupt, &mut progress) {
        Err(RehearseError::Interrupted(signal)) => Ok(Err(signal)),
        verdict => Ok(Ok(verdict?)),
    }
}

fn show(verdict: &Verdict, form: Form, ui: &Ui) -> anyhow::Result<()> {
    match form {
        Form::Table => ui.data(&verdict.text()),
        Form::Json => ui.data(&(serde_json::to_string_pretty(&verdict.json())? + "\n")),
    }
}

/// What would be started. Of another tree the files are that tree's, and its disks are not known.
fn target(args: &RehearseArgs) -> anyhow::Result<Target> {
    let (mut target, _) = args.target.target()?;
    if args.target.root.is_running() {
        return Ok(target);
    }
    ensure!(
        !args.disks.is_empty(),
        "--root: the disks of another system are not known; name them with --disk"
    );
    let root = args.target.root.checked()?;
    target.kernel = files::below(root, &target.kernel);
    for initrd in &mut target.initrds {
        *initrd = files::below(root, initrd);
    }
    Ok(target)
}

fn memory(text: &str) -> Result<u64, String> {
    let mib = parse::memory_mib(text)?;
    match (128..=1 << 20).contains(&mib) {
        true => Ok(mib),
        false => Err(
            "a kernel with an initial RAM disk takes 128 MiB at least, and a VM 1 TiB at most"
                .to_owned(),
        ),
    }
}

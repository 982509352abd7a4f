//! `brisk reboot`.

mod allow;
mod carried;
mod check;
mod list;
mod options;
mod plan;
mod quiesce;
mod rehearse;
mod report;
mod restart;
mod unit;

use clap::Subcommand;

use crate::ui::Ui;

/// Restart this machine into a kernel without its firmware.
///
/// By default it is the entry that the boot loader starts next. The restart is checked first, as by
/// brisk reboot check: a machine that has to go through its firmware does so, and nothing is
/// restarted where a warm reboot is refused. Then the kernel is loaded, VMs of root whose
/// autoshutdown is to suspend are suspended, GPUs are released, a watchdog is armed, and systemd
/// stops the machine and jumps into the kernel. If a step fails, or after Ctrl-C, all of them are
/// undone.
///
/// All of this runs in a unit of systemd, which the end of the terminal does not stop. A kernel that
/// does not come up ends in a boot through the firmware; it is not restarted into that way again
/// until brisk reboot allow permits it.
///
/// With --dry-run it shows the kernel, its initial RAM disks and its command line, and changes
/// nothing.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "Exit status: 0 the machine restarts; 10 with --warm-only if it has to be \
                       restarted through its firmware, 11 if a warm reboot is refused; 125 if \
                       brisk failed, 130 after Ctrl-C."
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    plan: plan::PlanArgs,

    #[command(flatten)]
    restart: restart::RestartArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::ListArgs),
    Check(Box<check::CheckArgs>),
    Rehearse(Box<rehearse::RehearseArgs>),
    Quiesce(quiesce::QuiesceArgs),
    Report(report::ReportArgs),
    Allow(allow::AllowArgs),
    /// Undo a restart whose process was killed.
    Undo,
    /// Restart as /run/brisk/reboot/request.json says.
    #[command(hide = true)]
    Execute,
    /// Note that the machine goes down or comes up.
    #[command(hide = true)]
    Note {
        #[command(subcommand)]
        note: unit::Note,
    },
}

/// Runs a subcommand, plans a restart, or restarts; the result is the exit status.
///
/// # Errors
/// Those of the subcommand, or if nothing was restarted.
pub fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    match &args.command {
        Some(Command::List(args)) => list::run(args, ui),
        Some(Command::Check(args)) => check::run(args, ui),
        Some(Command::Rehearse(args)) => rehearse::run(args, ui),
        Some(Command::Quiesce(args)) => quiesce::run(args, ui),
        Some(Command::Report(args)) => report::run(args, ui),
        Some(Command::Allow(args)) => allow::run(args, ui),
        Some(Command::Undo) => unit::undo(ui),
        Some(Command::Execute) => unit::execute(ui),
        Some(Command::Note { note }) => unit::note(*note, ui),
        None if args.plan.dry_run => plan::run(&args.plan, ui),
        None => restart::run(&args.plan, &args.restart, ui),
    }
}

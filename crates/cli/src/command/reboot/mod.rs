//! `brisk reboot`.

mod check;
mod list;
mod options;
mod plan;
mod quiesce;

use anyhow::bail;
use clap::Subcommand;

use crate::ui::Ui;

/// Restart this machine into a kernel without its firmware.
///
/// So far it is planned and checked alone: --dry-run shows the kernel, its initial RAM disks and its
/// command line, and brisk reboot check whether that could be started. By default it is the entry
/// that the boot loader starts next. Nothing is stopped or changed.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    plan: plan::PlanArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::ListArgs),
    Check(Box<check::CheckArgs>),
    Quiesce(quiesce::QuiesceArgs),
}

/// Runs a subcommand, or plans a restart; the result is the exit status.
///
/// # Errors
/// Those of the subcommand, or if there is no plan.
pub fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    match &args.command {
        Some(Command::List(args)) => list::run(args, ui),
        Some(Command::Check(args)) => check::run(args, ui),
        Some(Command::Quiesce(args)) => quiesce::run(args, ui),
        None if args.plan.dry_run => plan::run(&args.plan, ui),
        None => bail!(
            "nothing was restarted: brisk reboot only plans and checks so far; try brisk reboot \
             --dry-run, brisk reboot check, or brisk reboot list"
        ),
    }
}

//! `brisk vm`.

mod auto;
mod exec;
mod list;
pub(crate) mod named;
mod power;
mod settings;

pub(super) use auto::{configuration, domains, suspended_at_once};
use clap::Subcommand;
pub(super) use named::explain;
pub(super) use power::KeepMemory;

use crate::ui::Ui;

/// Define VMs with a name, run them, suspend them to encrypted images and resume them.
///
/// A VM is defined by a file, NAME.toml in /etc/brisk/vm for root and in ~/.config/brisk/vm for
/// others; `brisk vm set` or an editor changes it. There is no daemon.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(settings::CreateArgs),
    Set(settings::SetArgs),
    List(list::ListArgs),
    Info(list::InfoArgs),
    Start(power::StartArgs),
    Stop(power::StopArgs),
    Kill(power::KillArgs),
    Discard(power::DiscardArgs),
    Suspend(power::SuspendArgs),
    Resume(power::ResumeArgs),
    #[command(hide = true)]
    Fill(power::FillArgs),
    #[command(hide = true)]
    BoundLogs(power::BoundLogsArgs),
    Exec(exec::ExecArgs),
    Console(list::ConsoleArgs),
    Log(list::LogArgs),
    Rm(settings::RmArgs),
    Autostart(auto::AutostartArgs),
    Autostop(auto::AutostopArgs),
}

impl Args {
    /// Whether it ends VMs, which must be possible wherever their files are.
    #[must_use]
    pub const fn ends_vms(&self) -> bool {
        matches!(
            self.command,
            Command::Stop(_) | Command::Kill(_) | Command::Autostop(_)
        )
    }
}

/// Runs a command of `brisk vm`; the result is the exit status.
///
/// # Errors
/// As of the command.
pub fn run(args: &Args, ui: &Ui) -> anyhow::Result<u8> {
    match &args.command {
        Command::Create(args) => settings::create(args, ui),
        Command::Set(args) => settings::set(args, ui),
        Command::List(args) => list::list(args, ui),
        Command::Info(args) => list::info(args, ui),
        Command::Start(args) => power::start(args, ui),
        Command::Stop(args) => power::stop(args, ui),
        Command::Kill(args) => power::kill(args),
        Command::Discard(args) => power::discard(args),
        Command::Suspend(args) => power::suspend(args, ui),
        Command::Resume(args) => power::resume(args, ui),
        Command::Fill(args) => power::fill(args),
        Command::BoundLogs(args) => power::bound_logs(args),
        Command::Exec(args) => exec::exec(args, ui),
        Command::Console(args) => list::console(args, ui),
        Command::Log(args) => list::log(args, ui),
        Command::Rm(args) => settings::rm(args),
        Command::Autostart(args) => auto::start(args, ui),
        Command::Autostop(args) => auto::stop(args, ui),
    }
}

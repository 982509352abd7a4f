//! The command line of brisk: arguments, messages and exit codes.
//!
//! Everything that does something is in `brisk-tools`; a command here parses, calls and
//! prints. The doc comment of an `Args` type is its help, its manual page and its chapter of
//! the reference.

pub mod command;
mod ending;
pub mod exit;
mod hint;
pub mod output;
mod parse;
mod passphrase;
pub mod ui;

use std::sync::Arc;

use brisk_host::dirs::{self, Dirs, Kind};
use clap::{CommandFactory, Parser, Subcommand};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use signal_hook::consts::SIGXFSZ;

use ui::Ui;

/// Give a Linux machine back the time it loses.
#[derive(Debug, Parser)]
#[command(
    name = "brisk",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    after_help = "Files: the cache is /var/cache/brisk for root and ~/.cache/brisk for others; \
                  BRISK_CACHE_DIR moves it. Keys and reports are in /var/lib/brisk for root and \
                  ~/.local/state/brisk for others; BRISK_STATE_DIR moves them."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<command::run::Args>),
    #[command(subcommand)]
    Boot(command::boot::Command),
    Doctor(command::doctor::Args),
    #[command(subcommand)]
    Idle(command::idle::Command),
    #[command(subcommand)]
    Overhead(command::overhead::Command),
    #[command(subcommand)]
    Crypto(command::crypto::Command),
    Reboot(Box<command::reboot::Args>),
    #[command(subcommand)]
    Ktext(command::ktext::Command),
    #[command(subcommand)]
    Kernel(command::kernel::Command),
    #[command(subcommand)]
    Initramfs(command::initramfs::Command),
    #[command(subcommand)]
    Image(command::image::Command),
    Vm(command::vm::Args),
    #[command(hide = true)]
    Completions(command::completions::Args),
}

impl Command {
    /// Directories that it reads or writes, beside the cache, which is looked at when it is opened.
    /// None of what reads the files alone that it is given, nor of the one that tells what is wrong.
    fn keeps(&self) -> &'static [Kind] {
        match self {
            // A shutdown must not be a power cut for them.
            Self::Vm(command) if command.ends_vms() => &[],
            Self::Vm(_) => &[dirs::STATE, dirs::CONFIG, dirs::RUNTIME],
            // Root's VMs are of concern to a restart, and can be named to the others.
            Self::Reboot(_) | Self::Idle(_) | Self::Overhead(_) if geteuid().is_root() => {
                &[dirs::STATE, dirs::CONFIG, dirs::RUNTIME]
            }
            Self::Doctor(_) | Self::Crypto(_) | Self::Initramfs(_) | Self::Completions(_) => &[],
            _ => &[dirs::STATE],
        }
    }
}

/// The whole command line, for manual pages, completions and the reference.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Keeps memory of guests, and keys, out of core dumps of this process and of its children: QEMU
/// and virtiofsd.
///
/// Where core dumps are piped to a program, the kernel ignores the limit, unless it is 1
/// (`do_coredump` in `fs/coredump.c`), which is also too little for a file (core(5)). Other brisk
/// processes may still read this one's descriptors, unlike with `PR_SET_DUMPABLE`.
fn no_core_dump() {
    let maximum = getrlimit(Resource::Core).maximum;
    let current = Some(maximum.map_or(1, |most| most.min(1)));
    // A lower limit is always allowed.
    let _ = setrlimit(Resource::Core, Rlimit { current, maximum });
}

/// Has a write beyond the limit of a file's size (`RLIMIT_FSIZE`) fail, instead of ending the process: a
/// guest that stands still for it is to go on.
fn errors_of_limits() {
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Runs the process's command line; the result is its exit status.
#[must_use]
pub fn main() -> u8 {
    let started = std::time::Instant::now();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let error = hint::dashes(error, std::env::args_os());
            let _ = error.print();
            return if error.use_stderr() { exit::USAGE } else { 0 };
        }
    };
    no_core_dump();
    errors_of_limits();
    let ui = Ui::new();
    if let Err(error) = Dirs::here().check(cli.command.keeps()) {
        ui.error(&error.into());
        return exit::BRISK;
    }
    let result = match cli.command {
        Command::Run(args) => command::run::run(&args, &ui, started),
        Command::Boot(command) => command::boot::run(&command, &ui),
        Command::Doctor(args) => command::doctor::run(&args, &ui),
        Command::Idle(command) => command::idle::run(&command, &ui),
        Command::Overhead(command) => command::overhead::run(&command, &ui),
        Command::Crypto(command) => command::crypto::run(&command, &ui),
        Command::Reboot(args) => command::reboot::run(&args, &ui),
        Command::Ktext(command) => command::ktext::run(&command, &ui),
        Command::Kernel(command) => command::kernel::run(&command, &ui),
        Command::Initramfs(command) => command::initramfs::run(&command, &ui),
        Command::Image(command) => command::image::run(&command, &ui),
        Command::Vm(args) => command::vm::run(&args, &ui),
        Command::Completions(args) => command::completions::run(&args, &ui),
    };
    result.unwrap_or_else(|error| {
        ui.error(&error);
        exit::BRISK
    })
}

//! `brisk boot`.

mod analyze;
mod bench;
mod compare;
mod output;
mod range;
mod target;
mod tune;

use clap::Subcommand;

use crate::ui::Ui;

/// Measure, explain and tune boots.
///
/// The boot target is a guest of brisk's with the kernel and the machine type of the options, the QEMU
/// command line after `--`, or a domain of libvirt's.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Bench(Box<bench::Args>),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Analyze(Box<analyze::Args>),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Compare(Box<compare::Args>),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Range(Box<range::Args>),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Tune(Box<tune::Args>),
}

/// Runs a command of `brisk boot`; the result is the exit status.
///
/// # Errors
/// As of the command.
pub fn run(command: &Command, ui: &Ui) -> anyhow::Result<u8> {
    match command {
        Command::Bench(args) => bench::run(args, ui),
        Command::Analyze(args) => analyze::run(args, ui),
        Command::Compare(args) => compare::run(args, ui),
        Command::Range(args) => range::live(args, ui),
        Command::Tune(args) => tune::run(args, ui),
    }
}

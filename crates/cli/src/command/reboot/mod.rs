//! `brisk reboot`.

mod check;

use crate::ui::Ui;

/// Restart this machine into a kernel without its firmware.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Check(Box<check::Args>),
}

/// Runs a subcommand.
///
/// # Errors
/// If it fails.
pub fn run(command: &Command, ui: &Ui) -> anyhow::Result<u8> {
    match command {
        Command::Check(args) => check::run(args, ui),
    }
}

//! `brisk overhead`.

mod fix;
mod import;
mod operations;
mod picture;
mod run;
mod table;
mod workload;

use clap::Subcommand;

use super::idle::fix::{UndoArgs, undo};
use crate::ui::Ui;

/// Measure what virtualisation costs, and where the loss goes.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Run(Box<run::Args>),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Fix(Box<fix::Args>),
    /// Restore the definition that a domain or VM had before brisk overhead fix --apply.
    ///
    /// Changes are undone one after another, the last first, also those of brisk idle fix. What
    /// somebody changed since is left as it is, unless --force is given.
    Undo(UndoArgs),
    /// Draw results that others measured.
    Import(import::Args),
}

/// Runs a subcommand; the result is the exit status.
///
/// # Errors
/// Those of the subcommand.
pub fn run(command: &Command, ui: &Ui) -> anyhow::Result<u8> {
    match command {
        Command::Run(args) => run::run(args, ui),
        Command::Fix(args) => fix::run(args, ui),
        Command::Undo(args) => undo(args, ui),
        Command::Import(args) => import::run(args, ui),
    }
}

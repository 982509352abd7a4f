//! `brisk idle`.

mod all;
mod causes;
mod description;
pub(super) mod fix;
mod lint;
mod listing;
mod measure;
mod prove;
mod sarif;
mod table;
mod target;
mod watch;

use crate::ui::Ui;

/// Find what idle guests cost this host, why, and what to change.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Measure(Box<measure::Args>),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Lint(Box<lint::Args>),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Fix(Box<fix::Args>),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Undo(fix::UndoArgs),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Prove(Box<prove::Args>),
}

/// Runs a subcommand.
///
/// # Errors
/// If it fails.
pub fn run(command: &Command, ui: &Ui) -> anyhow::Result<u8> {
    match command {
        Command::Measure(args) => measure::run(args, ui),
        Command::Lint(args) => lint::run(args, ui),
        Command::Fix(args) => fix::run(args, ui),
        Command::Undo(args) => fix::undo(args, ui),
        Command::Prove(args) => prove::run(args, ui),
    }
}

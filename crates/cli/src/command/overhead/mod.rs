//! `brisk overhead`.

mod import;
mod picture;
mod run;
mod table;

use clap::Subcommand;

use crate::ui::Ui;

/// Measure what virtualisation costs, and where the loss goes.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Run(run::Args),
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
        Command::Import(args) => import::run(args, ui),
    }
}

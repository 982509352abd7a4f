//! `brisk crypto`.

mod bench;
mod bench_table;
mod combined;
mod options;
mod picture;
mod worker;

use clap::Subcommand;

use crate::ui::Ui;

/// Measure whether crypto hardware is used and worth it, for time and for CPU time.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Bench(Box<bench::Args>),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Combined(Box<combined::Args>),
    /// Measure what standard input asks for, as JSON: what brisk crypto bench --through starts.
    #[command(hide = true)]
    Worker,
}

/// Runs a subcommand; the result is the exit status.
///
/// # Errors
/// Those of the subcommand.
pub fn run(command: &Command, ui: &Ui) -> anyhow::Result<u8> {
    match command {
        Command::Bench(args) => bench::run(args, ui),
        Command::Combined(args) => combined::run(args, ui),
        Command::Worker => worker::run(),
    }
}

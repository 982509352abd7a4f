//! `brisk crypto`.

mod bars;
mod bench;
mod bench_table;
mod combined;
mod config;
mod config_check;
mod consumer;
mod crossover;
mod curves;
mod explain;
mod list;
mod machine;
mod options;
mod picture;
mod worker;

use brisk_tools::crypto::answer_and_exit;
use clap::Subcommand;

pub use crate::output::Form;
use crate::ui::Ui;

/// Find out whether crypto hardware is used, and whether it is worth it.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[allow(missing_docs, reason = "its help is at its arguments")]
    List(list::Args),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Explain(explain::Args),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Bench(Box<bench::Args>),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Crossover(Box<crossover::Args>),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Combined(Box<combined::Args>),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Config(Box<config::Args>),
    /// Measure what standard input asks for, as JSON: what --through starts.
    #[command(hide = true)]
    Worker,
    /// Ask a libcrypto by its functions: what a check by test vectors starts.
    #[command(hide = true)]
    Libcrypto {
        /// Question, as JSON.
        question: String,
    },
}

/// Runs a subcommand; the result is the exit status.
///
/// # Errors
/// Those of the subcommand.
pub fn run(command: &Command, ui: &Ui) -> anyhow::Result<u8> {
    match command {
        Command::List(args) => list::run(args, ui),
        Command::Explain(args) => explain::run(args, ui),
        Command::Bench(args) => bench::run(args, ui),
        Command::Crossover(args) => crossover::run(args, ui),
        Command::Combined(args) => combined::run(args, ui),
        Command::Config(args) => config::run(args, ui),
        Command::Worker => worker::run(),
        Command::Libcrypto { question } => {
            match answer_and_exit(question, &mut std::io::stdout().lock())? {}
        }
    }
}

//! `brisk crypto`.

mod bench;
mod bench_table;
mod combined;
mod options;
mod picture;
mod worker;
mod crossover;
mod curves;
mod picture;

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
mod explain;
mod list;
mod machine;
mod table;

use clap::{Subcommand, ValueEnum};

use crate::ui::Ui;

/// Find out what encrypts here: the CPU or a device, by which way, and why.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[allow(missing_docs, reason = "its help is at its arguments")]
    List(list::Args),
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Explain(explain::Args),
}

/// Form of what is printed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Form {
    /// For people.
    Table,
    /// With a versioned schema.
    Json,
/// Measure crypto in software and by offload.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[allow(missing_docs, reason = "its help is at its arguments")]
    Crossover(crossover::Args),
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
        Command::List(args) => list::run(args, ui),
        Command::Explain(args) => explain::run(args, ui),
        Command::Crossover(args) => crossover::run(args, ui),
    }
}

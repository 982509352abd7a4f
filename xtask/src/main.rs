//! Tasks of this repository: what is generated from the command line, and whether what is
//! committed agrees with it.
//!
//! `cargo xtask check` and the tests of this crate do the same, so that `cargo test` notices
//! a reference that was not generated again and an example that does not parse any more.

mod bench;
mod check;
mod clones;
mod corpus;
mod examples;
mod goals;
mod host;
mod idle;
mod kept;
mod kernels;
mod man;
mod pages;
mod reference;
mod restarts;
mod rules;
mod sections;
mod structure;
mod suspend;
mod versions;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Parser, Subcommand};
use clap_complete::Shell;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Tasks of this repository")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Write the manual pages.
    Man {
        /// Directory to write to.
        #[arg(default_value = "target/man")]
        out: PathBuf,
    },
    /// Write the completions of bash, zsh and fish.
    Completions {
        /// Directory to write to.
        #[arg(default_value = "target/completions")]
        out: PathBuf,
    },
    /// Write the reference chapters of the book and their part of SUMMARY.md.
    Reference,
    /// Measure brisk beside its peers, interleaved, and write the reports.
    Bench(bench::Args),
    /// Measure suspend and resume of a machine beside QEMU's own migration.
    BenchSuspend(suspend::Args),
    /// Measure what watching idle guests and looking at many of them costs.
    BenchIdle(idle::Args),
    /// Measure VMs that are suspended and resumed with their host, one after another and at once.
    BenchHost(host::Args),
    /// Measure restarts of a machine, warm and cold by turns.
    BenchReboot(restarts::Args),
    /// Measure a VM that is suspended and resumed, with its memory in an image and in RAM by turns.
    BenchKept(kept::Args),
    /// Count instructions on the kernel of kernel/ktext beside the one without it.
    BenchKtext(kernels::Args),
    /// Measure brisk beside an earlier version of it.
    BenchVersions(versions::Args),
    /// Render the reports of benchmarks/ as pages and pictures.
    BenchPages(pages::Args),
    /// Try the rules about idle guests on files of other projects.
    IdleCorpus(corpus::Args),
    /// Check limits of the code: lengths, fields, cycles of imports, vague doc comments.
    Structure(structure::Args),
    /// Compare the committed reference with the command line; try examples and links.
    Check,
}

fn main() -> anyhow::Result<()> {
    let command = command();
    match Cli::parse().task {
        Task::Man { out } => {
            for page in man::pages(&command)? {
                write(&out.join(page.name), &page.text)?;
            }
        }
        Task::Completions { out } => completions(&mut command.clone(), &out)?,
        Task::Reference => {
            for file in reference::files(&repository(), &command)? {
                write(&file.path, &file.text)?;
            }
        }
        Task::Bench(args) => bench::run(&args)?,
        Task::BenchSuspend(args) => suspend::run(&args)?,
        Task::BenchIdle(args) => idle::run(&args)?,
        Task::BenchHost(args) => host::run(&args)?,
        Task::BenchReboot(args) => restarts::run(&args)?,
        Task::BenchKept(args) => kept::run(&args)?,
        Task::BenchKtext(args) => kernels::run(&args)?,
        Task::BenchVersions(args) => versions::run(&args)?,
        Task::BenchPages(args) => {
            let mut out = io::stdout().lock();
            for path in pages::run(&args)? {
                writeln!(out, "{}", path.display())?;
            }
        }
        Task::IdleCorpus(args) => report(&corpus::run(&args)?, "no rule or fix went wrong")?,
        Task::Structure(args) => match structure::run(&args, &repository())? {
            structure::Output::Problems(problems) => {
                report(&problems, "the code keeps its limits")?;
            }
            structure::Output::Text(text) => io::stdout().lock().write_all(text.as_bytes())?,
        },
        Task::Check => {
            let problems = check::problems(&repository(), &command)?;
            report(
                &problems,
                "reference, examples and links agree with the command line",
            )?;
        }
    }
    Ok(())
}

/// Says what is wrong, which is an error, or that all is well.
fn report(problems: &[String], well: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    for problem in problems {
        writeln!(out, "{problem}")?;
    }
    anyhow::ensure!(problems.is_empty(), "{} problems", problems.len());
    writeln!(out, "{well}")?;
    Ok(())
}

/// The command line of brisk, with the names that clap gives its subcommands.
fn command() -> clap::Command {
    let mut command = brisk_cli::command();
    command.build();
    command
}

/// The top of the work tree.
fn repository() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().map_or_else(|| own.into(), Path::to_owned)
}

fn completions(command: &mut clap::Command, out: &Path) -> anyhow::Result<()> {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut text = Vec::new();
        clap_complete::generate(shell, command, "brisk", &mut text);
        let name = clap_complete::Generator::file_name(&shell, "brisk");
        write(&out.join(name), &String::from_utf8(text)?)?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

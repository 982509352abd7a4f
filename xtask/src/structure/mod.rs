//! Limits on the shape of the code, which `make check` keeps: lengths of files, fields of structs,
//! tuples as parameters, doc comments that do not say what a thing is, and cycles of imports.
//!
//! Lengths of functions and counts of parameters are limits of clippy (`clippy.toml`).

mod counts;
mod cycles;
mod dot;
mod graph;
mod limits;
mod modules;
mod source;

use std::path::{Path, PathBuf};

use counts::Counts;
use graph::Graph;
use source::sources;

/// Options of `cargo xtask structure`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the graph of imports for dot(1) of Graphviz.
    #[arg(long)]
    dot: bool,
    /// Print numbers instead of problems.
    #[arg(long, conflicts_with = "dot")]
    counts: bool,
    /// Look at the work tree in DIR, which may be of another commit.
    #[arg(long, value_name = "DIR")]
    repository: Option<PathBuf>,
}

/// Result of `cargo xtask structure`.
pub(crate) enum Output {
    /// Everything beyond a limit, one line each.
    Problems(Vec<String>),
    /// Text that an option asks for.
    Text(String),
}

/// Runs `cargo xtask structure` for `repository`, unless the options name another one.
pub(crate) fn run(args: &Args, repository: &Path) -> anyhow::Result<Output> {
    let repository = args.repository.as_deref().unwrap_or(repository);
    if args.dot {
        return Ok(Output::Text(dot::render(&Graph::new(&sources(
            repository,
        )?))));
    }
    if args.counts {
        return Ok(Output::Text(Counts::new(&sources(repository)?).table()));
    }
    problems(repository).map(Output::Problems)
}

/// An exception from a limit, with its reason.
struct Exception {
    /// Begins a problem that is accepted.
    problem: &'static str,
    /// Why.
    #[expect(dead_code, reason = "for the reader of this list")]
    reason: &'static str,
}

/// All of them; one that nothing needs any more is a problem itself.
const EXCEPTIONS: [Exception; 0] = [];

/// Everything that is beyond a limit, one line each.
fn problems(repository: &Path) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for source in sources(repository)? {
        for (file, text) in source.tree.files().iter().zip(&source.texts) {
            problems.extend(limits::problems(&file.path, text, &file.code));
        }
        let cycles = cycles::cycles(&source.path, &source.tree);
        problems.extend(cycles.iter().map(ToString::to_string));
    }
    let mut needed = vec![false; EXCEPTIONS.len()];
    problems.retain(|problem| {
        let exception = EXCEPTIONS
            .iter()
            .position(|exception| problem.starts_with(exception.problem));
        if let Some(place) = exception {
            needed[place] = true;
        }
        exception.is_none()
    });
    let unneeded = EXCEPTIONS.iter().zip(needed).filter(|(_, needed)| !needed);
    problems.extend(
        unneeded.map(|(exception, _)| format!("nothing needs the exception {}", exception.problem)),
    );
    Ok(problems)
}

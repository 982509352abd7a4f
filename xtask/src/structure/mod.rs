//! Limits on the shape of the code, which `make check` keeps: lengths of files, fields of structs,
//! tuples as parameters, doc comments that do not say what a thing is, and cycles of imports.
//!
//! Lengths of functions and counts of parameters are limits of clippy (`clippy.toml`).

mod cycles;
mod limits;
mod modules;

use std::fs;
use std::path::Path;

use anyhow::Context;
use modules::Tree;

/// Folders whose code is looked at, each the source of a crate.
const CRATES: [&str; 11] = [
    "crates/cli/src",
    "crates/host/src",
    "crates/image/src",
    "crates/measure/src",
    "crates/rootfs/src",
    "crates/sys/src",
    "crates/testkit/src",
    "crates/tools/src",
    "crates/vm/src",
    "guest/init/src",
    "xtask/src",
];

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
pub(crate) fn problems(repository: &Path) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for source in CRATES {
        let tree = Tree::read(repository, source)?;
        for file in tree.files() {
            let text = fs::read_to_string(repository.join(&file.path))
                .with_context(|| format!("cannot read {}", file.path.display()))?;
            problems.extend(limits::problems(&file.path, &text, &file.code));
        }
        problems.extend(cycles::problems(source, &tree));
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

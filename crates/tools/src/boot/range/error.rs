//! Why a range came to no end.

use std::path::PathBuf;

use super::git::GitError;
use super::state::StateError;

/// Why a range came to no end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The repository is of no use.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The state could not be kept.
    #[error(transparent)]
    State(#[from] StateError),
    /// A build or its artifacts could not be handled.
    #[error("cannot use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Message of the system.
        source: std::io::Error,
    },
    /// So few runs decide nothing.
    #[error(
        "with at most {most} runs of a commit no change can be distinguished from chance: allow {needed}"
    )]
    TooFewRuns {
        /// What was allowed.
        most: u32,
        /// How many are needed.
        needed: u32,
    },
    /// No artifact was asked for.
    #[error("nothing to boot: name at least one artifact of the build")]
    NoArtifacts,
    /// Someone wanted an end. What was finished is kept.
    #[error("interrupted; the same command goes on from here")]
    Interrupted,
}

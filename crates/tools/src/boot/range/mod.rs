//! Boots over the commits of a repository: every commit is measured, or the commit of a change is
//! found.
//!
//! The commits of `A..B` are those of the first-parent line, oldest first, and before them the
//! first parent of the oldest one, which is `A` where `A` lies on that line. A merge is one commit:
//! it counts for everything that it brought in, and every commit that is built is one that the
//! branch really was at.
//!
//! [`plan`] decides about the next step and [`judge`] about the meaning of runs; both are pure.
//! [`git`] and [`build`] make the artifacts of a commit, [`state`] is saved between runs of brisk,
//! and [`Engine`] executes the steps. A [`Measure`] measures commits.

mod build;
mod counted;
mod culprit;
mod engine;
mod error;
mod git;
mod judge;
mod live;
mod plan;
mod report;
mod schedules;
mod state;
mod trials;

use std::path::PathBuf;
use std::time::Duration;

use brisk_measure::{Series, Timeline};
use serde::{Deserialize, Serialize};

pub use build::{Artifact, Artifacts, Role, Wanted, WantedError};
pub use engine::{Engine, Event};
pub use error::Error;
pub use git::{Commit, GitError};
pub use live::{Live, Template};
pub use plan::Answer;
pub use state::{SCHEMA, StateError};

/// Measures a commit by its artifacts.
pub trait Measure {
    /// Boots `runs` times, without warm-ups; the result is a series with a sample for each: in
    /// instructions for [`Mode::Deterministic`], else in seconds.
    ///
    /// # Errors
    ///
    /// [`Unbootable`] if there is no point in trying again: the commit is left out.
    fn measure(
        &mut self,
        artifacts: &Artifacts,
        runs: u32,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Measured, Unbootable>;

    /// Counts the instructions of a boot, whatever is measured; `None` where that is not possible,
    /// or not equal in every boot.
    fn count(&mut self, artifacts: &Artifacts) -> Option<f64>;
}

/// Measurement of a commit.
#[derive(Debug, Clone)]
pub struct Measured {
    /// A sample for each run.
    pub series: Series,
    /// Timeline of a run, if one was traced.
    pub timeline: Option<Timeline>,
}

/// Reason why a commit's artifacts do not boot. May have text of the guest.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct Unbootable(pub String);

/// Measured quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Wall-clock time. Runs differ, so there are many, those of commits that are compared
    /// interleaved.
    WallClock,
    /// Instructions. All runs of a commit are equal, so there is one.
    Deterministic,
}

impl Mode {
    /// Default of the relative difference up to which two commits count as equal. Counted
    /// instructions change a little with the length of version strings and the layout of an image;
    /// times of boots are rarely worth less than 2 %.
    #[must_use]
    pub fn tolerance(self) -> f64 {
        match self {
            Self::WallClock => 0.02,
            Self::Deterministic => 0.001,
        }
    }
}

/// Goal of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Measure each commit, or each `step`-th and the last.
    Walk {
        /// 1 for each.
        step: usize,
    },
    /// Find the commit of a change, in as few builds as halving takes.
    Bisect,
}

/// Options of a range.
#[derive(Debug, Clone)]
pub struct Options {
    /// A directory of the repository.
    pub repository: PathBuf,
    /// `A..B`.
    pub range: String,
    /// The command that builds a commit, for `sh -c` in a worktree at that commit.
    pub build: String,
    /// Time limit of a build.
    pub build_limit: Option<Duration>,
    /// Whether each build begins in a worktree without the files of the one before.
    pub clean: bool,
    /// Artifacts of a build, at least one.
    pub artifacts: Vec<Wanted>,
    /// Measured quantity.
    pub mode: Mode,
    /// Everything else that decides about a measurement, such as the options of the guest: earlier
    /// measurements are used again only with an equal setting.
    pub setting: String,
    /// Goal of the range.
    pub goal: Goal,
    /// Runs of each commit before the first look, with [`Mode::WallClock`].
    pub runs: u32,
    /// The most runs of each commit in one comparison.
    pub max_runs: u32,
    /// Relative difference up to which commits count as equal. Default: [`Mode::tolerance`].
    pub tolerance: Option<f64>,
    /// Whether to forget builds and measurements of earlier runs of brisk.
    pub fresh: bool,
    /// Directory of builds, worktrees, logs and the state.
    pub dir: PathBuf,
}

impl Options {
    fn tolerance(&self) -> f64 {
        self.tolerance.unwrap_or_else(|| self.mode.tolerance())
    }
}

#[cfg(test)]
mod tests;

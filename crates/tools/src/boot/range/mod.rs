//! Boots over the commits of a repository: every commit measured, or the one found that changed
//! something.
//!
//! The commits of `A..B` are those of the first-parent line, oldest first, and before them the
//! first parent of the oldest one, which is `A` where `A` lies on that line. A merge is one commit:
//! what it brought in counts as its doing, and every commit that is built is one that the branch
//! really was at.
//!
//! [`plan`] says what to do next and [`judge`] what runs amount to; both are pure. [`git`] and
//! [`build`] make the artifacts of a commit, [`state`] keeps what is known between runs of brisk,
//! and [`Engine`] carries it all out. What measures is a [`Measure`].

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

/// What boots the artifacts of a commit and says how long it took.
pub trait Measure {
    /// Boots `runs` times, without warm-ups, and gives a series with a sample for each: in
    /// instructions for [`Mode::Deterministic`], else in seconds.
    ///
    /// # Errors
    ///
    /// [`Unbootable`] if it is of no use to try again: the commit is left out.
    fn measure(
        &mut self,
        artifacts: &Artifacts,
        runs: u32,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Measured, Unbootable>;

    /// Counts the instructions of a boot, whatever is measured; none where that is not possible, or
    /// not the same in every boot.
    fn count(&mut self, artifacts: &Artifacts) -> Option<f64>;
}

/// What booting a commit showed.
#[derive(Debug, Clone)]
pub struct Measured {
    /// A sample for each run.
    pub series: Series,
    /// Where the time of a run went, if it was looked at.
    pub timeline: Option<Timeline>,
}

/// Why a commit's artifacts do not boot. May hold text of the guest.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct Unbootable(pub String);

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Time. Runs differ, so there are many, those of commits that are compared in turns.
    WallClock,
    /// Instructions. Every run of a commit is the same, so there is one.
    Deterministic,
}

impl Mode {
    /// The relative difference up to which two commits count as alike, unless chosen otherwise.
    /// Counted instructions move a little with the length of version strings and the layout of an
    /// image; times of boots are rarely worth less than 2 %.
    #[must_use]
    pub fn tolerance(self) -> f64 {
        match self {
            Self::WallClock => 0.02,
            Self::Deterministic => 0.001,
        }
    }
}

/// What to do with the commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Measure each, or each so-many-th and the last.
    Walk {
        /// 1 for each.
        step: usize,
    },
    /// Find the one commit that changed something, in as few builds as halving takes.
    Bisect,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// A directory of the repository.
    pub repository: PathBuf,
    /// `A..B`.
    pub range: String,
    /// The command that builds a commit, for `sh -c` in a worktree at that commit.
    pub build: String,
    /// How long a build may take.
    pub build_limit: Option<Duration>,
    /// Whether each build begins in a worktree without the files of the one before.
    pub clean: bool,
    /// What the build leaves behind, at least one.
    pub artifacts: Vec<Wanted>,
    /// What is measured.
    pub mode: Mode,
    /// Everything else that decides what a measurement gives, as the options of the guest: what is
    /// known of a commit is used again only for the same.
    pub setting: String,
    /// What to do.
    pub goal: Goal,
    /// Runs of each commit after which a first look is taken, with [`Mode::WallClock`].
    pub runs: u32,
    /// The most runs of each commit in one comparison.
    pub max_runs: u32,
    /// The relative difference up to which commits count as alike. Default:
    /// [`Mode::tolerance`].
    pub tolerance: Option<f64>,
    /// Whether to forget what earlier runs of brisk built and measured.
    pub fresh: bool,
    /// Where builds, worktrees, logs and the state are kept.
    pub dir: PathBuf,
}

impl Options {
    fn tolerance(&self) -> f64 {
        self.tolerance.unwrap_or_else(|| self.mode.tolerance())
    }
}

#[cfg(test)]
mod tests;

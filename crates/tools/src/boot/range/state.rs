//! State of a range, saved between runs of brisk.
//!
//! ```text
//! KEY/state.json            this state
//! KEY/timelines/SHA.json    timeline of a commit's boot
//! KEY/logs/SHA.log          log of its build
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use brisk_host::files::{self, Durability};
use brisk_measure::{Comparison, Series, Timeline};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::git::Commit;
use super::plan::{Bisection, Known};
use super::{Mode, Wanted};

/// The schema of the state. The number is raised when a reader of the old one would misread the
/// new.
pub const SCHEMA: &str = "brisk.range/1";

/// Error of saving the state.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// A file cannot be read or written.
    #[error("cannot use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file is no state of a range.
    #[error("{} is no state of a range that this version of brisk knows: start with --fresh", .0.display())]
    Foreign(PathBuf),
}

/// Result of a commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub(super) enum Outcome {
    /// It could not be built.
    NotBuilt { reason: String },
    /// Its build did not boot.
    NotBooted { reason: String },
    /// It boots.
    Booted { series: Series },
}

/// A commit with its measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    #[serde(flatten)]
    pub(super) commit: Commit,
    #[serde(default)]
    pub(super) outcome: Option<Outcome>,
    /// The commit that it was compared with last, and the result.
    #[serde(default)]
    pub(super) compared: Option<Compared>,
    /// Instructions of its boot, if they were counted.
    #[serde(default)]
    pub(super) counted: Option<Counted>,
}

/// The count of a boot of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Counted {
    /// None where that is not the same in every boot, or cannot be counted.
    pub(super) instructions: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Compared {
    pub(super) with: usize,
    pub(super) comparison: Comparison,
}

impl Record {
    pub(super) fn known(&self) -> Known {
        match self.outcome {
            None => Known::Untried,
            Some(Outcome::Booted { .. }) => Known::Good,
            Some(_) => Known::Useless,
        }
    }

    pub(super) fn series(&self) -> Option<&Series> {
        match &self.outcome {
            Some(Outcome::Booted { series }) => Some(series),
            _ => None,
        }
    }
}

/// Everything that decides about the measurements: its hash is the key of the state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Subject {
    pub(super) repository: PathBuf,
    pub(super) first: String,
    pub(super) last: String,
    pub(super) commits: usize,
    pub(super) build: String,
    pub(super) clean: bool,
    pub(super) artifacts: Vec<Wanted>,
    pub(super) mode: Mode,
    pub(super) setting: String,
}

impl Subject {
    pub(super) fn key(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        brisk_vm::cache::key(&text)[..24].to_owned()
    }
}

/// State of a range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    schema: String,
    pub(super) subject: Subject,
    /// Builds that were begun.
    pub(super) builds: usize,
    /// The number of the next round of runs.
    pub(super) round: u32,
    pub(super) records: Vec<Record>,
    #[serde(default)]
    pub(super) bisection: Option<Bisection>,
}

impl State {
    pub(super) fn new(subject: Subject, commits: Vec<Commit>) -> Self {
        let record = |commit| Record {
            commit,
            outcome: None,
            compared: None,
            counted: None,
        };
        Self {
            schema: SCHEMA.to_owned(),
            subject,
            builds: 0,
            round: 0,
            records: commits.into_iter().map(record).collect(),
            bisection: None,
        }
    }

    /// Loads the state of a directory; `None` if there is none yet.
    pub(super) fn load(dir: &Path) -> Result<Option<Self>, StateError> {
        let path = dir.join("state.json");
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StateError::File { path, source }),
        };
        match serde_json::from_slice::<Self>(&text) {
            Ok(state) if state.schema == SCHEMA => Ok(Some(state)),
            _ => Err(StateError::Foreign(path)),
        }
    }

    pub(super) fn save(&self, dir: &Path) -> Result<(), StateError> {
        write_json(&dir.join("state.json"), self)
    }

    pub(super) fn known(&self) -> Vec<Known> {
        self.records.iter().map(Record::known).collect()
    }
}

fn timeline_path(dir: &Path, sha: &str) -> PathBuf {
    dir.join("timelines").join(format!("{sha}.json"))
}

/// Timeline of a commit's boot, if one was traced.
pub(super) fn timeline(dir: &Path, sha: &str) -> Option<Timeline> {
    read_json(&timeline_path(dir, sha))
}

pub(super) fn keep_timeline(dir: &Path, sha: &str, timeline: &Timeline) -> Result<(), StateError> {
    write_json(&timeline_path(dir, sha), timeline)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Writes a file atomically.
fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), StateError> {
    let write = || -> io::Result<()> {
        // The boots that are measured may bring the host down.
        files::replace(path, &serde_json::to_vec(value)?, Durability::Synced)
    };
    write().map_err(|source| StateError::File {
        path: path.to_owned(),
        source,
    })
}

//! Record of what was done, by which it is put back after anything: `quiesced.json` in
//! `/run/brisk/reboot`, which is empty after a restart.

use std::io;
use std::path::{Path, PathBuf};

use brisk_host::files;
use serde::{Deserialize, Serialize};

use super::action::Action;
use super::names;

const SCHEMA: &str = "brisk.reboot.quiesced/1";
/// Bytes that a record has at most.
const LARGEST: u64 = 1 << 20;

/// How far an action is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// Nothing of it was done.
    Planned,
    /// It was begun, and may have been done or not.
    Begun,
    /// It was done.
    Done,
    /// It was put back.
    Back,
}

/// An action of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// How far it is.
    pub progress: Progress,
    /// The action.
    pub step: Action,
}

/// What was done, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    schema: String,
    /// Identifies the boot in which it was done.
    boot: String,
    /// Each action.
    pub entries: Vec<Entry>,
}

/// A record that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// It is no record.
    #[error(
        "{} is no record of what brisk reboot quiesce did ({reason}); start the services and load \
         the modules by hand, then remove it",
        path.display()
    )]
    Form {
        /// The file.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
}

impl Record {
    /// A record of actions of which none is begun, in this boot.
    #[must_use]
    pub fn new(actions: impl IntoIterator<Item = Action>, boot: String) -> Self {
        let entry = |step| Entry {
            progress: Progress::Planned,
            step,
        };
        Self {
            schema: SCHEMA.to_owned(),
            boot,
            entries: actions.into_iter().map(entry).collect(),
        }
    }

    /// Reads the record of this boot; none if there is no file, or it is of another boot.
    ///
    /// # Errors
    /// If it cannot be read, or is none.
    pub fn read(path: &Path, boot: &str) -> Result<Option<Self>, RecordError> {
        let bytes = match files::start(path, LARGEST + 1) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|source| RecordError::Read {
                path: path.to_owned(),
                source,
            })?,
        };
        let form = |reason| RecordError::Form {
            path: path.to_owned(),
            reason,
        };
        if bytes.len() as u64 > LARGEST {
            return Err(form("it has more than 1 MiB".to_owned()));
        }
        let record: Self =
            serde_json::from_slice(&bytes).map_err(|error| form(error.to_string()))?;
        if record.schema != SCHEMA {
            return Err(form(format!("its schema is {:?}", record.schema)));
        }
        // Names become parts of paths and of command lines.
        let mut actions = record.entries.iter().map(|entry| &entry.step);
        if let Some(action) = actions.find(|action| !names::are_plain(action)) {
            return Err(form(format!("a name in it is none: {action:?}")));
        }
        Ok((record.boot == boot).then_some(record))
    }

    /// As the bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let text = serde_json::to_string_pretty(self).expect("text and numbers become JSON");
        (text + "\n").into_bytes()
    }

    /// Whether all of it was done, and nothing put back.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let mut entries = self.entries.iter();
        entries.all(|entry| entry.progress == Progress::Done)
    }
}

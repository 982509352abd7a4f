//! The trial load: the real files are loaded and unloaded again.

use crate::chain;
use crate::reboot::load::{LoadError, Refusal};

/// A trial load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// It has not been made yet.
    NotYet,
    /// It was not asked for.
    NotAsked,
    /// It is left out, for a reason.
    LeftOut(String),
    /// The kernel took the files.
    Passed,
    /// The kernel refused them.
    Refused(Refusal),
    /// It could not be tried, or not be undone.
    Failed(String),
}

impl Trial {
    /// Result of loading and unloading.
    #[must_use]
    pub fn of(result: Result<(), LoadError>) -> Self {
        match result {
            Ok(()) => Self::Passed,
            Err(LoadError::Refused(refusal)) => Self::Refused(refusal),
            Err(error) => Self::Failed(chain(&error)),
        }
    }

    /// For people.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::NotYet | Self::NotAsked => "left out (--no-trial-load)".to_owned(),
            Self::LeftOut(reason) => format!("left out: {reason}"),
            Self::Passed => {
                "passed: the kernel took the files, and they are unloaded again".to_owned()
            }
            Self::Refused(refusal) => format!("refused: {refusal}"),
            Self::Failed(reason) => format!("failed: {reason}"),
        }
    }

    /// For programs.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::NotYet | Self::NotAsked => "not-asked",
            Self::LeftOut(_) => "left-out",
            Self::Passed => "passed",
            Self::Refused(_) => "refused",
            Self::Failed(_) => "failed",
        }
    }
}

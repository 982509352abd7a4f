//! The trial load: the real files are loaded and unloaded again.

use brisk_host::program;

use crate::reboot::load::{Call, LoadError, Refusal};
use brisk_host::chain;

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
    /// The kernel took them by the older call, and has refused them by the newer one.
    PassedByOlderCall(Refusal),
    /// The kernel refused them.
    Refused(Refusal),
    /// The kernel refused them, and kexec, which makes the older call, is not installed.
    NoProgram(Refusal),
    /// It could not be tried, or not be undone.
    Failed(String),
}

impl Trial {
    /// Result of loading and unloading.
    #[must_use]
    pub fn of(result: Result<Call, LoadError>) -> Self {
        match result {
            Ok(Call::Newer) => Self::Passed,
            Ok(Call::Older(refusal)) => Self::PassedByOlderCall(refusal),
            Err(LoadError::Refused(refusal)) => Self::Refused(refusal),
            Err(LoadError::Older {
                refusal,
                source: program::Error::NotFound { .. },
            }) => Self::NoProgram(refusal),
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
            Self::PassedByOlderCall(_) => {
                "passed: the kernel took the files by kexec_load, and they are unloaded again"
                    .to_owned()
            }
            Self::Refused(refusal) | Self::NoProgram(refusal) => format!("refused: {refusal}"),
            Self::Failed(reason) => format!("failed: {reason}"),
        }
    }

    /// For programs.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::NotYet | Self::NotAsked => "not-asked",
            Self::LeftOut(_) => "left-out",
            Self::Passed | Self::PassedByOlderCall(_) => "passed",
            Self::Refused(_) | Self::NoProgram(_) => "refused",
            Self::Failed(_) => "failed",
        }
    }
}

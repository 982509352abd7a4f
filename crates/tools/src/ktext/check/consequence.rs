//! What follows from findings.

use serde::Serialize;

use brisk_lint::{Finding, Grade};

/// What follows from a finding, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Consequence {
    /// Nothing, but it is to be known.
    Note,
    /// There may be little to gain, or something is lost.
    Warn,
    /// What decides it cannot be read.
    Unknown,
    /// The kernel would not replicate its text on this machine as it was booted.
    Refuse,
    /// There is nothing that a copy could bring nearer.
    NoGain,
}

impl Consequence {
    /// For people and programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warn => "warn",
            Self::Unknown => "unknown",
            Self::Refuse => "refuse",
            Self::NoGain => "no-gain",
        }
    }
}

impl Grade for Consequence {
    const FIELD: &'static str = "consequence";
}

/// Whether a machine could gain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It could: that is to be measured.
    CouldGain,
    /// What decides it cannot be read.
    NotKnown,
    /// The kernel would refuse, as the machine was booted.
    Refused,
    /// It could not.
    NoGain,
}

impl Verdict {
    /// Result of findings: that of the worst one.
    #[must_use]
    pub fn of(findings: &[Finding<Consequence>]) -> Self {
        match findings.iter().map(|finding| finding.severity).max() {
            None | Some(Consequence::Note | Consequence::Warn) => Self::CouldGain,
            Some(Consequence::Unknown) => Self::NotKnown,
            Some(Consequence::Refuse) => Self::Refused,
            Some(Consequence::NoGain) => Self::NoGain,
        }
    }
}

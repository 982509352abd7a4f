//! What follows from findings.

use serde::Serialize;

use brisk_lint::{Finding, Grade};

/// What follows from a finding, the least first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Consequence {
    /// Nothing, but it is to be known.
    Note,
    /// A warm reboot is possible, and something may not be as it should after it.
    Warn,
    /// The machine has to be restarted through its firmware.
    Cold,
    /// A warm reboot is impossible, or would end in a machine that does not run.
    Refuse,
}

impl Consequence {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warn => "warn",
            Self::Cold => "cold",
            Self::Refuse => "refuse",
        }
    }
}

impl Grade for Consequence {
    const FIELD: &'static str = "consequence";
}

/// How a machine may be restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Without its firmware.
    Warm,
    /// Through its firmware.
    Cold,
    /// Not before something has changed.
    Refused,
}

impl Verdict {
    /// Result of findings: that of the worst one.
    #[must_use]
    pub fn of(findings: &[Finding<Consequence>]) -> Self {
        match findings.iter().map(|finding| finding.severity).max() {
            None | Some(Consequence::Note | Consequence::Warn) => Self::Warm,
            Some(Consequence::Cold) => Self::Cold,
            Some(Consequence::Refuse) => Self::Refused,
        }
    }

    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Cold => "cold",
            Self::Refused => "refused",
        }
    }
}

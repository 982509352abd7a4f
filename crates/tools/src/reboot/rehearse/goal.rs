//! How far a rehearsal goes.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Characters of a unit's name besides letters and digits (systemd.unit(5)).
const IN_UNITS: &str = ":-_.\\@";
/// Longest name of a unit, bytes (`UNIT_NAME_MAX` of systemd).
const LONGEST: usize = 255;

/// What has to be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Goal {
    /// The init of the root file system runs.
    Init,
    /// systemd has started all that belongs to a boot.
    Userspace,
    /// systemd has started this unit.
    Unit(String),
}

/// A text that is no goal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} is no goal of a rehearsal: write init, userspace, or the name of a unit with its ending, \
     such as multi-user.target"
)]
pub struct NoGoal(String);

impl Goal {
    /// Whether the messages of systemd have to be seen for it.
    #[must_use]
    pub const fn is_of_systemd(&self) -> bool {
        matches!(self, Self::Userspace | Self::Unit(_))
    }
}

impl FromStr for Goal {
    type Err = NoGoal;

    fn from_str(text: &str) -> Result<Self, NoGoal> {
        let is_usual = |c: char| c.is_ascii_alphanumeric() || IN_UNITS.contains(c);
        match text {
            "init" => Ok(Self::Init),
            "userspace" => Ok(Self::Userspace),
            unit if unit.len() <= LONGEST
                && unit.chars().all(is_usual)
                && unit
                    .rsplit_once('.')
                    .is_some_and(|(name, kind)| !name.is_empty() && !kind.is_empty()) =>
            {
                Ok(Self::Unit(unit.to_owned()))
            }
            _ => Err(NoGoal(text.to_owned())),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Init => "init",
            Self::Userspace => "userspace",
            Self::Unit(unit) => unit,
        })
    }
}

impl Serialize for Goal {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_words_or_units() {
        for text in ["init", "userspace", "multi-user.target", "a@b\\x2d.service"] {
            assert_eq!(text.parse::<Goal>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "Init",
            "multi-user",
            ".target",
            "a.",
            "a b.target",
            "a\n.target",
        ] {
            let error = text.parse::<Goal>().unwrap_err().to_string();
            assert!(error.contains("such as multi-user.target"), "{error}");
        }
        assert!("x".repeat(300).parse::<Goal>().is_err());
    }
}

//! History of one quantity over the commits of a repository.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Measurements of a range of commits, and the places where the quantity changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// The commits, oldest first.
    pub points: Vec<Point>,
    /// Where the quantity changed, oldest first.
    #[serde(default)]
    pub changes: Vec<Change>,
}

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The hash of the commit.
    pub id: String,
    /// The first line of its message. Hostile text.
    pub subject: String,
    /// When it was committed (RFC 3339).
    pub date: String,
    /// Result of the commit.
    pub reading: Reading,
}

/// Result of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "reading")]
pub enum Reading {
    /// It was measured.
    Measured {
        /// The series of the report with its runs.
        series: String,
    },
    /// It could not be built.
    NotBuilt {
        /// Reason. Hostile text.
        reason: String,
    },
    /// The build did not boot.
    NotBooted {
        /// Reason. Hostile text.
        reason: String,
    },
    /// The commit was not tried.
    NotTried,
}

/// A place where the quantity changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The last point that was measured before the change, an index into [`History::points`].
    pub before: usize,
    /// The first point that was measured after it. The change is in one of the commits after
    /// `before` up to this one: in this one, if it is the next.
    pub after: usize,
    /// After divided by before.
    pub ratio: f64,
    /// The p-value of the test that found the change; none where values are exact.
    pub p_value: Option<f64>,
    /// Parts of the difference, one line each, largest first. Hostile text.
    #[serde(default)]
    pub explanation: Vec<String>,
}

impl Point {
    /// The first twelve characters of the hash, as the kernel's `Fixes:` tags have it.
    pub fn short(&self) -> &str {
        self.id.get(..12).unwrap_or(&self.id)
    }
}

impl Change {
    /// `+1.2 %`, with a typographic minus; small changes with more digits.
    pub fn percent(&self) -> String {
        percent(self.ratio)
    }
}

/// A ratio as a change in percent, `+1.2 %`, small changes with more digits.
pub(crate) fn percent(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let decimals = match percent.abs() {
        p if p == 0.0 || p >= 0.95 => 1,
        p if p >= 0.095 => 2,
        _ => 3,
    };
    format!("{percent:+.decimals$} %").replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_changes_keep_their_digits() {
        for (ratio, text) in [
            (1.0, "+0.0 %"),
            (1.012, "+1.2 %"),
            (0.5, "−50.0 %"),
            (1.0012, "+0.12 %"),
            (0.99999, "−0.001 %"),
        ] {
            assert_eq!(percent(ratio), text);
        }
    }
}

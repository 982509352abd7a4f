//! What one run gives. Pure.

use brisk_measure::{Outcome, Unit};

/// One figure of a run, or why there is none.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// What was measured; empty if there is only one thing.
    pub metric: String,
    /// Unit of the figure.
    pub unit: Unit,
    /// The figure, or why there is none.
    pub outcome: Outcome,
}

/// The figures of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Readings(Vec<Reading>);

impl Readings {
    /// Adds a figure, or a failure: a number, a `Result` with the reason of a failure, or an
    /// [`Outcome`].
    pub fn put(&mut self, metric: impl Into<String>, unit: Unit, outcome: impl Into<Outcome>) {
        self.0.push(Reading {
            metric: metric.into(),
            unit,
            outcome: outcome.into(),
        });
    }
}

impl IntoIterator for Readings {
    type Item = Reading;
    type IntoIter = std::vec::IntoIter<Reading>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

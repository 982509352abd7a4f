//! What the rounds so far gave, for stopping rules. Pure.

use brisk_measure::Series;

use super::plan::Plan;

/// Rounds that all fail are enough, if they are so many, to know that none will succeed.
const HOPELESS: u32 = 3;

/// The samples of an experiment so far.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    plan: &'a Plan,
    series: &'a [Series],
    rounds: u32,
}

impl<'a> Record<'a> {
    /// The record of so many rounds of a plan.
    #[must_use]
    pub fn new(plan: &'a Plan, series: &'a [Series], rounds: u32) -> Self {
        Self {
            plan,
            series,
            rounds,
        }
    }

    /// Rounds that were made, warm-ups included.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// The samples of a side in a metric; none before the first.
    #[must_use]
    pub fn series(&self, side: usize, metric: &str) -> Option<&'a Series> {
        let name = self.plan.series_name(side, metric);
        self.series.iter().find(|series| series.name == name)
    }

    /// The values of the rounds that count and in which both sides succeeded.
    #[must_use]
    pub fn pairs(&self, a: usize, b: usize, metric: &str) -> Vec<(f64, f64)> {
        let both = self.series(a, metric).zip(self.series(b, metric));
        both.map_or_else(Vec::new, |(a, b)| a.pairs(b))
    }

    /// Whether a side has failed in the first rounds, warm-ups included, and so will in all others.
    #[must_use]
    pub fn is_hopeless(&self, side: usize, metric: &str) -> bool {
        let succeeded = self
            .series(side, metric)
            .is_some_and(|series| series.samples.iter().any(|s| s.value().is_some()));
        self.rounds == HOPELESS && !succeeded
    }
}

//! Comparison of two series: whether B differs from A, and by how much.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bootstrap::{self, Interval, Statistic};
use crate::permutation::{PValue, paired_test, two_sample_test};
use crate::random::SplitMix64;
use crate::signed_rank::signed_rank_test;
use crate::{Better, Series, Unit};

/// Seed of resampling and permutation.
const SEED: u64 = 0x6272_6973_6b00_0002;

/// The level of significance.
const LEVEL: f64 = 0.05;

/// Pairs with which ranks can be significant: five that all differ the same way have a p-value of
/// 1/16.
const FEWEST_RANKS: usize = 6;

/// The smallest ratio that is worth distinguishing from 1, where no noise floor is known.
const LEAST_RATIO: f64 = 0.01;

/// The largest noise floor within which a difference is called none. What differs from itself by more
/// can hide a difference that matters.
const MOST_NOISE: f64 = 0.1;

/// Relation between the runs of two series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pairing {
    /// Runs were interleaved; those with the same number form a pair.
    Interleaved,
    /// Runs are independent of one another.
    Independent,
}

/// Result of a comparison, about B against A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// B is better in the direction of the series (for times: faster), beyond chance and noise.
    Faster,
    /// B is worse, beyond chance and noise.
    Slower,
    /// If there is a difference, it is too small to matter: the whole interval of the ratio lies
    /// within the noise floor (within 1 % where that is unknown, and at most within 10 %). This is
    /// the confidence interval form of an equivalence test (Schuirmann, Journal of Pharmacokinetics
    /// and Biopharmaceutics 15, 1987), here with the stricter 95 % interval.
    NoDifference,
    /// The runs do not decide.
    Inconclusive,
}

/// Test of whether chance alone gives such a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// The permutation test of the ratio of the statistics.
    Permutation,
    /// [`signed_rank_test`], which only interleaved runs have. It needs fewer pairs: swapping a pair
    /// near the middle leaves the ratio of two medians as it is, so that six pairs without any
    /// overlap may have a p-value of 0.062 by permutation, and always have 0.031 by ranks.
    SignedRank,
}

/// Options of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompareOptions {
    /// The number that is compared.
    pub statistic: Statistic,
    /// Relation between the runs.
    pub pairing: Pairing,
    /// The test.
    pub test: Test,
    /// The relative difference that a comparison of equal configurations shows, from
    /// [`noise_floor`]: 0.02 for 2 %.
    pub noise_floor: Option<f64>,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            statistic: Statistic::Median,
            pairing: Pairing::Interleaved,
            test: Test::Permutation,
            noise_floor: None,
        }
    }
}

/// A comparison of the series `b` with the series `a`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Name of the series that is the base.
    pub a: String,
    /// Name of the series compared with it.
    pub b: String,
    /// Unit of both.
    pub unit: Unit,
    /// Which direction is an improvement.
    pub better: Better,
    /// The number that was compared.
    pub statistic: Statistic,
    /// Relation between the runs.
    pub pairing: Pairing,
    /// Values of A that took part.
    pub n_a: usize,
    /// Values of B that took part.
    pub n_b: usize,
    /// The statistic of A; none without values.
    pub value_a: Option<f64>,
    /// The statistic of B; none without values.
    pub value_b: Option<f64>,
    /// B / A; none where A is not above 0.
    pub ratio: Option<f64>,
    /// The 95 % confidence interval of the ratio, by a percentile bootstrap that draws pairs
    /// where there are pairs.
    pub ratio_interval: Option<Interval>,
    /// The test; none without values.
    pub p_value: Option<PValue>,
    /// The noise floor that was taken into account.
    pub noise_floor: Option<f64>,
    /// Result of the comparison.
    pub verdict: Verdict,
}

impl Comparison {
    /// Compares `b` with `a`. The unit and the direction are those of `a`; series of different
    /// units have no ratio and an inconclusive verdict. Where both are exact
    /// ([`Series::is_exact`]) each difference counts, and there is no test.
    pub fn of(a: &Series, b: &Series, options: &CompareOptions) -> Self {
        let drawn = if a.unit == b.unit {
            Draw::of(a, b, options.pairing)
        } else {
            Draw::Independent(Vec::new(), Vec::new())
        };
        let statistic = options.statistic;
        let (values_a, values_b) = drawn.sides();
        let (value_a, value_b) = (statistic.of(&values_a), statistic.of(&values_b));
        let resamples = bootstrap::resamples(values_a.len() + values_b.len());
        let ratio = value_a
            .zip(value_b)
            .and_then(|(value_a, value_b)| ratio(value_a, value_b));
        let mut comparison = Self {
            a: a.name.clone(),
            b: b.name.clone(),
            unit: a.unit,
            better: a.better,
            statistic,
            pairing: options.pairing,
            n_a: values_a.len(),
            n_b: values_b.len(),
            value_a,
            value_b,
            ratio,
            ratio_interval: ratio.and_then(|_| drawn.ratio_interval(statistic, resamples)),
            p_value: drawn.test(statistic, options.test),
            noise_floor: options.noise_floor,
            verdict: Verdict::Inconclusive,
        };
        if options.test == Test::SignedRank && values_a.len() < FEWEST_RANKS {
            comparison.ratio_interval = None;
            comparison.p_value = None;
        }
        if a.is_exact() && b.is_exact() {
            comparison.p_value = None;
            comparison.noise_floor = None;
            comparison.verdict = comparison.judge_exactly(0.0);
        } else {
            comparison.verdict = comparison.judge();
        }
        comparison
    }

    /// Compares series without noise, such as counted instructions: a difference of more than
    /// `tolerance` (0.01 for 1 %) counts, a smaller one does not, and there is no test.
    pub fn exact(a: &Series, b: &Series, tolerance: f64) -> Self {
        let mut comparison = Self::of(
            a,
            b,
            &CompareOptions {
                pairing: Pairing::Independent,
                ..CompareOptions::default()
            },
        );
        comparison.p_value = None;
        comparison.ratio_interval = None;
        comparison.verdict = comparison.judge_exactly(tolerance);
        comparison
    }

    /// The relative change from A to B in percent, −20 where B is a fifth less.
    pub fn change_percent(&self) -> Option<f64> {
        Some((self.ratio? - 1.0) * 100.0)
    }

    /// Whether chance alone would rarely give such a difference.
    pub fn significant(&self) -> bool {
        self.p_value.is_some_and(|p| p.value <= LEVEL)
            && self.ratio_interval.is_some_and(|i| !i.contains(1.0))
    }

    /// Whether the difference is no larger than that of a comparison of equal configurations.
    pub fn within_noise(&self) -> bool {
        match (self.ratio, self.noise_floor) {
            (Some(ratio), Some(floor)) => band(floor).contains(ratio),
            _ => false,
        }
    }

    fn judge_exactly(&self, tolerance: f64) -> Verdict {
        match self.ratio {
            None => Verdict::Inconclusive,
            Some(ratio) if band(tolerance).contains(ratio) => Verdict::NoDifference,
            Some(ratio) => self.direction(ratio),
        }
    }

    fn judge(&self) -> Verdict {
        let (Some(ratio), Some(interval)) = (self.ratio, self.ratio_interval) else {
            return Verdict::Inconclusive;
        };
        let significant = self.significant();
        let margin = self.noise_floor.unwrap_or(LEAST_RATIO).min(MOST_NOISE);
        // A known noise floor outranks significance: a tiny difference may be real and yet be one
        // of place or order instead of the thing under test.
        if (self.noise_floor.is_some() || !significant) && interval.within(&band(margin)) {
            return Verdict::NoDifference;
        }
        if !significant || self.within_noise() {
            return Verdict::Inconclusive;
        }
        self.direction(ratio)
    }

    fn direction(&self, ratio: f64) -> Verdict {
        let improved = match self.better {
            Better::Lower => ratio < 1.0,
            Better::Higher => ratio > 1.0,
        };
        if improved {
            Verdict::Faster
        } else {
            Verdict::Slower
        }
    }
}

/// The relative difference between two measurements of one configuration: how far the interval of
/// the ratio reaches from 1, so 0.02 if an A/A comparison cannot rule out 2 %. `None` with too few
/// runs.
pub fn noise_floor(a: &Series, again: &Series, options: &CompareOptions) -> Option<f64> {
    let interval = Comparison::of(a, again, options).ratio_interval?;
    let reach = interval.high.max(1.0 / interval.low) - 1.0;
    (interval.low > 0.0 && reach.is_finite()).then_some(reach.max(0.0))
}

/// The ratios within a relative difference of `floor`, in both directions.
fn band(floor: f64) -> Interval {
    Interval {
        low: 1.0 / (1.0 + floor),
        high: 1.0 + floor,
    }
}

fn ratio(a: f64, b: f64) -> Option<f64> {
    (a > 0.0).then(|| b / a).filter(|ratio| ratio.is_finite())
}

/// Source of a resample.
enum Draw {
    Pairs(Vec<(f64, f64)>),
    Independent(Vec<f64>, Vec<f64>),
}

impl Draw {
    fn of(a: &Series, b: &Series, pairing: Pairing) -> Self {
        match pairing {
            Pairing::Interleaved => Self::Pairs(a.pairs(b)),
            Pairing::Independent => Self::Independent(a.values(), b.values()),
        }
    }

    fn sides(&self) -> (Vec<f64>, Vec<f64>) {
        match self {
            Self::Pairs(pairs) => pairs.iter().copied().unzip(),
            Self::Independent(a, b) => (a.clone(), b.clone()),
        }
    }

    fn test(&self, statistic: Statistic, test: Test) -> Option<PValue> {
        match self {
            Self::Pairs(pairs) if test == Test::SignedRank => signed_rank_test(pairs),
            Self::Pairs(pairs) => paired_test(pairs, statistic, SEED),
            Self::Independent(a, b) => two_sample_test(a, b, statistic, SEED),
        }
    }

    fn ratio_interval(&self, statistic: Statistic, resamples: usize) -> Option<Interval> {
        let (mut left, mut right) = self.sides();
        let n = left.len().min(right.len());
        bootstrap::resampled_interval(n, resamples, SEED, |random: &mut SplitMix64| {
            match self {
                Self::Pairs(pairs) => {
                    for place in 0..pairs.len() {
                        (left[place], right[place]) = pairs[random.below(pairs.len())];
                    }
                }
                Self::Independent(a, b) => {
                    left.fill_with(|| a[random.below(a.len())]);
                    right.fill_with(|| b[random.below(b.len())]);
                }
            }
            ratio(
                statistic.of_scratch(&mut left),
                statistic.of_scratch(&mut right),
            )
        })
    }
}

#[cfg(test)]
mod tests;

//! Summary of a series: counts, median, mean, deviation, outliers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bootstrap::{self, Interval, Statistic};
use crate::outlier::{OUTLIER_SCORE, modified_z_scores};
use crate::{Outcome, Sample, Series};

/// Seed of the resampling: the same samples always give the same summary.
const SEED: u64 = 0x6272_6973_6b00_0001;

/// A series in a few numbers, in the unit of the series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Runs that count and succeeded.
    pub n: usize,
    /// Runs that count and went wrong.
    pub failed: usize,
    /// Runs that count and were ended by their time limit.
    pub timed_out: usize,
    /// Runs that were warm-ups, however they ended.
    pub warmups: usize,
    /// Statistics of the successful runs; `None` if no run succeeded.
    pub statistics: Option<Statistics>,
}

/// Numbers about at least one value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Statistics {
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// The middle value, or the mean of the two middle ones.
    pub median: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The sample standard deviation (divisor n − 1); none for a single value.
    pub deviation: Option<f64>,
    /// The 95 % confidence interval of the mean; none for a single value.
    pub mean_interval: Option<Interval>,
    /// The 95 % confidence interval of the median; none for a single value.
    pub median_interval: Option<Interval>,
    /// Runs far from the others. They are part of all other numbers.
    pub outliers: Vec<Outlier>,
}

/// A run far from the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outlier {
    /// The number of the run.
    pub iteration: u32,
    /// Its value.
    pub value: f64,
    /// Its modified z-score, beyond ±[`OUTLIER_SCORE`].
    pub score: f64,
}

impl Summary {
    /// Sums up a series.
    pub fn of(series: &Series) -> Self {
        let ended = |wanted: fn(&Outcome) -> bool| {
            series
                .measured()
                .filter(|sample| wanted(&sample.outcome))
                .count()
        };
        let runs: Vec<(u32, f64)> = series
            .measured()
            .filter_map(|sample: &Sample| Some((sample.iteration, sample.value()?)))
            .collect();
        Self {
            n: runs.len(),
            failed: ended(|outcome| matches!(outcome, Outcome::Failed { .. })),
            timed_out: ended(|outcome| matches!(outcome, Outcome::TimedOut)),
            warmups: series.samples.len() - series.measured().count(),
            statistics: Statistics::of(&runs),
        }
    }
}

impl Statistics {
    fn of(runs: &[(u32, f64)]) -> Option<Self> {
        let values: Vec<f64> = runs.iter().map(|(_, value)| *value).collect();
        let mean = Statistic::Mean.of(&values)?;
        let median = Statistic::Median.of(&values)?;
        Some(Self {
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            median,
            mean,
            deviation: deviation(&values, mean),
            mean_interval: bootstrap::interval(&values, Statistic::Mean, SEED),
            median_interval: bootstrap::interval(&values, Statistic::Median, SEED),
            outliers: outliers(runs, &values),
        })
    }

    /// The mean or the median.
    pub fn value(&self, statistic: Statistic) -> f64 {
        match statistic {
            Statistic::Mean => self.mean,
            Statistic::Median => self.median,
        }
    }
}

/// The two-pass formula; the one-pass one loses everything when the deviation is small beside
/// the mean (Chan, Golub and LeVeque, The American Statistician 37(3), 1983).
fn deviation(values: &[f64], mean: f64) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mut squares: Vec<f64> = values.iter().map(|value| (value - mean).powi(2)).collect();
    squares.sort_by(f64::total_cmp);
    Some((squares.iter().sum::<f64>() / (values.len() - 1) as f64).sqrt())
}

fn outliers(runs: &[(u32, f64)], values: &[f64]) -> Vec<Outlier> {
    runs.iter()
        .zip(modified_z_scores(values))
        .filter(|(_, score)| score.abs() > OUTLIER_SCORE)
        .map(|(&(iteration, value), score)| Outlier {
            iteration,
            value,
            score,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Phase, Unit};
    use proptest::prelude::*;

    fn summary(values: &[f64]) -> Summary {
        Summary::of(&Series::of_values(
            "s",
            Unit::Seconds,
            values.iter().copied(),
        ))
    }

    #[track_caller]
    fn assert_close(found: f64, wanted: f64, tolerance: f64) {
        assert!(
            (found - wanted).abs() <= tolerance,
            "{found} is not {wanted}"
        );
    }

    const TIMES: [f64; 12] = [
        3.21, 3.18, 3.30, 3.25, 3.19, 3.22, 3.95, 3.20, 3.24, 3.27, 3.23, 3.21,
    ];

    #[test]
    fn numbers_are_those_of_numpy_and_scipy() {
        let found = summary(&TIMES).statistics.unwrap();
        // numpy median, mean, std(ddof=1).
        assert_close(found.median, 3.225, 1e-12);
        assert_close(found.mean, 3.2875, 1e-12);
        assert_close(found.deviation.unwrap(), 0.211_407_620_057_040_1, 1e-12);
        // scipy.stats.bootstrap(method="BCa" for the mean, "percentile" for the median,
        // n_resamples=200000) at the confidence level 1 − 2 Φ(−√(12/11) t₀.₉₇₅,₁₁).
        let mean = found.mean_interval.unwrap();
        assert_close(mean.low, 3.2175, 0.004);
        assert_close(mean.high, 3.5905, 0.02);
        let median = found.median_interval.unwrap();
        assert_close(median.low, 3.20, 0.0051);
        assert_close(median.high, 3.27, 0.0051);
        assert_eq!(found.outliers.len(), 1);
        assert_eq!(found.outliers[0].iteration, 6);
        assert_close(found.outliers[0].score, 19.560_5, 1e-6);
    }

    #[test]
    fn no_one_and_two_values() {
        assert_eq!(summary(&[]).statistics, None);
        let one = summary(&[2.0]).statistics.unwrap();
        assert_eq!(
            (one.min, one.median, one.mean, one.max),
            (2.0, 2.0, 2.0, 2.0)
        );
        assert_eq!((one.deviation, one.mean_interval), (None, None));
        let two = summary(&[1.0, 3.0]).statistics.unwrap();
        assert_eq!((two.median, two.mean), (2.0, 2.0));
        assert_close(two.deviation.unwrap(), std::f64::consts::SQRT_2, 1e-15);
        assert!(two.mean_interval.unwrap().contains(2.0));
    }

    #[test]
    fn equal_values_do_not_deviate() {
        let found = summary(&[0.1; 9]).statistics.unwrap();
        assert_eq!((found.min, found.mean, found.max), (0.1, 0.1, 0.1));
        assert_eq!(found.deviation, Some(0.0));
        assert!(found.outliers.is_empty());
    }

    #[test]
    fn a_failure_is_counted_and_no_zero() {
        let mut series = Series::of_values("s", Unit::Seconds, [1.0, 3.0]);
        series.push(Sample::failed(2, Phase::Measured, "panic"));
        series.push(Sample::timed_out(3, Phase::Measured));
        series.push(Sample::warmup(0, 100.0));
        let found = Summary::of(&series);
        assert_eq!(
            (found.n, found.failed, found.timed_out, found.warmups),
            (2, 1, 1, 1)
        );
        assert_eq!(found.statistics.unwrap().mean, 2.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn the_order_of_the_runs_changes_nothing(
            values in prop::collection::vec(-1e6..1e6f64, 1..20),
            seed in any::<u64>(),
        ) {
            let mut shuffled = values.clone();
            let mut random = crate::random::SplitMix64::new(seed);
            for place in 0..shuffled.len() {
                let other = place + random.below(shuffled.len() - place);
                shuffled.swap(place, other);
            }
            let (mut a, mut b) = (summary(&values), summary(&shuffled));
            for found in [&mut a, &mut b] {
                let statistics = found.statistics.as_mut().unwrap();
                statistics.outliers.sort_by(|x, y| x.value.total_cmp(&y.value));
                statistics.outliers.iter_mut().for_each(|outlier| outlier.iteration = 0);
            }
            prop_assert_eq!(a, b);
        }

        #[test]
        fn the_middle_lies_within(values in prop::collection::vec(-1e99..1e99f64, 1..20)) {
            let found = summary(&values).statistics.unwrap();
            prop_assert!(found.min <= found.median && found.median <= found.max);
            prop_assert!(found.min <= found.mean && found.mean <= found.max);
            for interval in found.mean_interval.iter().chain(&found.median_interval) {
                prop_assert!(interval.low <= interval.high);
                prop_assert!(found.min <= interval.low && interval.high <= found.max);
            }
            if let Some(interval) = found.median_interval {
                prop_assert!(interval.contains(found.median));
            }
        }
    }
}

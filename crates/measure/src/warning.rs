//! Warnings of a report, each with a remedy to try.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Comparison, Difference, Environment, Outcome, Series, Summary, Timeline};

/// Fewer runs than this seldom distinguish a small difference from chance.
const RUNS_WANTED: usize = 10;

/// The part of a median that its interval may reach to each side in silence.
const NOISE: f64 = 0.05;

/// The share of a timeline that may stay unexplained in silence.
const UNEXPLAINED: f64 = 0.1;

/// A weakness of a report. The text says what to try.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "warning")]
#[non_exhaustive]
pub enum Warning {
    /// Some runs of ten or more are far from the others.
    OutliersFound {
        /// Name of the series.
        series: String,
        /// Number of outliers.
        outliers: usize,
        /// Number of runs.
        n: usize,
    },
    /// Too few runs succeeded.
    FewRuns {
        /// Name of the series.
        series: String,
        /// Number of successful runs.
        n: usize,
        /// Number of runs that would be enough.
        wanted: usize,
    },
    /// The first run is an outlier to the worse: caches were cold.
    FirstRunSlow {
        /// Name of the series.
        series: String,
        /// The first run over the median.
        ratio: f64,
    },
    /// Runs failed or were ended by their time limit.
    RunsFailed {
        /// Name of the series.
        series: String,
        /// Number of runs that failed.
        failed: usize,
        /// Number of runs.
        runs: usize,
        /// Reason of the first failure.
        reason: String,
    },
    /// The median is not known well enough for small differences.
    NoiseFloorHigh {
        /// Name of the series.
        series: String,
        /// How far its 95 % interval reaches to the farther side, as a fraction of it.
        noise_floor: f64,
    },
    /// The difference is no larger than that of a thing from itself.
    NoiseFloorAboveDifference {
        /// The base.
        a: String,
        /// What was compared with it.
        b: String,
        /// The difference, as a fraction.
        difference: f64,
        /// The noise floor, as a fraction.
        noise_floor: f64,
    },
    /// Series of environments that are not comparable were compared all the same.
    EnvironmentsDiffer {
        /// What differs.
        differences: Vec<Difference>,
    },
    /// The host had other work to do.
    MachineBusy {
        /// Load average over one minute.
        load: f64,
        /// CPUs online.
        logical_cpus: u32,
    },
    /// The clock of the CPU may have changed during the measurement.
    GovernorVaries {
        /// The governor in force.
        governor: String,
    },
    /// Much of a timeline is explained by nothing.
    TimeUnexplained {
        /// The share explained, 0 to 1.
        explained: f64,
    },
    /// What was measured was slowed down by being watched.
    Instrumented {
        /// By what, as `initcall_debug`.
        by: String,
    },
    /// A warning of a later version of brisk.
    #[serde(other)]
    Unknown,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutliersFound {
                series,
                outliers,
                n,
            } => write!(
                f,
                "{series}: {outliers} of {n} runs are far from the others. Close other programs, \
                 or look at the raw samples for what those runs have in common."
            ),
            Self::FewRuns { series, n, wanted } => write!(
                f,
                "{series}: {n} successful runs are few. Take at least {wanted}."
            ),
            Self::FirstRunSlow { series, ratio } => write!(
                f,
                "{series}: the first run took {ratio:.1} times the median, so caches were cold. \
                 Add a warm-up run, or measure cold starts only."
            ),
            Self::RunsFailed {
                series,
                failed,
                runs,
                reason,
            } if failed < runs => write!(
                f,
                "{series}: {failed} of {runs} runs failed ({reason}). Numbers are of the others \
                 only; find out why before trusting them."
            ),
            Self::RunsFailed {
                series,
                runs,
                reason,
                ..
            } => write!(f, "{series}: all runs failed, {runs} ({reason})."),
            Self::NoiseFloorHigh {
                series,
                noise_floor,
            } => write!(
                f,
                "{series}: the median is known to {:.0} % only, so smaller differences are lost in \
                 noise. Take more runs, quieten the host, or count instructions.",
                noise_floor * 100.0
            ),
            Self::NoiseFloorAboveDifference {
                a,
                b,
                difference,
                noise_floor,
            } => write!(
                f,
                "{a} and {b} differ by {:.1} %, but a thing measured twice differs by up to \
                 {:.1} % here. Take more runs, quieten the host, or count instructions.",
                difference * 100.0,
                noise_floor * 100.0,
            ),
            Self::EnvironmentsDiffer { differences } => {
                let named: Vec<String> = differences.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "the environments are not comparable ({}). Measure both in one.",
                    named.join("; ")
                )
            }
            Self::MachineBusy { load, logical_cpus } => write!(
                f,
                "the load was {load:.2} on {logical_cpus} CPUs when the measurement began. Wait \
                 until other work is done."
            ),
            Self::GovernorVaries { governor } => write!(
                f,
                "the CPU governor is {governor}, so the clock may change between runs. Set it to \
                 performance, or count instructions."
            ),
            Self::TimeUnexplained { explained } => write!(
                f,
                "{:.0} % of the time is explained by nothing. Trace more, or look at the longest \
                 gaps.",
                (1.0 - explained) * 100.0
            ),
            Self::Instrumented { by } => write!(
                f,
                "{by} slows down what it watches. Use these numbers to find where time goes, and \
                 take totals from runs without it."
            ),
            Self::Unknown => write!(
                f,
                "a warning of a later version of brisk. Read the report with that version."
            ),
        }
    }
}

impl Warning {
    /// What to know about a series.
    pub fn of_series(series: &Series, summary: &Summary) -> Vec<Self> {
        let mut warnings = Vec::new();
        let name = || series.name.clone();
        let failed = summary.failed + summary.timed_out;
        if failed > 0 {
            let reason = series.measured().find_map(|sample| match &sample.outcome {
                Outcome::Ok { .. } => None,
                Outcome::Failed { reason } => Some(reason.clone()),
                Outcome::TimedOut => Some("time limit".to_owned()),
            });
            warnings.push(Self::RunsFailed {
                series: name(),
                failed,
                runs: failed + summary.n,
                reason: reason.unwrap_or_default(),
            });
        }
        // Of a number that is the same at every run more runs would show nothing.
        let some = summary.n > 0 || failed == 0;
        if some && summary.n < RUNS_WANTED && !(series.is_exact() && summary.n > 1) {
            warnings.push(Self::FewRuns {
                series: name(),
                n: summary.n,
                wanted: RUNS_WANTED,
            });
        }
        let Some(statistics) = &summary.statistics else {
            return warnings;
        };
        let first = series.values().first().copied().unwrap_or_default();
        let outliers = statistics.outliers.len();
        // Of few runs each is far from the others now and then, and more are asked for.
        let enough = summary.n >= RUNS_WANTED;
        let cold = outliers > 0 && summary.warmups == 0 && {
            let worst = &statistics.outliers[0];
            worst.value == first && worst.score > 0.0 && series.better == crate::Better::Lower
        };
        // A ratio that is no number says nothing, and JSON has none for it.
        let ratio = first / statistics.median;
        if cold && statistics.median > 0.0 && ratio.is_finite() {
            warnings.push(Self::FirstRunSlow {
                series: name(),
                ratio,
            });
        }
        let reach = statistics.median_interval.map(|interval| {
            let farther = (interval.high - statistics.median).max(statistics.median - interval.low);
            farther / statistics.median
        });
        let noisy = reach.filter(|reach| *reach > NOISE && reach.is_finite() && enough);
        warnings.extend(noisy.map(|noise_floor| Self::NoiseFloorHigh {
            series: name(),
            noise_floor,
        }));
        if enough && outliers > usize::from(cold) {
            warnings.push(Self::OutliersFound {
                series: name(),
                outliers,
                n: summary.n,
            });
        }
        warnings
    }

    /// What to know about a comparison.
    pub fn of_comparison(comparison: &Comparison) -> Option<Self> {
        let noise_floor = comparison.noise_floor?;
        let difference = (comparison.ratio? - 1.0).abs();
        (difference > 0.0 && comparison.within_noise()).then(|| Self::NoiseFloorAboveDifference {
            a: comparison.a.clone(),
            b: comparison.b.clone(),
            difference,
            noise_floor,
        })
    }

    /// What to know about where a measurement was made.
    pub fn of_environment(environment: &Environment) -> Vec<Self> {
        let busy = environment
            .load
            .zip(environment.logical_cpus)
            .filter(|(load, cpus)| *load > f64::from(*cpus) / 2.0)
            .map(|(load, logical_cpus)| Self::MachineBusy { load, logical_cpus });
        let governor = environment
            .governor
            .iter()
            .filter(|governor| governor.as_str() != "performance")
            .map(|governor| Self::GovernorVaries {
                governor: governor.clone(),
            });
        busy.into_iter().chain(governor).collect()
    }

    /// What to know about a timeline.
    pub fn of_timeline(timeline: &Timeline) -> Option<Self> {
        let explained = timeline.explained_fraction()?;
        (explained < 1.0 - UNEXPLAINED).then_some(Self::TimeUnexplained { explained })
    }
}

mod lines;
#[cfg(test)]
mod tests;

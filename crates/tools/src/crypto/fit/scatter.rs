//! How well times are known, and which of two are told apart by that.
//!
//! What a time differs by from run to run is seen in repeated runs. A single run has no scatter of
//! its own: that of its curve about its shape stands for it, a line or a [`Step`]. It has few
//! degrees of freedom, for which Student's t is the correction, and it has the clock's steps and
//! [`SINGLE`] as its floor.

use brisk_measure::{Statistic, student_two_sided};

use super::line::{Line, sum_of_squares};
use super::sizes::{Order, Samples};
use super::step::Step;

/// Share of measurements in which a size at which two do not differ is called a difference, at most:
/// of all sizes together.
const ERROR: f64 = 0.02;
/// Relative difference below which single runs are not told apart. What two runs of a program differ
/// by as a whole, such as the frequency of the processor, is in all of their sizes, and does not show.
const SINGLE: f64 = 0.03;
/// Relative difference up to which two times are alike.
pub const ALIKE: f64 = 0.05;
/// How many times as large the variance about a line is than that of runs before it is not of runs.
const UNFIT: f64 = 2.0;

/// A relative variance, and its degrees of freedom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) variance: f64,
    pub(super) freedom: f64,
}

/// How well the times of a curve are known.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scatter {
    /// Of runs at one size, over all sizes with several.
    runs: Option<Spread>,
    /// Of sizes about the shape of the curve.
    shape: Option<Spread>,
    /// Step of the clock as a share of a time.
    resolution: f64,
    /// Of a point against the line, from both.
    pub(super) point: Option<Spread>,
}

impl Spread {
    /// Of residuals, with so many parameters fitted.
    fn of(residuals: &[f64], parameters: usize) -> Option<Self> {
        let freedom = residuals.len().checked_sub(parameters)?;
        let sum = sum_of_squares(residuals);
        (freedom > 0).then(|| Self {
            variance: sum / freedom as f64,
            freedom: freedom as f64,
        })
    }

    /// The sum of two independent ones, by Welch and Satterthwaite.
    pub(super) fn and(self, other: Self) -> Self {
        let variance = self.variance + other.variance;
        let parts = self.variance.powi(2) / self.freedom + other.variance.powi(2) / other.freedom;
        let freedom = if parts > 0.0 {
            variance.powi(2) / parts
        } else {
            self.freedom + other.freedom
        };
        Self { variance, freedom }
    }

    pub(super) fn times(self, factor: f64) -> Self {
        Self {
            variance: self.variance * factor,
            ..self
        }
    }

    /// Half of the interval that misses with this probability.
    pub(super) fn reach(self, error: f64) -> f64 {
        if self.variance <= 0.0 {
            return 0.0;
        }
        self.quantile(error) * self.variance.sqrt()
    }

    /// Student's t that is exceeded with this probability.
    pub(super) fn quantile(self, error: f64) -> f64 {
        // Whole degrees, rounded down: rather too wide.
        student_two_sided(error, self.freedom.clamp(1.0, 1e6) as usize)
    }
}

impl Scatter {
    /// That of a curve by its samples at each size; `line` and `step` are its shapes.
    pub(super) fn of(
        samples: &[&[f64]],
        resolution: f64,
        line: Option<&Line>,
        step: Option<&Step>,
    ) -> Self {
        let repeated = samples.iter().filter(|seconds| seconds.len() > 1);
        let (mut sum, mut freedom, mut inverse, mut sizes) = (0.0, 0.0, 0.0, 0.0);
        for seconds in repeated {
            let own = own(seconds);
            sum += own.variance * own.freedom;
            freedom += own.freedom;
            inverse += 1.0 / seconds.len() as f64;
            sizes += 1.0;
        }
        let runs = (freedom > 0.0).then(|| Spread {
            variance: sum / freedom,
            freedom,
        });
        let of_line = line.and_then(|line| Spread::of(&line.residuals, 2));
        let shape = match step {
            Some(step) => Spread::of(&step.residuals, Step::PARAMETERS),
            None => of_line,
        };
        let all_repeated = sizes == samples.len() as f64;
        let point = of_line.map(|line| {
            // A median has more of the runs' scatter than a mean.
            let of_runs = runs.map(|runs| runs.times(1.6 * inverse / sizes));
            let spread = match of_runs {
                Some(runs) if all_repeated && line.variance <= UNFIT * runs.variance => Spread {
                    variance: (line.variance * line.freedom + runs.variance * runs.freedom)
                        / (line.freedom + runs.freedom),
                    freedom: line.freedom + runs.freedom,
                },
                _ => line,
            };
            Spread {
                variance: spread.variance.max(resolution * resolution / 3.0),
                ..spread
            }
        });
        Self {
            runs,
            shape,
            resolution,
            point,
        }
    }

    /// Variance of the mean of a size; None if nothing tells it.
    fn at(&self, seconds: &[f64]) -> Option<Spread> {
        if seconds.len() < 2 {
            return self.shape;
        }
        let own = own(seconds);
        // The larger one: sizes may differ in how well they are known.
        let runs = self.runs.filter(|runs| runs.variance >= own.variance);
        Some(runs.unwrap_or(own).times(1.0 / seconds.len() as f64))
    }
}

/// Relative variance of runs.
fn own(seconds: &[f64]) -> Spread {
    let mean = mean(seconds);
    let errors: Vec<f64> = seconds.iter().map(|one| one.ln() - mean).collect();
    Spread::of(&errors, 1).unwrap_or(Spread {
        variance: 0.0,
        freedom: 1.0,
    })
}

/// Mean of logarithms.
fn mean(seconds: &[f64]) -> f64 {
    seconds.iter().map(|one| one.ln()).sum::<f64>() / seconds.len() as f64
}

/// Which one takes less time at a size of so many.
pub(super) fn order(
    samples: &Samples,
    software: &Scatter,
    offload: &Scatter,
    sizes: usize,
) -> Order {
    let spreads = software
        .at(&samples.software)
        .zip(offload.at(&samples.offload));
    let Some((one, other)) = spreads else {
        return Order::Undecided;
    };
    let error = ERROR / 2.0 / sizes.max(1) as f64;
    let is_single = samples.software.len().min(samples.offload.len()) < 2;
    let floor = if is_single { (1.0 + SINGLE).ln() } else { 0.0 };
    let floor = floor.max(software.resolution + offload.resolution);
    let reach = one.and(other).reach(error).max(floor);
    let more = mean(&samples.software) - mean(&samples.offload);
    let medians = Statistic::Median
        .of(&samples.software)
        .zip(Statistic::Median.of(&samples.offload));
    let agrees = medians.is_some_and(|(a, b)| (a > b) == (more > 0.0) && a != b);
    let is_apart = more.abs() > reach || are_separate(samples, error);
    match (is_apart && agrees, more > 0.0) {
        (true, true) => Order::Offload,
        (true, false) => Order::Software,
        _ if more.abs() + reach <= (1.0 + ALIKE).ln() => Order::Alike,
        _ => Order::Undecided,
    }
}

/// Whether all of one are below all of the other, and that is not likely by chance: the exact rank
/// test, which outliers do not disturb.
fn are_separate(samples: &Samples, error: f64) -> bool {
    let ends = |seconds: &[f64]| {
        let low = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let high = seconds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (low, high)
    };
    let (software, offload) = (ends(&samples.software), ends(&samples.offload));
    let (n, m) = (samples.software.len(), samples.offload.len());
    // 2 / C(n + m, n)
    let chance = (1..=n.min(1000)).fold(2.0, |chance, i| chance * i as f64 / (m + i) as f64);
    (software.1 < offload.0 || offload.1 < software.0) && chance <= error
}

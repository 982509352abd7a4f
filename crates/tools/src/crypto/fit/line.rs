//! A line through times over sizes.

use super::sizes::Size;

/// Largest relative distance of a point from its line, as a share of the point.
pub const TOLERANCE: f64 = 0.15;

/// t(n) = a + b·n, fitted by least squares of relative errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Seconds of an operation whatever its size; may be below 0 by errors of the data.
    pub fixed: f64,
    /// Seconds of a byte.
    pub per_byte: f64,
    /// How far the points are from the line, as shares of themselves, in the order of the points;
    /// above 0 where a point took longer than the line says.
    pub residuals: Vec<f64>,
    pub(super) shape: Shape,
}

/// What the variance of a line depends on, in units of its largest size and its largest time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shape {
    /// Largest size, in bytes.
    pub(super) unit: f64,
    /// Largest time, in seconds.
    pub(super) second: f64,
    /// Sum of the weights.
    total: f64,
    /// Weighted mean of the sizes.
    pub(super) mean: f64,
    /// Their weighted variance.
    spread: f64,
}

impl Shape {
    /// Variance of the slope, where that of a point is 1.
    pub(super) fn of_slope(self) -> f64 {
        1.0 / (self.total * self.spread)
    }

    /// Variance of the line at a size.
    pub(super) fn variance(self, at: f64) -> f64 {
        1.0 / self.total + (at - self.mean).powi(2) * self.of_slope()
    }
}

/// Lines of both implementations.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    pub(super) software: Line,
    pub(super) offload: Line,
}

/// A point of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    /// Bytes of an operation.
    pub(super) bytes: f64,
    /// Seconds of it, above 0.
    pub(super) seconds: f64,
}

impl Line {
    /// The line through points of two sizes at least. None if numbers are too far apart for it.
    pub(super) fn through(points: &[At]) -> Option<Self> {
        // In units of the largest, so that no square overflows.
        let largest = |of: fn(&At) -> f64| points.iter().map(of).fold(0.0, f64::max);
        let (unit, second) = (largest(|at| at.bytes), largest(|at| at.seconds));
        let weight = |at: &At| (second / at.seconds).powi(2);
        let total: f64 = points.iter().map(weight).sum();
        let mean_of = |of: &dyn Fn(&At) -> f64| {
            let sum: f64 = points.iter().map(|at| weight(at) * of(at)).sum();
            sum / total
        };
        let bytes = |at: &At| at.bytes / unit;
        let seconds = |at: &At| at.seconds / second;
        let (mean_bytes, mean_seconds) = (mean_of(&bytes), mean_of(&seconds));
        let spread = mean_of(&|at| (bytes(at) - mean_bytes).powi(2));
        let together = mean_of(&|at| (bytes(at) - mean_bytes) * (seconds(at) - mean_seconds));
        let slope = together / spread;
        let per_byte = slope / unit * second;
        let fixed = (mean_seconds - slope * mean_bytes) * second;
        let at = |one: &At| fixed + per_byte * one.bytes;
        let residuals = points.iter().map(|one| 1.0 - at(one) / one.seconds);
        let line = Self {
            fixed,
            per_byte,
            residuals: residuals.collect(),
            shape: Shape {
                unit,
                second,
                total,
                mean: mean_bytes,
                spread,
            },
        };
        let numbers = line.residuals.iter().chain([&line.fixed, &line.per_byte]);
        let are_finite = numbers.into_iter().all(|number| number.is_finite());
        are_finite.then_some(line)
    }

    /// Seconds of an operation on so many bytes.
    #[must_use]
    pub fn at(&self, bytes: f64) -> f64 {
        self.fixed + self.per_byte * bytes
    }

    /// The largest of the residuals, without its sign.
    #[must_use]
    pub fn residual(&self) -> f64 {
        self.residuals
            .iter()
            .map(|one| one.abs())
            .fold(0.0, f64::max)
    }

    /// Whether no point is farther from it than [`TOLERANCE`].
    #[must_use]
    pub fn holds(&self) -> bool {
        self.residual() <= TOLERANCE
    }
}

/// Sum of the squares of residuals.
pub(super) fn sum_of_squares(residuals: &[f64]) -> f64 {
    residuals.iter().map(|one| one * one).sum()
}

impl Lines {
    /// Lines through the medians of two sizes at least.
    pub(super) fn through(sizes: &[Size]) -> Option<Self> {
        let line = |time: fn(&Size) -> f64| {
            let points = sizes.iter().map(|size| At {
                bytes: size.bytes as f64,
                seconds: time(size),
            });
            Line::through(&points.collect::<Vec<_>>())
        };
        Some(Self {
            software: line(|size| size.software)?,
            offload: line(|size| size.offload)?,
        })
    }

    /// Where they cross, in bytes; None if they do not for a size from 0 up.
    pub(super) fn cross(&self) -> Option<f64> {
        let fixed = self.offload.fixed - self.software.fixed;
        let bytes = fixed / (self.software.per_byte - self.offload.per_byte);
        (bytes.is_finite() && bytes >= 0.0).then_some(bytes)
    }
}

//! A driver that leaves small data to software: below a threshold it costs what software costs and
//! a little for the way, above it what the device costs.

use super::line::{At, Line, TOLERANCE, sum_of_squares};
use super::sizes::Size;

/// How much dearer than software it may be right below the threshold.
const WAY: f64 = 1.25;
/// How many times better than a line it has to describe the times.
const BETTER: f64 = 4.0;

/// Software up to a size, and a line from the next one on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    /// Sizes that are left to software.
    pub(super) below: usize,
    /// How far points are from it, as those of a line.
    pub(super) residuals: Vec<f64>,
}

impl Step {
    /// Numbers that are fitted: the way's cost, and two of the line.
    pub(super) const PARAMETERS: usize = 3;

    /// The offload's step, where one describes its times and a line does not.
    pub(super) fn of(sizes: &[Size], line: &Line) -> Option<Self> {
        if line.holds() || sizes.len() <= Self::PARAMETERS {
            return None;
        }
        let steps = (1..sizes.len() - 1).filter_map(|below| Self::at(sizes, below));
        let best = steps.min_by(|a, b| a.sum().total_cmp(&b.sum()))?;
        let of_line = sum_of_squares(&line.residuals);
        let describes = best.residuals.iter().all(|one| one.abs() <= TOLERANCE);
        let usual = &sizes[best.below - 1];
        let is_software = usual.offload <= usual.software * WAY;
        (describes && is_software && best.sum() * BETTER <= of_line).then_some(best)
    }

    fn at(sizes: &[Size], below: usize) -> Option<Self> {
        let (small, large) = sizes.split_at(below);
        let weight = |size: &Size| size.offload.powi(-2);
        let total: f64 = small.iter().map(weight).sum();
        let more = small
            .iter()
            .map(|size| weight(size) * (size.offload - size.software));
        let way = more.sum::<f64>() / total;
        let points = large.iter().map(|size| At {
            bytes: size.bytes as f64,
            seconds: size.offload,
        });
        let line = Line::through(&points.collect::<Vec<_>>())?;
        let residuals = small
            .iter()
            .map(|size| 1.0 - (size.software + way) / size.offload);
        let residuals: Vec<f64> = residuals.chain(line.residuals).collect();
        let are_finite = residuals.iter().all(|one| one.is_finite());
        are_finite.then_some(Self { below, residuals })
    }

    fn sum(&self) -> f64 {
        sum_of_squares(&self.residuals)
    }
}

//! Compares two implementations over the size of the data.

use super::line::{Line, Lines};
use super::sizes::{self, Order, Size};
use super::verdict::{Beyond, Bounds, Bracket, Estimate, Rejection, Verdict};
use super::{order, resampled};
use crate::crypto::Curve;

/// Fewest sizes that two implementations must have in common.
pub const FEWEST: usize = 3;

/// Two implementations over the size of the data.
#[derive(Debug, Clone, PartialEq)]
pub struct Crossover {
    /// Name of the implementation in software.
    pub software: String,
    /// Name of the offload.
    pub offload: String,
    /// The sizes that both have, in ascending order.
    pub sizes: Vec<Size>,
    /// Sizes in bytes that only one of them has, which nothing here is computed from.
    pub left_out: Vec<u64>,
    /// Line of the software; None for fewer than [`FEWEST`] sizes.
    pub software_line: Option<Line>,
    /// Line of the offload.
    pub offload_line: Option<Line>,
    /// Where the faster one changes, without any line.
    pub bracket: Option<Bracket>,
    /// Answer.
    pub verdict: Verdict,
}

impl Crossover {
    /// Compares two implementations. Sizes and samples that are no times (0, not a number, not
    /// finite) are left out. `seed` chooses the resamples.
    #[must_use]
    pub fn of(software: &Curve, offload: &Curve, seed: u64) -> Self {
        let found = sizes::common(software, offload);
        let sizes = found.sizes;
        let changes = order::changes(&sizes);
        let has_enough = sizes.len() >= FEWEST;
        let lines = has_enough.then(|| Lines::through(&sizes)).flatten();
        let verdict = match &lines {
            None => Verdict::TooFew { sizes: sizes.len() },
            Some(lines) => {
                let names = [&*software.name, &offload.name];
                Judge {
                    sizes: &sizes,
                    lines,
                    names,
                    seed,
                }
                .verdict(&changes)
            }
        };
        let bracket = match &changes[..] {
            [one] => Some(*one),
            _ => None,
        };
        Self {
            software: software.name.clone(),
            offload: offload.name.clone(),
            sizes,
            left_out: found.left_out,
            software_line: lines.as_ref().map(|lines| lines.software.clone()),
            offload_line: lines.map(|lines| lines.offload),
            bracket,
            verdict,
        }
    }

    /// Whether there are lines, and no point is farther from its line than [`TOLERANCE`](super::TOLERANCE).
    #[must_use]
    pub fn is_described(&self) -> bool {
        let lines = [&self.software_line, &self.offload_line];
        let holds = |line: &&Option<Line>| line.as_ref().is_some_and(Line::holds);
        lines.iter().all(holds)
    }

    /// The crossover that lines give inside the measured sizes.
    #[must_use]
    pub fn estimate(&self) -> Option<Estimate> {
        match &self.verdict {
            Verdict::From(estimate) | Verdict::UpTo(estimate) => Some(*estimate),
            _ => None,
        }
    }
}

struct Judge<'a> {
    sizes: &'a [Size],
    lines: &'a Lines,
    /// Of the software and of the offload.
    names: [&'a str; 2],
    seed: u64,
}

impl Judge<'_> {
    fn verdict(&self, changes: &[Bracket]) -> Verdict {
        match changes {
            [] => self.without_change(),
            [bracket] => self.with_change(*bracket),
            several => Verdict::Rejected(Rejection::Changes(several.to_vec())),
        }
    }

    fn without_change(&self) -> Verdict {
        let first = self.sizes.iter().find(|size| size.order != Order::Alike);
        let (Some(first), Some(smallest), Some(largest)) =
            (first, self.sizes.first(), self.sizes.last())
        else {
            return Verdict::NoDifference;
        };
        let (smallest, largest) = (smallest.bytes, largest.bytes);
        let is_described = self.rejection().is_none();
        let crossing = self.lines.cross().filter(|_| is_described);
        if first.order == Order::Offload {
            let below = crossing.filter(|bytes| *bytes < smallest as f64);
            let below = below.map(|bytes| self.estimate(bytes));
            // One that may as well be at no size at all is none.
            let is_sure = |one: &Estimate| one.interval.is_some_and(|bounds| bounds.low > 0.0);
            return Verdict::Always {
                smallest,
                below: below.filter(is_sure),
            };
        }
        let is_dearer = self.lines.software.per_byte > self.lines.offload.per_byte;
        let crossing = crossing.filter(|_| is_dearer);
        let beyond = match crossing {
            Some(bytes) if bytes > largest as f64 => Beyond::Crosses(self.estimate(bytes)),
            Some(bytes) => return Verdict::Rejected(Rejection::Undecided(self.estimate(bytes))),
            None if is_described => Beyond::Parallel,
            None => Beyond::Unknown,
        };
        Verdict::Never { largest, beyond }
    }

    fn with_change(&self, bracket: Bracket) -> Verdict {
        if let Some(rejection) = self.rejection() {
            return Verdict::Rejected(rejection);
        }
        let is_from = self
            .sizes
            .iter()
            .any(|size| size.bytes == bracket.low && size.order == Order::Software);
        let crosses_upwards = self.lines.software.per_byte > self.lines.offload.per_byte;
        let bytes = self.lines.cross().filter(|_| crosses_upwards == is_from);
        let estimate = self.estimate(bytes.unwrap_or(f64::INFINITY));
        let is_near = estimate.bytes.is_finite() && meets(&estimate, bracket);
        match (is_near, is_from) {
            (false, _) => Verdict::Rejected(Rejection::Contradiction(estimate)),
            (true, true) => Verdict::From(estimate),
            (true, false) => Verdict::UpTo(estimate),
        }
    }

    /// The point that is farthest from its line, if it is too far.
    fn rejection(&self) -> Option<Rejection> {
        let [software, offload] = self.names;
        let (line, name) = match self.lines.software.residual() > self.lines.offload.residual() {
            true => (&self.lines.software, software),
            false => (&self.lines.offload, offload),
        };
        let places = self.sizes.iter().zip(&line.residuals);
        let (size, residual) = places.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
        (!line.holds()).then(|| Rejection::Residual {
            name: name.to_owned(),
            bytes: size.bytes,
            residual: *residual,
        })
    }

    fn estimate(&self, bytes: f64) -> Estimate {
        Estimate {
            bytes,
            interval: resampled::interval(self.sizes, self.lines, self.seed),
        }
    }
}

/// Whether an estimate, or its interval, is inside the bracket.
fn meets(estimate: &Estimate, bracket: Bracket) -> bool {
    let (low, high) = (bracket.low as f64, bracket.high as f64);
    let is_inside = (low..=high).contains(&estimate.bytes);
    let overlaps = |bounds: Bounds| {
        let is_below = bounds.high.is_some_and(|end| end < low);
        bounds.low <= high && !is_below
    };
    is_inside || estimate.interval.is_some_and(overlaps)
}

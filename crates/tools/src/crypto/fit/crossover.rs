//! Compares two implementations over the size of the data.

use super::interval::Interval;
use super::line::{Line, Lines};
use super::order;
use super::scatter::{self, Scatter};
use super::sizes::{self, Order, Size};
use super::step::Step;
use super::verdict::{Beyond, Bounds, Bracket, Estimate, Rejection, Verdict};
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
    /// finite) are left out.
    #[must_use]
    pub fn of(software: &Curve, offload: &Curve) -> Self {
        let found = sizes::common(software, offload);
        let mut sizes = found.sizes;
        let has_enough = sizes.len() >= FEWEST;
        let lines = has_enough.then(|| Lines::through(&sizes)).flatten();
        let step = lines
            .as_ref()
            .and_then(|lines| Step::of(&sizes, &lines.offload));
        let scatters = scatters(&sizes, [software, offload], lines.as_ref(), step.as_ref());
        let [of_software, of_offload] = &scatters;
        let number = sizes.len();
        for size in &mut sizes {
            size.order = scatter::order(&size.samples, of_software, of_offload, number);
        }
        let changes = order::changes(&sizes);
        let verdict = match &lines {
            None => Verdict::TooFew { sizes: number },
            Some(lines) => {
                let spreads = of_software.point.zip(of_offload.point);
                Judge {
                    sizes: &sizes,
                    lines,
                    names: [&software.name, &offload.name],
                    interval: spreads.map(|(one, other)| Interval {
                        lines,
                        spreads: [one, other],
                    }),
                    step: step.as_ref(),
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

    /// The sizes at which the order is this one, in bytes.
    pub fn of_order(&self, order: Order) -> impl Iterator<Item = u64> {
        let sizes = self.sizes.iter().filter(move |size| size.order == order);
        sizes.map(|size| size.bytes)
    }
}

/// How well the times of both are known.
fn scatters(
    sizes: &[Size],
    curves: [&Curve; 2],
    lines: Option<&Lines>,
    step: Option<&Step>,
) -> [Scatter; 2] {
    let samples = |of: fn(&Size) -> &[f64]| sizes.iter().map(of).collect::<Vec<_>>();
    let [software, offload] = curves;
    [
        Scatter::of(
            &samples(|size| &size.samples.software),
            software.resolution,
            lines.map(|lines| &lines.software),
            None,
        ),
        Scatter::of(
            &samples(|size| &size.samples.offload),
            offload.resolution,
            lines.map(|lines| &lines.offload),
            step,
        ),
    ]
}

struct Judge<'a> {
    sizes: &'a [Size],
    lines: &'a Lines,
    /// Of the software and of the offload.
    names: [&'a str; 2],
    /// What the lines leave open; None if nothing tells.
    interval: Option<Interval<'a>>,
    step: Option<&'a Step>,
}

impl Judge<'_> {
    fn verdict(&self, changes: &[Bracket]) -> Verdict {
        if let Some(step) = self.step.and_then(|step| self.step(step)) {
            return step;
        }
        match changes {
            [] => self.without_change(),
            [bracket] => self.with_change(*bracket),
            several => Verdict::Rejected(Rejection::Changes(several.to_vec())),
        }
    }

    /// A step, if the measured order is that of one.
    fn step(&self, step: &Step) -> Option<Verdict> {
        let (small, large) = self.sizes.split_at(step.below);
        let is_usual = |size: &Size| size.order != Order::Offload;
        let is_faster = |size: &Size| size.order == Order::Offload;
        let first = large.iter().position(is_faster)?;
        let (open, large) = large.split_at(first);
        let is_open = open.iter().all(|size| size.order == Order::Undecided);
        let is_step = is_open && small.iter().all(is_usual) && large.iter().all(is_faster);
        is_step.then_some(Verdict::Step {
            up_to: small.last()?.bytes,
            from: large.first()?.bytes,
        })
    }

    fn without_change(&self) -> Verdict {
        let (Some(smallest), Some(largest)) = (self.sizes.first(), self.sizes.last()) else {
            return Verdict::TooFew { sizes: 0 };
        };
        let (smallest, largest) = (smallest.bytes, largest.bytes);
        let all = |order| self.sizes.iter().all(|size| size.order == order);
        let crossing = self.lines.cross().filter(|_| self.rejection().is_none());
        if all(Order::Offload) {
            let below = crossing.filter(|bytes| *bytes < smallest as f64);
            let below = below.map(|bytes| self.estimate(bytes));
            // One that may as well be at no size at all is none.
            let is_sure = |one: &Estimate| one.interval.is_some_and(|bounds| bounds.low > 0.0);
            return Verdict::Always {
                smallest,
                below: below.filter(is_sure),
            };
        }
        if all(Order::Software) {
            let beyond = self.beyond(crossing, largest);
            return Verdict::Never { largest, beyond };
        }
        if all(Order::Alike) {
            return Verdict::Alike;
        }
        let is_among = |bytes: &f64| (smallest as f64..=largest as f64).contains(bytes);
        let has_decided = !all(Order::Undecided);
        let crossing = crossing.filter(|bytes| has_decided && is_among(bytes));
        Verdict::Partly {
            crossing: crossing.map(|bytes| self.estimate(bytes)),
        }
    }

    /// What the lines say of sizes above the largest, where software is faster.
    fn beyond(&self, crossing: Option<f64>, largest: u64) -> Beyond {
        if self.rejection().is_some() {
            return Beyond::Unknown;
        }
        let never = self.interval.as_ref().is_some_and(Interval::costs_no_less);
        match crossing.map(|bytes| self.estimate(bytes)) {
            _ if never => Beyond::Parallel,
            Some(estimate) if estimate.bytes > largest as f64 && estimate.interval.is_some() => {
                Beyond::Crosses(estimate)
            }
            _ => Beyond::Open,
        }
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
            interval: self.interval.as_ref().and_then(|one| one.around(bytes)),
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

//! Sizes that two implementations have in common.

use std::collections::BTreeMap;

use brisk_measure::Statistic;

use crate::crypto::Curve;

/// Times that are taken as such, in seconds: from a billionth of a nanosecond to 30 years.
const TIMES: std::ops::RangeInclusive<f64> = 1e-18..=1e9;

/// Which of two implementations takes less time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The software.
    Software,
    /// The offload.
    Offload,
    /// Neither: they are within [`ALIKE`](super::ALIKE) of one another, surely.
    Alike,
    /// The two are not told apart.
    Undecided,
}

/// Two implementations at one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Size {
    /// Bytes of an operation.
    pub bytes: u64,
    /// Median of the software's seconds of an operation.
    pub software: f64,
    /// Median of the offload's.
    pub offload: f64,
    /// Which of them takes less.
    pub order: Order,
    pub(super) samples: Samples,
}

/// Seconds of each run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Samples {
    pub(super) software: Vec<f64>,
    pub(super) offload: Vec<f64>,
}

pub(super) struct Common {
    pub(super) sizes: Vec<Size>,
    pub(super) left_out: Vec<u64>,
}

impl Size {
    /// The software's time, divided by the offload's: above 1 where the offload is faster.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.software / self.offload
    }

    /// Whether there is one run only of one of them.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.samples.software.len() < 2 || self.samples.offload.len() < 2
    }
}

/// The sizes of both, with their medians; the order is not decided yet.
pub(super) fn common(software: &Curve, offload: &Curve) -> Common {
    let (software, mut offload) = (samples(software), samples(offload));
    let mut sizes = Vec::new();
    let mut left_out = Vec::new();
    for (bytes, software) in software {
        match offload.remove(&bytes) {
            Some(offload) => sizes.extend(size(bytes, Samples { software, offload })),
            None => left_out.push(bytes),
        }
    }
    left_out.extend(offload.into_keys());
    left_out.sort_unstable();
    Common { sizes, left_out }
}

fn samples(curve: &Curve) -> BTreeMap<u64, Vec<f64>> {
    let mut samples: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for point in &curve.points {
        let seconds = point.seconds.iter().copied();
        let seconds: Vec<f64> = seconds.filter(|one| TIMES.contains(one)).collect();
        if !seconds.is_empty() && point.bytes > 0 {
            samples.entry(point.bytes).or_default().extend(seconds);
        }
    }
    samples
}

fn size(bytes: u64, samples: Samples) -> Option<Size> {
    let software = Statistic::Median.of(&samples.software)?;
    let offload = Statistic::Median.of(&samples.offload)?;
    Some(Size {
        bytes,
        software,
        offload,
        order: Order::Undecided,
        samples,
    })
}

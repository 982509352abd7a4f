//! When enough rounds were made. Pure.

use brisk_measure::{PairedRatio, paired_ratio};

use super::record::Record;

/// Pairs that an interval of 95 % needs: five allow at most 93.75 % of confidence.
const LEAST: usize = 6;

/// Ends an experiment when the ratio of two sides is known well enough, whatever it is. Ending as
/// soon as a difference looks significant instead would find differences where there are none.
#[derive(Debug, Clone, PartialEq)]
pub struct Narrow {
    /// The metric that is looked at.
    pub metric: String,
    /// The side that is the base.
    pub base: usize,
    /// The side that is compared with it.
    pub subject: usize,
    /// A repetition of the base. Half of what the two may differ by is precise enough: more
    /// precision than that is lost in noise.
    pub repeat: Option<usize>,
    /// Half the width of the interval that is narrow enough, relative to the ratio: 0.01 for 1 %.
    pub half_width: f64,
}

impl Narrow {
    /// Whether that is so by now.
    #[must_use]
    pub fn is_reached(&self, record: &Record<'_>) -> bool {
        let ratio_to = |side| {
            let pairs = record.pairs(self.base, side, &self.metric);
            paired_ratio(&pairs).filter(|_| pairs.len() >= LEAST)
        };
        let Some(PairedRatio { ratio, interval }) = ratio_to(self.subject) else {
            return false;
        };
        let floor = self.repeat.and_then(ratio_to).map_or(0.0, |again| {
            again.interval.high.max(again.interval.low.recip()) - 1.0
        });
        (interval.high - interval.low) / 2.0 / ratio <= self.half_width.max(floor / 2.0)
    }
}

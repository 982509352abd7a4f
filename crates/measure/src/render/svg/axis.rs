//! Places of values, and the numbers along an axis.

use ::svg::node::element::Group;

use super::{line, text};
use crate::Unit;
use crate::render::text::round_number;

/// A stretch of values drawn on a stretch of the picture.
pub(super) struct Axis {
    low: f64,
    high: f64,
    left: f64,
    right: f64,
}

impl Axis {
    /// An axis from `low` to `high`; if they are equal or no numbers, an axis of length 1.
    pub(super) fn new(low: f64, high: f64, left: f64, right: f64) -> Self {
        let usable = low.is_finite() && high.is_finite() && (high - low).is_finite() && high > low;
        let (low, high) = if usable { (low, high) } else { (0.0, 1.0) };
        Self {
            low,
            high,
            left,
            right,
        }
    }

    /// Where a value is drawn; one outside the axis at its nearer end.
    pub(super) fn x(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        self.left + share.clamp(0.0, 1.0) * (self.right - self.left)
    }

    /// Round values along the axis, about `count`: steps of 1, 2 or 5 times a power of ten
    /// (Heckbert, "Nice numbers for graph labels", Graphics Gems, 1990).
    pub(super) fn ticks(&self, count: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / count.max(1) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = match rough / power {
            f if f < 1.5 => power,
            f if f < 3.5 => 2.0 * power,
            f if f < 7.5 => 5.0 * power,
            _ => 10.0 * power,
        };
        let first = (self.low / step).ceil();
        let ticks = (0..=4 * count).map(|k| (first + k as f64) * step);
        ticks
            .filter(|tick| tick.is_finite() && *tick <= self.high + step * 1e-9)
            .collect()
    }

    /// Lines and numbers from `top` to `bottom`, the numbers above, all in one multiple of `unit`
    /// and round in it.
    pub(super) fn draw(&self, top: f64, bottom: f64, unit: Unit) -> Group {
        let scale = self.low.abs().max(self.high.abs());
        let multiple = unit.multiple_for(scale);
        let scaled = Self {
            low: self.low / multiple,
            high: self.high / multiple,
            ..*self
        };
        let name = |tick: f64| round_number(&unit.format_as(tick, scale));
        let mut group = Group::new();
        for tick in scaled.ticks(8).into_iter().map(|tick| tick * multiple) {
            let x = self.x(tick);
            group = group.add(line(x, top, x, bottom, "grid")).add(text(
                x,
                top - 6.0,
                "tick",
                &name(tick),
            ));
        }
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            Axis::new(0.0, 163.0, 0.0, 1.0).ticks(8),
            [0.0, 20.0, 40.0, 60.0, 80.0, 100.0, 120.0, 140.0, 160.0]
        );
        assert_eq!(Axis::new(1.0, 1.0, 0.0, 1.0).ticks(2), [0.0, 0.5, 1.0]);
        assert!(Axis::new(1e9, 1e9 + 1e-7, 0.0, 1.0).ticks(8).len() <= 33);
    }

    #[test]
    fn values_stay_on_the_axis() {
        let axis = Axis::new(0.0, 10.0, 100.0, 200.0);
        assert_eq!(
            (axis.x(5.0), axis.x(-1.0), axis.x(99.0)),
            (150.0, 100.0, 200.0)
        );
    }
}

//! Axes: positions of values, and numbers along an axis.

use ::svg::node::element::Group;

use super::drawing::{line, text};
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
        let mut group = Group::new();
        for (x, name) in self.marks(8, unit) {
            group =
                group
                    .add(line(x, top, x, bottom, "grid"))
                    .add(text(x, top - 6.0, "tick", &name));
        }
        group
    }

    /// For an axis that stands: its ends are heights. Lines from `left` to `right`, the numbers
    /// before them.
    pub(super) fn draw_rows(&self, left: f64, right: f64, unit: Unit) -> Group {
        let mut group = Group::new();
        for (y, name) in self.marks(6, unit) {
            group = group.add(line(left, y, right, y, "grid")).add(text(
                left - 8.0,
                y + 4.0,
                "faint end",
                &name,
            ));
        }
        group
    }

    /// Where round values are, and their names.
    fn marks(&self, count: usize, unit: Unit) -> Vec<(f64, String)> {
        let scale = self.low.abs().max(self.high.abs());
        let multiple = unit.multiple_for(scale);
        let scaled = Self {
            low: self.low / multiple,
            high: self.high / multiple,
            ..*self
        };
        let ticks = scaled.ticks(count);
        let names = distinct(&ticks, |tick| unit.format_as(tick * multiple, scale));
        let places = ticks.iter().map(|tick| self.x(tick * multiple));
        places.zip(names).collect()
    }
}

/// The names of the ticks. A unit's own form has four digits; where that gives two ticks the same
/// name, as on an axis of a few instructions out of billions, they get the digits they need.
fn distinct(ticks: &[f64], name: impl Fn(f64) -> String) -> Vec<String> {
    let mut names: Vec<String> = ticks
        .iter()
        .map(|tick| round_number(&name(*tick)))
        .collect();
    if names.windows(2).all(|pair| pair[0] != pair[1]) {
        return names;
    }
    let step = ticks.get(1).zip(ticks.first()).map_or(1.0, |(b, a)| b - a);
    let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
    for (text, tick) in names.iter_mut().zip(ticks) {
        let unit = text.split_once(' ').map_or("", |(_, unit)| unit);
        *text = format!("{tick:.decimals$} {unit}").trim_end().to_owned();
    }
    names
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
    fn close_ticks_have_different_names() {
        let names = |low, high| {
            let marks = Axis::new(low, high, 0.0, 1.0).marks(4, Unit::Instructions);
            marks.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
        };
        assert_eq!(
            names(1e9, 3e9),
            [
                "1 Ginstr",
                "1.5 Ginstr",
                "2 Ginstr",
                "2.5 Ginstr",
                "3 Ginstr"
            ]
        );
        let close = names(1.000_012e9, 1.000_03e9);
        assert_eq!(close[..2], ["1.000015 Ginstr", "1.000020 Ginstr"]);
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

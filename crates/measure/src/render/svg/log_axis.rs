//! Logarithmic axes: positions of values, and round values along the axis.

use crate::Unit;
use crate::render::text::round_number;

/// Most round values of an axis.
const MARKS: usize = 9;

/// Fewer powers of two have 1.5 times of each between them.
const FEW: usize = 4;

/// A stretch of values above 0 drawn on a stretch of the picture, equal ratios equally long.
pub(super) struct LogAxis {
    /// Logarithms to base 10 of its ends.
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

/// A round value.
pub(super) struct Mark {
    pub(super) at: f64,
    pub(super) name: String,
}

impl LogAxis {
    /// An axis around values, with some room at its ends. Values that are not above 0 do not count;
    /// without others it is one from 1 to 10.
    pub(super) fn around(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let logarithms = values
            .filter(|value| value.is_finite() && *value > 0.0)
            .map(f64::log10);
        let (low, high) = logarithms
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), one| {
                (low.min(one), high.max(one))
            });
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        // Where all values are alike, half a decade to each side.
        let room = ((high - low) * 0.04).max(if low < high { 0.05 } else { 0.5 });
        Self {
            low: low - room,
            high: high + room,
            from,
            to,
        }
    }

    /// Where a value is drawn; one outside the axis at its nearer end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = (value.log10() - self.low) / (self.high - self.low);
        let share = if share.is_nan() { 0.0 } else { share };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Whether a value is on the axis.
    pub(super) fn has(&self, value: f64) -> bool {
        value > 0.0 && (self.low..=self.high).contains(&value.log10())
    }

    /// Round values: powers of two, and 1.5 times these where there are few, for what is counted in binary multiples, else 1, 2 and 5 times
    /// powers of ten, or powers of ten only.
    pub(super) fn marks(&self, unit: Unit) -> Vec<Mark> {
        let values = match unit {
            Unit::Bytes | Unit::BytesPerSecond => self.binary(),
            _ => self.decimal(),
        };
        let mark = |value: f64| Mark {
            at: self.at(value),
            name: round_number(&unit.format(value)),
        };
        values.into_iter().map(mark).collect()
    }

    fn binary(&self) -> Vec<f64> {
        let twos = self.powers(2.0);
        if twos.len() >= FEW {
            return twos;
        }
        let first = (self.low / 2_f64.log10()).floor() as i32;
        let last = (self.high / 2_f64.log10()).ceil() as i32;
        let all = (first..=last).flat_map(|power| [2_f64.powi(power), 1.5 * 2_f64.powi(power)]);
        all.filter(|value| self.has(*value)).collect()
    }

    fn decimal(&self) -> Vec<f64> {
        let tens = self.powers(10.0);
        let first = self.low.floor() as i32;
        let last = self.high.ceil() as i32;
        // An axis has at most 600 powers of ten: those of f64.
        let all = (first..=last).flat_map(|power| {
            let ten = 10_f64.powi(power);
            [ten, 2.0 * ten, 5.0 * ten]
        });
        let all: Vec<f64> = all.filter(|value| self.has(*value)).collect();
        if all.len() <= MARKS { all } else { tens }
    }

    /// Powers of a base, as many of them as there is room for: each, each second, fourth, …
    fn powers(&self, base: f64) -> Vec<f64> {
        let power = base.log10();
        let first = (self.low / power).ceil() as i32;
        let last = (self.high / power).floor() as i32;
        let mut step = 1;
        while (last - first) / step >= MARKS as i32 {
            step *= 2;
        }
        let first = first + (-first).rem_euclid(step);
        let powers = (first..=last).step_by(step as usize);
        powers.map(|power| base.powi(power)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(low: f64, high: f64, unit: Unit) -> String {
        let axis = LogAxis::around([low, high].into_iter(), 0.0, 100.0);
        let marks = axis.marks(unit).into_iter();
        marks.map(|mark| mark.name).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn sizes_are_powers_of_two_and_times_of_ten() {
        let cases = [
            (
                16.0,
                16384.0,
                Unit::Bytes,
                "16 B, 64 B, 256 B, 1 KiB, 4 KiB, 16 KiB",
            ),
            (
                16.0,
                1_048_576.0,
                Unit::Bytes,
                "16 B, 64 B, 256 B, 1 KiB, 4 KiB, 16 KiB, 64 KiB, 256 KiB, 1 MiB",
            ),
            (100.0, 200.0, Unit::Bytes, "96 B, 128 B, 192 B"),
            (2e-6, 4e-5, Unit::Seconds, "2 µs, 5 µs, 10 µs, 20 µs"),
            (
                2e-9,
                4e-2,
                Unit::Seconds,
                "10 ns, 100 ns, 1 µs, 10 µs, 100 µs, 1 ms, 10 ms",
            ),
            (0.0, f64::NAN, Unit::Seconds, "1 s, 2 s, 5 s, 10 s"),
            (5.0, 5.0, Unit::Seconds, "2 s, 5 s, 10 s"),
        ];
        for (low, high, unit, expected) in cases {
            assert_eq!(names(low, high, unit), expected, "{low} {high}");
        }
        let wide = LogAxis::around([1e-300, 1e300].into_iter(), 0.0, 100.0);
        for unit in [Unit::Seconds, Unit::Bytes] {
            assert!(wide.marks(unit).len() <= MARKS + 1);
        }
    }

    #[test]
    fn equal_ratios_are_equally_long() {
        let axis = LogAxis::around([1.0, 100.0].into_iter(), 0.0, 100.0);
        let (one, ten, hundred) = (axis.at(1.0), axis.at(10.0), axis.at(100.0));
        assert!((ten - one - (hundred - ten)).abs() < 1e-9);
        assert_eq!(
            (axis.at(0.0), axis.at(-1.0), axis.at(1e9)),
            (0.0, 0.0, 100.0)
        );
    }
}

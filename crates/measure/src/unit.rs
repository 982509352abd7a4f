//! Units of values, and their format for people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which direction is an improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Less is better: durations, sizes.
    Lower,
    /// More is better: throughput.
    Higher,
}

/// The unit of the values of a series.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Time.
    Seconds,
    /// Memory or storage.
    Bytes,
    /// Throughput.
    BytesPerSecond,
    /// Machine instructions; under `-icount shift=0` also nanoseconds of guest time.
    Instructions,
    /// Things counted.
    Count,
    /// Things counted in a second, as wakeups or exits.
    PerSecond,
    /// A number without a unit, 1 being the whole.
    Ratio,
    /// Hundredths. Of CPU time, 100 is one CPU.
    Percent,
}

/// Decimal multiples, smallest first.
const DECIMAL: [(f64, &str); 5] = [(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")];

/// Binary multiples, smallest first (IEC 80000-13).
const BINARY: [(f64, &str); 6] = [
    (1.0, "B"),
    (1024.0, "KiB"),
    (1048576.0, "MiB"),
    (1073741824.0, "GiB"),
    (1099511627776.0, "TiB"),
    (1125899906842624.0, "PiB"),
];

/// Multiples of a second, smallest first.
const TIME: [(f64, &str); 4] = [(1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")];

impl Unit {
    /// The direction that is usually an improvement; a series may say otherwise.
    pub fn better(self) -> Better {
        match self {
            Self::BytesPerSecond => Better::Higher,
            _ => Better::Lower,
        }
    }

    /// The short name of the unit in tables and CSV heads, empty for plain numbers.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Bytes => "B",
            Self::BytesPerSecond => "B/s",
            Self::Instructions => "instructions",
            Self::Count | Self::Ratio => "",
            Self::PerSecond => "1/s",
            Self::Percent => "%",
        }
    }

    /// Formats `value` for people: three or four significant digits and a fitting multiple, such as
    /// `1.234 s`, `56.7 ms`, `1.50 GiB`.
    pub fn format(self, value: f64) -> String {
        self.format_as(value, value)
    }

    /// Formats `value` in the multiple that fits `scale`, so that the numbers of one column agree.
    pub fn format_as(self, value: f64, scale: f64) -> String {
        if !value.is_finite() {
            return "?".to_owned();
        }
        let (multiple, name, suffix) = self.multiple(scale);
        let scaled = value / multiple;
        // A count is whole; decimals would claim something else.
        let number = if multiple == 1.0 && self != Self::Seconds && scaled.fract() == 0.0 {
            format!("{scaled:.0}")
        } else {
            significant(scaled)
        };
        match (name, suffix) {
            ("", "") => number,
            _ => format!("{number} {name}{suffix}"),
        }
    }

    /// The number that the multiple fitting `scale` stands for: 1048576 for mebibytes.
    pub(crate) fn multiple_for(self, scale: f64) -> f64 {
        self.multiple(scale).0
    }

    fn multiple(self, scale: f64) -> (f64, &'static str, &'static str) {
        let (table, suffix): (&[(f64, &str)], &str) = match self {
            Self::Seconds => (&TIME, ""),
            Self::Bytes => (&BINARY, ""),
            Self::BytesPerSecond => (&BINARY, "/s"),
            Self::Instructions => (&DECIMAL, "instr"),
            Self::Count => (&DECIMAL, ""),
            Self::PerSecond => (&DECIMAL, "/s"),
            Self::Ratio => (&DECIMAL[..1], ""),
            Self::Percent => (&DECIMAL[..1], "%"),
        };
        let scale = scale.abs();
        if scale == 0.0 && self == Self::Seconds {
            return (1.0, "s", suffix);
        }
        // 999.96 ms would be written 1000.0 ms: such a value belongs to the next multiple.
        let (multiple, name) = table
            .iter()
            .rev()
            .find(|(multiple, _)| scale >= multiple * 0.99995)
            .unwrap_or(&table[0]);
        (*multiple, name, suffix)
    }
}

/// Four significant digits from 1 up, three decimals below.
fn significant(number: f64) -> String {
    let decimals = match number.abs() {
        n if n >= 1000.0 => 0,
        n if n >= 99.995 => 1,
        n if n >= 9.9995 => 2,
        _ => 3,
    };
    if number.abs() >= 1e15 {
        return format!("{number:e}");
    }
    format!("{number:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_the_multiple_that_fits() {
        let cases = [
            (Unit::Seconds, 0.0, "0.000 s"),
            (Unit::Seconds, 1.2345678, "1.235 s"),
            (Unit::Seconds, 0.0567, "56.70 ms"),
            (Unit::Seconds, 12.5e-6, "12.50 µs"),
            (Unit::Seconds, 3e-9, "3.000 ns"),
            (Unit::Seconds, 0.99999, "1.000 s"),
            (Unit::Seconds, -0.25, "-250.0 ms"),
            (Unit::Seconds, 4000.0, "4000 s"),
            (Unit::Bytes, 512.0, "512 B"),
            (Unit::Bytes, 1536.0, "1.500 KiB"),
            (Unit::Bytes, 1147.0 * 1048576.0, "1.120 GiB"),
            (Unit::BytesPerSecond, 195.0 * 1048576.0, "195.0 MiB/s"),
            (Unit::Instructions, 2_500_000.0, "2.500 Minstr"),
            (Unit::Count, 42.0, "42"),
            (Unit::Count, 4.5, "4.500"),
            (Unit::PerSecond, 250.0, "250 /s"),
            (Unit::Ratio, 0.97, "0.970"),
            (Unit::Percent, 12.5, "12.50 %"),
            (Unit::Seconds, f64::NAN, "?"),
        ];
        for (unit, value, text) in cases {
            assert_eq!(unit.format(value), text, "{value} {unit:?}");
        }
    }

    #[test]
    fn a_column_keeps_one_multiple() {
        assert_eq!(Unit::Seconds.format_as(0.0123, 2.0), "0.012 s");
    }
}

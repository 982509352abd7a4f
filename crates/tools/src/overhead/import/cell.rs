//! What stands in one cell of a table. Pure.

use super::number;
use super::quantity::Quantity;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    /// Nothing, or a dash.
    Empty,
    /// A number, with its unit if it has one.
    Value(Value),
    /// Percent of the first.
    Share(f64),
    /// Something in place of a number, and what is wrong with it.
    Wrong(String),
    /// A name or a remark.
    Text,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Value {
    pub(super) number: f64,
    pub(super) quantity: Option<Quantity>,
    /// Whether it is a mean, by the deviation behind it.
    pub(super) is_mean: bool,
}

/// Words for a number that there is not.
const ABSENT: [&str; 11] = [
    "n/a", "na", "nan", "inf", "failed", "fail", "crashed", "crash", "error", "timeout", "dnf",
];

/// Marks of a deviation behind a mean.
const DEVIATION: [&str; 3] = ["±", "+/-", "+-"];

impl Cell {
    pub(super) fn read(text: &str) -> Self {
        let text = plain(text);
        // Behind a number, brackets with a percentage are its difference from another.
        let text = match text.rsplit_once('(') {
            Some((before, inside)) if inside.ends_with("%)") && !before.trim().is_empty() => {
                before.trim()
            }
            _ => text,
        };
        if text.chars().all(|one| matches!(one, '-' | '–' | '—')) {
            return Self::Empty;
        }
        let is_word = text.starts_with(char::is_alphabetic);
        if is_word && ABSENT.contains(&&*text.to_lowercase()) {
            return Self::Wrong(format!("{text} is no number: leave the line out"));
        }
        let unsigned = text.trim_start_matches(['-', '+', '~', '≈', '<', '>', ' ']);
        if !unsigned.starts_with(|one: char| one.is_ascii_digit() || one == '.') {
            return Self::Text;
        }
        if let Some(seconds) = duration(text) {
            return Self::of(seconds, Some(Quantity::seconds()), false);
        }
        let (sign, rest) = text.split_at(text.len() - unsigned.len());
        let end = rest.find(|one: char| !(one.is_ascii_digit() || ".,'".contains(one)));
        let (digits, unit) = rest.split_at(end.unwrap_or(rest.len()));
        let unit = unit.trim();
        // A difference from another, or how many times another: not its number.
        if matches!(unit, "x" | "×") || (!sign.is_empty() && unit == "%") {
            return Self::Text;
        }
        let Some(value) = number(digits).filter(|_| sign.is_empty()) else {
            return Self::Wrong(mistake(sign, digits, text));
        };
        Self::with_unit(value, unit).unwrap_or_else(|| {
            Self::Wrong(format!("{text} is no number with a unit that is known"))
        })
    }

    fn of(number: f64, quantity: Option<Quantity>, is_mean: bool) -> Self {
        Self::Value(Value {
            number,
            quantity,
            is_mean,
        })
    }

    /// A number with what stands behind it.
    fn with_unit(value: f64, unit: &str) -> Option<Self> {
        if unit.is_empty() {
            return Some(Self::of(value, None, false));
        }
        if unit == "%" {
            return Some(Self::Share(value));
        }
        let mean = DEVIATION.iter().find_map(|mark| unit.split_once(mark));
        let Some((before, deviation)) = mean else {
            return Some(Self::of(value, Some(Quantity::of(unit)?), false));
        };
        let deviation = deviation.trim();
        let is_number = |one: char| one.is_ascii_digit() || ".,".contains(one);
        let behind = deviation.trim_start_matches(is_number).trim();
        let unit = match (before.trim(), behind) {
            ("", "%" | "") => return Some(Self::of(value, None, true)),
            ("", behind) => behind,
            (before, _) => before,
        };
        Some(Self::of(value, Some(Quantity::of(unit)?), true))
    }
}

/// Without what Markdown puts around a word.
pub(super) fn plain(text: &str) -> &str {
    text.trim_matches(|one: char| one.is_whitespace() || matches!(one, '*' | '`' | '"' | '\u{a0}'))
}

fn mistake(sign: &str, digits: &str, text: &str) -> String {
    let has_commas = digits.contains(',');
    if matches!(sign.trim(), "-" | "") && !has_commas && digits.parse::<f64>().is_ok() {
        return format!("{}{digits} is not above 0", sign.trim());
    }
    if has_commas {
        return format!(
            "{digits} is no number: write 12.5 with a point, and a comma before three digits only"
        );
    }
    format!("{text} is no number")
}

/// Seconds of a time with minutes, as `time` and people write it: `1m2.3s`, `1h2m3s`, `1:02.3`.
/// `time` has the decimal comma of the locale, before three digits.
pub(super) fn duration(text: &str) -> Option<f64> {
    let parts = match text.strip_suffix('s') {
        Some(text) if text.contains('m') => {
            let (minutes, seconds) = text.split_once('m')?;
            let (hours, minutes) = minutes.split_once('h').unwrap_or(("0", minutes));
            let seconds = seconds.trim().replace(',', ".");
            [hours.to_owned(), minutes.trim().to_owned(), seconds]
        }
        Some(_) => return None,
        None => {
            let (before, seconds) = text.rsplit_once(':')?;
            let (hours, minutes) = before.rsplit_once(':').unwrap_or(("0", before));
            [hours, minutes, seconds].map(str::to_owned)
        }
    };
    let whole = |text: &str| {
        text.bytes()
            .all(|one| one.is_ascii_digit())
            .then(|| text.parse().ok())
    };
    let [hours, minutes, seconds] = &parts;
    let (hours, minutes): (f64, f64) = (whole(hours)??, whole(minutes)??);
    if !seconds.starts_with(|one: char| one.is_ascii_digit()) {
        return None;
    }
    let seconds: f64 = seconds.parse().ok().filter(|seconds| *seconds < 60.0)?;
    let all = hours * 3600.0 + minutes * 60.0 + seconds;
    (all > 0.0).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(number: f64, unit: Option<&str>, is_mean: bool) -> Cell {
        Cell::of(number, unit.and_then(Quantity::of), is_mean)
    }

    #[test]
    fn a_cell_is_a_number_with_its_unit_or_no_number() {
        for (text, expected) in [
            ("12.5", value(12.5, None, false)),
            ("**1,042.5 s**", value(1042.5, Some("s"), false)),
            ("60100 IOPS", value(60100.0, Some("IOPS"), false)),
            ("2.0 ± 0.1 ms", value(2.0, Some("ms"), true)),
            ("2.0 s +- 3 %", value(2.0, Some("s"), true)),
            ("131.9 (+9.5%)", value(131.9, None, false)),
            ("1m2.5s", value(62.5, Some("s"), false)),
            ("0m1,250s", value(1.25, Some("s"), false)),
            ("1:02:03", value(3723.0, Some("s"), false)),
            ("61.62%", Cell::Share(61.62)),
            ("-", Cell::Empty),
            ("+9.5 %", Cell::Text),
            ("1.27x", Cell::Text),
            ("as before", Cell::Text),
        ] {
            assert_eq!(Cell::read(text), expected, "{text}");
        }
        for text in [
            "60.1k",
            "12,5",
            "0",
            "-4 s",
            "n/a",
            "5.4.0-rc3",
            "2 GiB",
            "~12 s",
            "12 (0.3)",
        ] {
            assert!(matches!(Cell::read(text), Cell::Wrong(_)), "{text}");
        }
    }
}

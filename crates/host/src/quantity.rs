//! Sizes, rates and durations as users write them.

use std::time::Duration;

/// Parses memory in MiB from a text such as `512M`, `2G`, `1GiB`, or `512`, which are MiB; `None`
/// if it is no size. Units are powers of 1024.
#[must_use]
pub fn memory_mib(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: u64 = digits.parse().ok()?;
    let unit = text[digits.len()..].to_ascii_uppercase();
    match unit.trim_end_matches("IB") {
        "" | "M" => Some(number),
        "K" => Some(number / 1024),
        "G" => number.checked_mul(1024),
        "T" => number.checked_mul(1024 * 1024),
        _ => None,
    }
}

/// Parses bytes a second, from 1 to 10¹⁵, from a text such as `200M`; `None` if it is no rate.
/// Units are powers of 1000, as in the reports of a suspend.
#[must_use]
pub fn rate(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = match unit {
        "" => 1.0,
        "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return None,
    };
    let rate = number.parse::<f64>().ok()? * unit;
    (1.0..=1e15).contains(&rate).then_some(rate as u64)
}

/// Parses a duration that is not zero from a text such as `90`, `1.5s`, `500ms`, `5m` or `1h`; a
/// number without a unit is seconds. `None` if it is no duration.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let number: f64 = digits.parse().ok()?;
    let duration = Duration::try_from_secs_f64(number * unit).ok()?;
    (!duration.is_zero()).then_some(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_binary() {
        for (text, mib) in [
            ("512", 512),
            ("512M", 512),
            ("2G", 2048),
            ("1GiB", 1024),
            ("131072k", 128),
        ] {
            assert_eq!(memory_mib(text), Some(mib), "{text}");
        }
        for text in ["", "M", "-1G", "12Q", "99999999999999999T"] {
            assert_eq!(memory_mib(text), None, "{text}");
        }
    }

    #[test]
    fn rates_are_decimal() {
        assert_eq!(rate("200M"), Some(200_000_000));
        assert_eq!(rate("1.5G"), Some(1_500_000_000));
        assert_eq!(rate("64K"), Some(64_000));
        assert_eq!(rate("12345"), Some(12345));
        for text in [
            "",
            "M",
            "0",
            "0.1",
            "1T",
            "1M/s",
            "-1M",
            "1e6",
            "1.2.3M",
            "99999999999G",
        ] {
            assert_eq!(rate(text), None, "{text}");
        }
    }

    #[test]
    fn durations_have_units() {
        for (text, millis) in [
            ("90", 90_000),
            ("1.5s", 1500),
            ("500ms", 500),
            ("5m", 300_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(
                duration(text),
                Some(Duration::from_millis(millis)),
                "{text}"
            );
        }
        for text in ["", "s", "0", "-3s", "5d", "infs", "1e400"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}

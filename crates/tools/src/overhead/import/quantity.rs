//! What numbers of others measure: times, or rates of which more is better. Pure.

use super::cell::plain;

/// A unit whose direction is known.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Quantity {
    /// As it is shown: `s` of all times.
    pub(super) unit: String,
    /// What a number in the unit of the file is multiplied with.
    pub(super) factor: f64,
    pub(super) lower_is_better: bool,
}

const TIMES: [(&[&str], f64); 6] = [
    (&["ns", "nsec", "nsecs", "nanoseconds"], 1e-9),
    (&["us", "µs", "μs", "usec", "usecs", "microseconds"], 1e-6),
    (&["ms", "msec", "msecs", "milliseconds"], 1e-3),
    (&["s", "sec", "secs", "second", "seconds"], 1.0),
    (&["min", "mins", "minute", "minutes"], 60.0),
    (&["h", "hr", "hrs", "hour", "hours"], 3600.0),
];

/// Rates that do not name the time in which they are counted, and scores.
const RATES: [&str; 30] = [
    "iops",
    "kiops",
    "ops",
    "kops",
    "mops",
    "bogo ops",
    "tps",
    "qps",
    "rps",
    "eps",
    "fps",
    "lps",
    "lpm",
    "bps",
    "kbps",
    "mbps",
    "gbps",
    "flops",
    "mflops",
    "gflops",
    "tflops",
    "mips",
    "gips",
    "mwips",
    "score",
    "points",
    "pts",
    "index",
    "throughput",
    "bandwidth",
];

/// Ends of rates.
const PER: [&str; 6] = ["/s", "/sec", "/second", "/min", "/h", "/hour"];

impl Quantity {
    pub(super) fn seconds() -> Self {
        Self {
            unit: "s".to_owned(),
            factor: 1.0,
            lower_is_better: true,
        }
    }

    /// A unit by its name; none of one whose direction is not known.
    pub(super) fn of(text: &str) -> Option<Self> {
        let text = text.trim();
        let lower = text.to_lowercase();
        let time = |text: &str| {
            let mut times = TIMES.iter();
            times.find_map(|(names, factor)| names.contains(&text).then_some(*factor))
        };
        if let Some(factor) = time(&lower) {
            return Some(Self {
                factor,
                ..Self::seconds()
            });
        }
        let is_rate = RATES.contains(&&*lower)
            || PER.iter().any(|end| {
                let of = lower.strip_suffix(end);
                of.is_some_and(|of| of.starts_with(char::is_alphabetic))
            })
            || lower.contains(" per ") && !lower.contains("seconds per");
        if is_rate {
            return Some(Self {
                unit: text.to_owned(),
                factor: 1.0,
                lower_is_better: false,
            });
        }
        // Time for each of something: `ns/op`.
        let (of_each, _) = lower.split_once('/')?;
        time(of_each).map(|factor| Self {
            factor,
            ..Self::seconds()
        })
    }

    /// A name, and the unit behind it in brackets, behind a comma or behind `in`.
    pub(super) fn behind(text: &str) -> Option<(String, Self)> {
        let text = text.trim();
        let close = text.chars().next_back()?;
        let open = match close {
            ')' => Some('('),
            ']' => Some('['),
            _ => None,
        };
        let (name, unit) = match open {
            Some(open) => text[..text.len() - 1].rsplit_once(open)?,
            None => text
                .rsplit_once(", ")
                .or_else(|| text.rsplit_once(" in "))?,
        };
        Some((plain(name).to_owned(), Self::of(unit)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_a_direction_or_are_not_known() {
        let of = |text| Quantity::of(text).map(|one| (one.unit, one.factor, one.lower_is_better));
        let time = |factor| Some(("s".to_owned(), factor, true));
        for (text, factor) in [
            ("s", 1.0),
            ("Seconds", 1.0),
            ("ms", 1e-3),
            ("minutes", 60.0),
        ] {
            assert_eq!(of(text), time(factor), "{text}");
        }
        assert_eq!(of("usecs/op"), time(1e-6));
        for text in [
            "IOPS",
            "events/s",
            "MB/s",
            "Frames Per Second",
            "kernels/hour",
            "lps",
        ] {
            assert_eq!(of(text), Some((text.to_owned(), 1.0, false)), "{text}");
        }
        for text in ["", "%", "GiB", "W", "KVM", "/s"] {
            assert_eq!(of(text), None, "{text}");
        }
        let behind = |text| Quantity::behind(text).map(|(name, one)| (name, one.unit));
        let pair = |name: &str, unit: &str| Some((name.to_owned(), unit.to_owned()));
        assert_eq!(behind("compile (s)"), pair("compile", "s"));
        assert_eq!(behind("Mean [ms]"), pair("Mean", "s"));
        assert_eq!(behind("fio, MiB/s"), pair("fio", "MiB/s"));
        assert_eq!(behind("time in seconds"), pair("time", "s"));
        assert_eq!(behind("compile (defconfig)"), None);
    }
}

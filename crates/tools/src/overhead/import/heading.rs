//! What the heading of a column says that its numbers are. Pure.

use super::cell::plain;
use super::quantity::Quantity;

/// A column by its heading.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Column {
    /// Percent of the first target's speed.
    Share,
    /// Runs of the same, in a unit if it is named.
    Run(Option<Quantity>),
    /// Means or medians of runs.
    Mean(Option<Quantity>),
    /// Numbers of a result with this name, which may be empty.
    Result(String, Quantity),
    /// Numbers beside the result: deviations, extremes, CPU time, counts.
    Beside,
    /// Units of the lines.
    Unit,
    /// A name that says nothing about numbers, as that of a system.
    Name(String),
}

const SHARES: [&str; 6] = [
    "percent",
    "share",
    "share (%)",
    "speed (%)",
    "speed %",
    "relative speed",
];
const RUNS: [&str; 6] = ["run", "r", "trial", "try", "iteration", "sample"];
const MEANS: [&str; 5] = ["mean", "avg", "average", "median", "amean"];
pub(super) const TIMES: [&str; 8] = [
    "time",
    "times",
    "real",
    "elapsed",
    "runtime",
    "duration",
    "wall",
    "wall time",
];
const BESIDE: [&str; 38] = [
    "stddev",
    "std dev",
    "std. dev.",
    "std",
    "sd",
    "σ",
    "±",
    "deviation",
    "dev",
    "cv",
    "coeffvar",
    "min",
    "max",
    "minimum",
    "maximum",
    "best",
    "worst",
    "user",
    "system",
    "sys",
    "relative",
    "ratio",
    "speedup",
    "slowdown",
    "factor",
    "runs",
    "samples",
    "n",
    "count",
    "rank",
    "version",
    "kernel",
    "cpus",
    "cores",
    "threads",
    "vcpus",
    "date",
    "error",
];
const TESTS: [&str; 9] = [
    "test",
    "tests",
    "test case",
    "test name",
    "benchmark",
    "benchmarks",
    "workload",
    "metric",
    "task",
];
const SYSTEMS: [&str; 18] = [
    "system",
    "systems",
    "target",
    "targets",
    "host",
    "machine",
    "platform",
    "hypervisor",
    "name",
    "environment",
    "vm",
    "guest",
    "runtime",
    "vmm",
    "setup",
    "configuration",
    "config",
    "kernel",
];

/// What the heading above the names says that the lines are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lines {
    Tests,
    Systems,
    Unknown,
}

impl Lines {
    pub(super) fn of(corner: &str) -> Self {
        let corner = word(corner);
        let has = |words: &[&str]| words.contains(&&*corner);
        match (has(&TESTS), has(&SYSTEMS)) {
            (true, _) => Self::Tests,
            (_, true) => Self::Systems,
            _ => Self::Unknown,
        }
    }
}

fn word(text: &str) -> String {
    plain(text).to_lowercase().replace('-', " ")
}

impl Column {
    pub(super) fn of(heading: &str) -> Self {
        let text = plain(heading);
        let (name, quantity) = match Quantity::behind(text) {
            Some((name, quantity)) => (name, Some(quantity)),
            None => (text.to_owned(), None),
        };
        let plain = word(&name);
        let number = plain.trim_start_matches(char::is_alphabetic);
        let is_numbered = |number: &str| {
            let number = number.trim_start_matches(['#', ' ', '.']);
            number.bytes().all(|one| one.is_ascii_digit())
        };
        let begin = &plain[..plain.len() - number.len()];
        let words: Vec<_> = plain.split(' ').collect();
        let (first, last) = (words[0], words[words.len() - 1]);
        let is_beside = |word: &str| BESIDE.contains(&word);
        if plain.starts_with('%') || SHARES.contains(&&*plain) {
            Self::Share
        } else if matches!(&*plain, "unit" | "units") {
            Self::Unit
        } else if is_beside(&plain) || is_beside(first) && TIMES.contains(&last) {
            Self::Beside
        } else if words.iter().any(|word| MEANS.contains(word)) {
            Self::Mean(quantity)
        } else if TIMES.contains(&&*plain)
            || is_numbered(number) && (RUNS.contains(&begin) || number.starts_with('#'))
        {
            Self::Run(quantity)
        } else if let Some(quantity) = Quantity::of(text) {
            Self::Result(String::new(), quantity)
        } else {
            match quantity {
                Some(quantity) => Self::Result(name, quantity),
                None if words.len() > 1 && last == "time" => {
                    Self::Result(name, Quantity::seconds())
                }
                None => Self::Name(name),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_says_what_its_column_has() {
        let seconds = || Some(Quantity::seconds());
        for (text, expected) in [
            ("%", Column::Share),
            ("% of bare metal", Column::Share),
            (
                "Seconds",
                Column::Result(String::new(), Quantity::seconds()),
            ),
            ("Time (s)", Column::Run(seconds())),
            ("**run 1**", Column::Run(None)),
            ("#2", Column::Run(None)),
            ("2", Column::Name("2".into())),
            (
                "Build time",
                Column::Result("Build time".into(), Quantity::seconds()),
            ),
            ("Min time (s)", Column::Beside),
            ("mean (s)", Column::Mean(seconds())),
            ("Average time (s)", Column::Mean(seconds())),
            ("Std. dev.", Column::Beside),
            (
                "compile (s)",
                Column::Result("compile".into(), Quantity::seconds()),
            ),
            ("KVM", Column::Name("KVM".into())),
            ("6.1", Column::Name("6.1".into())),
            (
                "5.4.0-rc3 (patched)",
                Column::Name("5.4.0-rc3 (patched)".into()),
            ),
        ] {
            assert_eq!(Column::of(text), expected, "{text}");
        }
        assert_eq!(Lines::of("Test Name"), Lines::Tests);
        assert_eq!(Lines::of("System"), Lines::Systems);
        assert_eq!(Lines::of(""), Lines::Unknown);
    }
}

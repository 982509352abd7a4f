//! The probe: a static program that measures what single operations cost in a target, and what it
//! prints. Pure.

use std::collections::BTreeMap;

use brisk_measure::{Interval, Report, Series, Statistic};

use super::metrics::series;
use super::report::ratio;

pub use brisk_probe::{OPERATIONS, Operation};

/// The program. It needs nothing but a Linux kernel, on x86-64.
pub const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probe"));

/// Name of the program's file in the work directory.
pub(super) const FILE: &str = "probe";

/// What the probe measured in a target, by its own clock.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figures {
    /// Medians of batches, nanoseconds, by the name of the operation.
    pub medians: BTreeMap<String, f64>,
    /// Why the others cannot be measured, by their name.
    pub skipped: BTreeMap<String, String>,
}

impl Figures {
    /// Takes a line of the probe about an operation of [`OPERATIONS`]; others are left out.
    pub(super) fn take(&mut self, line: &str) {
        let mut words = line.splitn(3, ' ');
        let (kind, name) = (words.next(), words.next());
        // Other names are those of what the host measures.
        let name = name.filter(|name| OPERATIONS.iter().any(|one| one.name == *name));
        match (kind, name, words.next()) {
            (Some("figure"), Some(name), Some(numbers)) => {
                let median = numbers.split(' ').next().and_then(|text| text.parse().ok());
                let median = median.filter(|median: &f64| median.is_finite() && *median >= 0.0);
                self.medians
                    .extend(median.map(|median| (name.to_owned(), median)));
            }
            (Some("skip"), Some(name), Some(reason)) => {
                self.skipped.insert(name.to_owned(), reason.to_owned());
            }
            _ => {}
        }
    }

    /// Facts of the target about operations that were not measured, by their names.
    pub(super) fn reasons(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let skipped = self.skipped.iter();
        skipped.map(|(name, reason)| (name.clone(), format!("skipped: {reason}")))
    }
}

/// An operation in a target, over all rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Median of the rounds, seconds.
    pub median: f64,
    /// Times the host's of the same round: the Hodges–Lehmann estimate; none without the host's.
    pub ratio: Option<f64>,
    /// The 95 % interval of the ratio; none with fewer than six rounds, and for the host itself.
    pub interval: Option<Interval>,
}

/// An operation in all targets.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The operation.
    pub operation: Operation,
    /// What it costs on each side, in the order of the names; none where it was not measured.
    pub costs: Vec<Option<Cost>>,
}

/// The operations of a report, on the sides of `names`, the first of which is the host.
#[must_use]
pub fn rows(report: &Report, names: &[String]) -> Vec<Row> {
    let row = |operation: Operation| {
        let of_side = |name: &String| series(report, name, operation.name);
        let host = names.first().and_then(of_side);
        let cost = |name: &String| {
            let own = of_side(name)?;
            let (ratio, interval) = host.map_or((None, None), |host| ratio(host, own));
            Some(Cost {
                median: Statistic::Median.of(&Series::values(own))?,
                ratio,
                interval: interval.filter(|_| names.first() != Some(name)),
            })
        };
        Row {
            operation,
            costs: names.iter().map(cost).collect(),
        }
    };
    OPERATIONS.map(row).into()
}

#[cfg(test)]
mod tests {
    use brisk_measure::{Environment, Unit};

    use super::*;

    #[test]
    fn an_operation_is_compared_round_by_round() {
        let mut report = Report::new("overhead", "2026-11-25T00:00:00Z", Environment::default());
        let mut put = |name: &str, values: [f64; 6]| {
            let series = Series::of_values(name, Unit::Seconds, values);
            report.series.push(series);
        };
        put("host: switch-pipe", [1e-6, 2e-6, 4e-6, 1e-6, 2e-6, 4e-6]);
        put("x: switch-pipe", [3e-6, 6e-6, 12e-6, 3e-6, 6e-6, 12e-6]);
        put("x: net-loopback", [1e-6; 6]);
        let names = ["host", "x"].map(str::to_owned);
        let rows = rows(&report, &names);
        assert_eq!(rows.len(), OPERATIONS.len());
        let of = |name: &str| {
            let row = rows.iter().find(|row| row.operation.name == name);
            row.unwrap().costs.clone()
        };
        let [Some(host), Some(x)] = of("switch-pipe")[..] else {
            panic!("both have it");
        };
        assert!((host.median - 2e-6).abs() < 1e-12 && host.interval.is_none());
        assert!((x.median - 6e-6).abs() < 1e-12);
        assert!((x.ratio.unwrap() - 3.0).abs() < 1e-9);
        let interval = x.interval.unwrap();
        assert!(interval.low > 2.99 && interval.high < 3.01);
        let [None, Some(alone)] = of("net-loopback")[..] else {
            panic!("the host has none");
        };
        assert_eq!((alone.ratio, alone.interval), (None, None));
        assert_eq!(of("user-sort"), [None, None]);
    }

    #[test]
    fn lines_of_the_probe_are_read() {
        let mut figures = Figures::default();
        for line in [
            "figure switch-pipe 9457.962 5202.419 7",
            "skip ipi-mprotect there is one CPU",
            "figure switch-futex - - 0",
            "figure user-sort NaN 1 7",
            "figure user-float -1 1 7",
            "figure user-integer 1e999 1 7",
            "figure time 5 1 7",
            "skip time none",
            "figure",
            "something else",
        ] {
            figures.take(line);
        }
        let medians = BTreeMap::from([("switch-pipe".to_owned(), 9457.962)]);
        assert_eq!(figures.medians, medians);
        let facts: Vec<_> = figures.reasons().collect();
        let fact = ("ipi-mprotect", "skipped: there is one CPU");
        assert_eq!(facts, [(fact.0.to_owned(), fact.1.to_owned())]);
    }

    #[test]
    fn names_of_operations_are_unique_and_no_other_metric() {
        let names: std::collections::BTreeSet<_> = OPERATIONS.iter().map(|one| one.name).collect();
        assert_eq!(names.len(), OPERATIONS.len());
        assert!(names.iter().all(|name| name.contains('-')));
    }
}

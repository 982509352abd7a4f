//! RedHawk's table. Pure.

use brisk_measure::render::{Bar, BarPanel, columns};
use brisk_measure::{Interval, Report, Unit, Verdict};

use super::{AGAIN, Caches, OFF, ON, SIDES, metric};
use crate::ktext::worker::Operation;

/// An operation of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The operation.
    pub operation: Operation,
    /// Caches at its beginning.
    pub caches: Caches,
    /// Unit of both.
    pub unit: Unit,
    /// Without replication.
    pub off: Option<f64>,
    /// With it.
    pub on: Option<f64>,
    /// How much less it is with replication, hundredths of without; negative if it is more.
    pub improvement: Option<f64>,
    /// The 95 % interval of that.
    pub interval: Option<Interval>,
    /// How much two measurements without replication differ, hundredths; none if not known.
    pub noise: Option<f64>,
    /// Whether there is a difference.
    pub verdict: Verdict,
}

/// The rows of a report of `brisk ktext bench`.
#[must_use]
pub fn rows(report: &Report) -> Vec<Row> {
    let mut rows = Vec::new();
    for caches in [Caches::Hot, Caches::Cold] {
        for operation in Operation::ALL {
            rows.extend(row(report, operation, caches));
        }
    }
    rows
}

fn row(report: &Report, operation: Operation, caches: Caches) -> Option<Row> {
    let metric = metric(operation, caches);
    let name = |side: usize| format!("{}: {metric}", SIDES[side]);
    let mut all = report.comparisons.iter();
    let found = all.find(|one| one.a == name(OFF) && one.b == name(ON))?;
    let improvement = |ratio: f64| (1.0 - ratio) * 100.0;
    Some(Row {
        operation,
        caches,
        unit: found.unit,
        off: found.value_a,
        on: found.value_b,
        improvement: found.ratio.map(improvement),
        interval: found.ratio_interval.map(|interval| Interval {
            low: improvement(interval.high),
            high: improvement(interval.low),
        }),
        noise: found.noise_floor.map(|floor| floor * 100.0),
        verdict: found.verdict,
    })
}

/// For a terminal.
#[must_use]
pub fn text(rows: &[Row]) -> String {
    let value = |row: &Row, value: Option<f64>| match value {
        Some(value) => row.unit.format(value),
        None => "-".to_owned(),
    };
    let rows = rows.iter().map(|row| {
        vec![
            row.operation.name().to_owned(),
            row.caches.name().to_owned(),
            value(row, row.off),
            value(row, row.on),
            row.improvement
                .map_or("-".to_owned(), |value| format!("{value:+.2} %")),
            row.interval.map_or("-".to_owned(), |interval| {
                format!("{:+.2} – {:+.2}", interval.low, interval.high)
            }),
            row.noise
                .map_or("-".to_owned(), |value| format!("{value:.2} %")),
            verdict(row.verdict).to_owned(),
        ]
    });
    columns(
        &[
            "operation",
            "caches",
            "off",
            "on",
            "improvement",
            "95 % interval",
            "noise",
            "verdict",
        ],
        rows,
    )
}

const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "less with replication",
        Verdict::Slower => "more with replication",
        Verdict::NoDifference => "no difference",
        Verdict::Inconclusive => "not decided",
    }
}

/// A panel for each operation, without and with replication.
#[must_use]
pub fn bars(report: &Report, rows: &[Row]) -> Vec<BarPanel> {
    let panel = |row: &Row| {
        let metric = metric(row.operation, row.caches);
        let bars = [
            (OFF, row.off),
            (ON, row.on),
            (AGAIN, again(report, &metric)),
        ];
        BarPanel {
            title: format!("{}, caches {}", row.operation.name(), row.caches.name()),
            unit: row.unit,
            parts: Vec::new(),
            bars: bars
                .map(|(side, value)| Bar {
                    name: format!("replication {}", SIDES[side]),
                    values: value.into_iter().collect(),
                    interval: None,
                })
                .to_vec(),
            remark: "medians of all rounds, for one operation".to_owned(),
        }
    };
    rows.iter().map(panel).collect()
}

fn again(report: &Report, metric: &str) -> Option<f64> {
    let name = format!("{}: {metric}", SIDES[AGAIN]);
    let series = report.series.iter().find(|series| series.name == name)?;
    brisk_measure::Statistic::Median.of(&series.values())
}

//! Table and graph of the workload `probe`: what each operation costs. Pure.

use std::fmt::Write;

use brisk_measure::render::{Bar, BarPanel, sheet};
use brisk_measure::{Report, Unit};
use brisk_tools::overhead::Row as Side;
use brisk_tools::overhead::probe::{Cost, OPERATIONS, Row};

use super::table::{self, UNKNOWN};
use crate::output::printable;

/// The report for a terminal: a line for each operation, a column for each side.
pub(super) fn text(report: &Report, sides: &[Side], rows: &[Row]) -> String {
    let names: Vec<_> = sides.iter().map(|side| side.name.clone()).collect();
    let mut text = table::facts(report, sides);
    let _ = writeln!(text, "\n{}", costs(&names, rows));
    for name in &names {
        for operation in OPERATIONS {
            let fact = format!("{name}: {}", operation.name);
            if let Some(value) = report.environment.extra.get(&fact) {
                let _ = writeln!(text, "{fact} {}", printable(value));
            }
        }
    }
    text.push_str(&table::remarks(report, sides));
    text
}

fn costs(names: &[String], rows: &[Row]) -> String {
    let mut head = vec!["operation", "per"];
    for (place, name) in names.iter().enumerate() {
        head.push(name);
        if place > 0 {
            head.extend(["× host", "95 %"]);
        }
    }
    let cells = rows.iter().map(|row| {
        let mut cells = vec![row.operation.name.to_owned(), row.operation.per.to_owned()];
        for (place, cost) in row.costs.iter().enumerate() {
            let known = |cell: Option<String>| cell.unwrap_or(UNKNOWN.to_owned());
            cells.push(known(cost.map(|cost| Unit::Seconds.format(cost.median))));
            if place > 0 {
                let ratio = cost.and_then(|cost| cost.ratio);
                cells.push(known(ratio.map(|ratio| format!("{ratio:.2}"))));
                let interval = cost.and_then(|cost| cost.interval);
                cells.push(known(interval.map(|interval| {
                    format!("{:.2}–{:.2}", interval.low, interval.high)
                })));
            }
        }
        cells
    });
    sheet(&head, cells)
}

/// A graph for each side but the host: times the host's, of each operation.
pub(super) fn panels(names: &[String], rows: &[Row]) -> Vec<BarPanel> {
    let panel = |(side, name): (usize, &String)| {
        let bar = |row: &Row| {
            let cost: Option<Cost> = row.costs.get(side).copied().flatten();
            Bar {
                name: row.operation.name.to_owned(),
                values: cost.and_then(|cost| cost.ratio).into_iter().collect(),
                interval: cost.and_then(|cost| cost.interval),
            }
        };
        BarPanel {
            title: format!("{name}: what operations cost, times the host's"),
            unit: Unit::Ratio,
            parts: Vec::new(),
            bars: rows.iter().map(bar).collect(),
            remark: "of the same rounds, with the 95 % interval; less is better".to_owned(),
        }
    };
    names.iter().enumerate().skip(1).map(panel).collect()
}

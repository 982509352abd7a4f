//! The table of `brisk crypto bench`.

use std::fmt::Write;

use brisk_measure::render::{self, sheet};
use brisk_measure::{Report, Unit};
use brisk_tools::crypto::{Row, metric};

/// Columns of CPU time, with their metrics.
const CPU: [(&str, &str); 5] = [
    ("CPU, whole system", metric::WHOLE),
    ("threads", metric::PROCESS),
    ("kernel threads", metric::KERNEL_THREADS),
    ("rest", metric::REST),
    ("QEMU on the host", metric::HOST),
];

/// The rows with their proofs, notes and warnings.
pub(super) fn text(report: &Report, rows: &[Row]) -> String {
    let has = |metric: &str| rows.iter().any(|row| row.get(metric).is_some());
    let columns: Vec<_> = CPU.iter().filter(|(_, metric)| has(metric)).collect();
    let has_energy = has(metric::ENERGY);
    let mut head = vec!["implementation", "size", "throughput", "time/operation"];
    head.extend(columns.iter().map(|(name, _)| *name));
    if has_energy {
        head.push("J/GB");
    }
    let lines = rows.iter().map(|row| {
        let seconds = |metric: &str| {
            let value = row.get(metric);
            value.map_or_else(|| "-".to_owned(), |value| Unit::Seconds.format(value))
        };
        let throughput = row.throughput();
        let throughput =
            throughput.map_or_else(|| "-".to_owned(), |rate| Unit::BytesPerSecond.format(rate));
        let mut cells = vec![
            render::clean(&row.implementation).into_owned(),
            Unit::Bytes.format(row.bytes as f64),
            throughput,
            seconds(metric::TIME),
        ];
        cells.extend(columns.iter().map(|(_, metric)| seconds(metric)));
        if has_energy {
            let energy = row.get(metric::ENERGY);
            cells.push(energy.map_or_else(|| "-".to_owned(), |joules| format!("{joules:.2}")));
        }
        cells
    });
    let mut text = sheet(&head, lines);
    for row in rows {
        let name = render::clean(&row.implementation);
        let size = Unit::Bytes.format(row.bytes as f64);
        if let Some(reason) = &row.failure {
            let _ = writeln!(text, "{name}, {size}: failed: {}", render::clean(reason));
        }
    }
    text.push_str(&proofs(rows));
    for note in &report.notes {
        let _ = writeln!(text, "Note: {}", render::clean(note));
    }
    text
}

/// A line for each implementation whose driver was looked at: one if all sizes have the same proof
/// but for the number of interrupts.
fn proofs(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        if let Some(proof) = &row.proof {
            let name = render::clean(&row.implementation);
            let size = Unit::Bytes.format(row.bytes as f64);
            let _ = writeln!(text, "{name}, {size}: {}", render::clean(proof));
        }
    }
    text
}

//! Tables of `brisk overhead`. Pure.

use std::fmt::Write;

use brisk_measure::render::sheet;
use brisk_measure::{Report, Unit, Warning};
use brisk_tools::overhead::{Judged, Row};

use crate::output::printable;

/// What the table says of a fact that is not known.
const UNKNOWN: &str = "-";

/// The report for a terminal: what the targets took, and where the time of the processors went.
pub(super) fn text(report: &Report, rows: &[Row], judged: &[Judged]) -> String {
    let mut text = String::new();
    let is_of_a_target = |name: &str| {
        rows.iter().any(|row| {
            name.strip_prefix(&*row.name)
                .is_some_and(|rest| rest.starts_with(": "))
        })
    };
    let facts = report.environment.extra.iter();
    for (name, value) in facts.filter(|(name, _)| !is_of_a_target(name)) {
        let _ = writeln!(text, "{}: {}", printable(name), printable(value));
    }
    let _ = write!(text, "\n{}\n{}", times(rows, judged), accounts(rows));
    if let Some(floor) = report.comparisons.iter().find_map(|one| one.noise_floor) {
        let _ = writeln!(
            text,
            "\nNoise floor: {:.1} %, by which the host differs from itself",
            floor * 100.0
        );
    }
    for row in rows.iter().filter(|row| row.dropped > 0) {
        let _ = writeln!(
            text,
            "{}: {} runs dropped: other programs had the processors",
            row.name, row.dropped
        );
    }
    for row in rows.iter().filter(|row| row.failed > 0) {
        let reason = row.reason.as_deref().unwrap_or_default();
        let _ = writeln!(
            text,
            "{}: {} runs failed: {}",
            row.name,
            row.failed,
            printable(reason)
        );
    }
    for note in &report.notes {
        let _ = writeln!(text, "Note: {}", printable(note));
    }
    for warning in Warning::lines(&report.warnings) {
        let _ = writeln!(text, "Warning: {}", printable(&warning));
    }
    text
}

fn times(rows: &[Row], judged: &[Judged]) -> String {
    let seconds =
        |value: Option<f64>| value.map_or(UNKNOWN.to_owned(), |value| Unit::Seconds.format(value));
    let cells = rows.iter().map(|row| {
        let ratio = row.ratio.map(|ratio| format!("{ratio:.2}"));
        let interval = row
            .interval
            .map(|interval| format!("{:.2}–{:.2}", interval.low, interval.high));
        let share = row.ratio.map(|ratio| format!("{:.1} %", 100.0 / ratio));
        let known = |cell: Option<String>| cell.unwrap_or(UNKNOWN.to_owned());
        vec![
            row.name.clone(),
            seconds(row.median),
            seconds(row.best),
            known(ratio),
            known(interval),
            known(share),
            seconds(row.cpu),
            verdict(row, judged),
        ]
    });
    let head = [
        "target",
        "median",
        "best of 3",
        "× host",
        "95 %",
        "% of host",
        "CPU time",
        "verdict",
    ];
    sheet(&head, cells)
}

/// The verdict on a target; that on the host's repetition says how steady the host is.
fn verdict(row: &Row, judged: &[Judged]) -> String {
    let judged = judged.iter().find(|judged| judged.name == row.name);
    judged
        .map_or(UNKNOWN, |judged| judged.comparable.name())
        .to_owned()
}

fn accounts(rows: &[Row]) -> String {
    let cells = rows.iter().map(|row| {
        let parts = row.parts.iter().map(|part| match part {
            Some(share) => format!("{:.1} %", share * 100.0),
            None => UNKNOWN.to_owned(),
        });
        std::iter::once(row.name.clone())
            .chain(parts)
            .collect::<Vec<_>>()
    });
    let mut head = vec!["where time went"];
    head.extend(brisk_tools::overhead::PARTS);
    sheet(&head, cells)
}

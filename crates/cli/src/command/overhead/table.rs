//! Tables of `brisk overhead`. Pure.

use std::fmt::Write;

use brisk_measure::render::sheet;
use brisk_measure::{Report, Unit, Warning};
use brisk_tools::overhead::{Change, Explanation, Judged, LOSSES, Row};

use crate::output::printable;

/// What the table says of a fact that is not known.
pub(super) const UNKNOWN: &str = "-";

/// What follows from a report.
#[derive(Debug, Clone)]
pub(super) struct Findings {
    /// The targets.
    pub(super) rows: Vec<Row>,
    /// Whether they are comparable.
    pub(super) judged: Vec<Judged>,
    /// What was changed about them.
    pub(super) changes: Vec<Change>,
    /// Where their losses come from.
    pub(super) explained: Vec<Explanation>,
}

/// The report for a terminal: what the targets took, where the time of the processors went, what
/// changes are worth, and where losses come from.
pub(super) fn text(report: &Report, findings: &Findings) -> String {
    let Findings {
        rows,
        judged,
        changes: changed,
        explained,
    } = findings;
    let mut text = facts(report, rows);
    let _ = write!(text, "\n{}\n{}", times(rows, judged), accounts(rows));
    if !changed.is_empty() {
        let _ = write!(text, "\n{}", changes(changed));
    }
    if !explained.is_empty() {
        let _ = write!(text, "\n{}", losses(explained));
    }
    if let Some(floor) = report.comparisons.iter().find_map(|one| one.noise_floor) {
        let _ = writeln!(
            text,
            "\nNoise floor: {:.1} %, by which the host differs from itself",
            floor * 100.0
        );
    }
    text.push_str(&remarks(report, rows));
    text
}

/// Facts about the measurement as a whole, a line each.
pub(super) fn facts(report: &Report, rows: &[Row]) -> String {
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
    text
}

/// Runs that failed, notes and warnings, a line each.
pub(super) fn remarks(report: &Report, rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows.iter().filter(|row| row.dropped > 0) {
        let _ = writeln!(
            text,
            "{}: {} dropped: other programs had the processors",
            row.name,
            runs(row.dropped)
        );
    }
    for row in rows.iter().filter(|row| row.untimed > 0) {
        let _ = writeln!(
            text,
            "{}: {} without a time: begin and end were read at once",
            row.name,
            runs(row.untimed)
        );
    }
    for row in rows.iter().filter(|row| row.failed > 0) {
        let reason = row.reason.as_deref().unwrap_or_default();
        let _ = writeln!(
            text,
            "{}: {} failed: {}",
            row.name,
            runs(row.failed),
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

fn runs(count: usize) -> String {
    match count {
        1 => "1 run".to_owned(),
        count => format!("{count} runs"),
    }
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

fn changes(changed: &[Change]) -> String {
    let known = |cell: Option<String>| cell.unwrap_or(UNKNOWN.to_owned());
    let cells = changed.iter().map(|change| {
        let interval = change.interval;
        vec![
            change.name.clone(),
            known(change.ratio.map(|ratio| format!("{ratio:.3}"))),
            known(interval.map(|interval| format!("{:.3}–{:.3}", interval.low, interval.high))),
        ]
    });
    sheet(&["one thing changed", "× unchanged", "95 %"], cells)
}

/// Mark of a part that the host's counts stand in for.
const STANDS_IN: &str = " *";

fn losses(explained: &[Explanation]) -> String {
    let seconds = |value: f64| Unit::Seconds.format(value);
    let cells = explained.iter().map(|one| {
        let parts = one
            .parts
            .iter()
            .zip(one.stands_in)
            .map(|(part, stands_in)| {
                let mark = if stands_in { STANDS_IN } else { "" };
                part.map_or(UNKNOWN.to_owned(), |part| seconds(part) + mark)
            });
        [one.name.clone(), seconds(one.loss)]
            .into_iter()
            .chain(parts)
            .chain([
                seconds(one.rest()),
                format!("{:.0} %", one.share() * 100.0),
                one.verdict().to_owned(),
            ])
            .collect::<Vec<_>>()
    });
    let mut head = vec!["where the loss comes from", "loss"];
    head.extend(LOSSES);
    head.extend(["rest", "explained", ""]);
    let mut text = sheet(&head, cells);
    if explained.iter().any(|one| one.stands_in.contains(&true)) {
        text += "* by the host's counts, as the target's kernel counts nothing\n";
    }
    text
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

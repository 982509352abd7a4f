//! Tables of `brisk overhead`. Pure.

use std::fmt::Write;

use brisk_measure::render::{Lead, LeadTable, sheet};
use brisk_measure::{Report, Unit, Warning};
use brisk_tools::overhead::{ANSWER, Change, Explanation, Judged, LOSSES, PARTS, Row, is_by_cpu};

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

/// The answer and what it is from: what the targets took, where the time of the processors went, what
/// changes are worth, and where losses come from.
pub(super) fn lead(report: &Report, findings: &Findings) -> Lead {
    let Findings {
        rows,
        judged,
        changes: changed,
        explained,
    } = findings;
    let answers = rows.iter().filter_map(|row| {
        let fact = format!("{}{ANSWER}", row.name);
        report.environment.extra.get(&fact).cloned()
    });
    let mut sentences: Vec<_> = answers.collect();
    if rows.iter().any(|row| is_by_cpu(row, judged)) {
        sentences.push(format!("{}: a ratio of CPU times.", BY_CPU.trim()));
    }
    let mut tables = vec![times(rows, judged)];
    tables.extend(accounts(rows));
    tables.extend((!changed.is_empty()).then(|| changes(changed)));
    tables.extend((!explained.is_empty()).then(|| losses(explained)));
    if explained.iter().any(|one| one.stands_in.contains(&true)) {
        let text = "by the host's counts, as the target's kernel counts nothing.";
        sentences.push(format!("{}: {text}", STANDS_IN.trim()));
    }
    Lead { sentences, tables }
}

/// The report for a terminal: the answer, facts, the tables of the answer, and remarks.
pub(super) fn text(report: &Report, findings: &Findings, lead: &Lead) -> String {
    let mut text = String::new();
    for sentence in &lead.sentences {
        let _ = writeln!(text, "{}", printable(sentence));
    }
    let facts = facts(report, &findings.rows);
    if !facts.is_empty() {
        let _ = write!(text, "\n{facts}");
    }
    for table in &lead.tables {
        let head: Vec<_> = table.head.iter().map(String::as_str).collect();
        let _ = write!(text, "\n{}", sheet(&head, &table.rows));
    }
    if let Some(floor) = report.comparisons.iter().find_map(|one| one.noise_floor) {
        let _ = writeln!(
            text,
            "\nNoise floor: {:.1} %, by which the host differs from itself",
            floor * 100.0
        );
    }
    text.push_str(&remarks(report, &findings.rows));
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
    let counts = |of: fn(&Row) -> usize| {
        let counted = rows.iter().filter(|row| of(row) > 0);
        let counted = counted.map(|row| format!("{}: {}", row.name, runs(of(row))));
        counted.collect::<Vec<_>>().join(", ")
    };
    let dropped = counts(|row| row.dropped);
    if !dropped.is_empty() {
        let _ = writeln!(text, "{dropped} dropped: other programs had the processors");
    }
    let untimed = counts(|row| row.untimed);
    if !untimed.is_empty() {
        let _ = writeln!(
            text,
            "{untimed} without a time: begin and end were read at once"
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

/// Mark of a ratio of CPU times.
pub(super) const BY_CPU: &str = " **";

fn times(rows: &[Row], judged: &[Judged]) -> LeadTable {
    let seconds =
        |value: Option<f64>| value.map_or(UNKNOWN.to_owned(), |value| Unit::Seconds.format(value));
    let cells = rows.iter().map(|row| {
        let by_cpu = row.by_cpu.filter(|_| is_by_cpu(row, judged));
        let (ratio, interval, mark) = match by_cpu {
            Some((ratio, interval)) => (Some(ratio), interval, BY_CPU),
            None => (row.ratio, row.interval, ""),
        };
        let interval =
            interval.map(|interval| format!("{:.2}–{:.2}{mark}", interval.low, interval.high));
        let share = row.ratio.filter(|_| by_cpu.is_none());
        let share = share.map(|ratio| format!("{:.1} %", 100.0 / ratio));
        let ratio = ratio.map(|ratio| format!("{ratio:.2}{mark}"));
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
    table(&head, cells)
}

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> LeadTable {
    LeadTable {
        head: head.iter().map(|name| (*name).to_owned()).collect(),
        rows: rows.collect(),
    }
}

fn changes(changed: &[Change]) -> LeadTable {
    let known = |cell: Option<String>| cell.unwrap_or(UNKNOWN.to_owned());
    let cells = changed.iter().map(|change| {
        let interval = change.interval;
        vec![
            change.name.clone(),
            known(change.ratio.map(|ratio| format!("{ratio:.3}"))),
            known(interval.map(|interval| format!("{:.3}–{:.3}", interval.low, interval.high))),
        ]
    });
    table(&["one thing changed", "× unchanged", "95 %"], cells)
}

/// Mark of a part that the host's counts stand in for.
const STANDS_IN: &str = " *";

fn losses(explained: &[Explanation]) -> LeadTable {
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
    table(&head, cells)
}

/// The verdict on a target; that on the host's repetition says how steady the host is.
fn verdict(row: &Row, judged: &[Judged]) -> String {
    let judged = judged.iter().find(|judged| judged.name == row.name);
    judged
        .map_or(UNKNOWN, |judged| judged.comparable.name())
        .to_owned()
}

/// Where the time went, without the parts that nobody has any of; none if nothing is known.
fn accounts(rows: &[Row]) -> Option<LeadTable> {
    let shown = |share: f64| format!("{:.1} %", share * 100.0);
    let nothing = [shown(0.0), shown(-0.0)];
    let is_some = |place: &usize| {
        let mut shares = rows.iter().filter_map(|row| row.parts[*place]);
        shares.any(|share| !nothing.contains(&shown(share)))
    };
    let places: Vec<_> = (0..PARTS.len()).filter(is_some).collect();
    let cells = rows.iter().map(|row| {
        let parts = places.iter().map(|place| row.parts[*place]);
        let parts = parts.map(|part| part.map_or(UNKNOWN.to_owned(), shown));
        std::iter::once(row.name.clone()).chain(parts).collect()
    });
    let mut head = vec!["where time went"];
    head.extend(places.iter().map(|place| PARTS[*place]));
    (!places.is_empty()).then(|| table(&head, cells))
}

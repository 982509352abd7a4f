//! A history as lines of text.

use std::fmt::Write as _;

use super::table;
use super::text::{clean, shorten};
use crate::history::percent;
use crate::{
    Comparison, History, Point, Reading, Report, Series, Statistics, Summary, Unit, Verdict,
};

/// Characters of a subject that a line shows.
const SUBJECT: usize = 50;

/// A commit with its measurement.
pub(super) struct Found<'a> {
    pub(super) point: &'a Point,
    pub(super) series: Option<&'a Series>,
    pub(super) statistics: Option<Statistics>,
    pub(super) comparison: Option<&'a Comparison>,
}

/// The points of a report's history with what was measured at them.
pub(super) fn found<'a>(report: &'a Report, history: &'a History) -> Vec<Found<'a>> {
    let of = |point: &'a Point| {
        let name = match &point.reading {
            Reading::Measured { series } => Some(series.as_str()),
            _ => None,
        };
        let series = name.and_then(|name| report.series(name));
        Found {
            point,
            series,
            statistics: series.and_then(|series| Summary::of(series).statistics),
            comparison: name.and_then(|name| {
                let mut all = report.comparisons.iter().rev();
                all.find(|comparison| comparison.b == name)
            }),
        }
    };
    history.points.iter().map(of).collect()
}

/// A commit as one line without a line break: its hash, its subject, what was measured and how
/// that compares with an earlier commit, as `0123456789ab tty: Faster open  1.750 s ± 12 ms  ↑
/// +1.2 % (p=0.010)`. The arrow, up for more and down for less, is there if the difference is
/// beyond chance.
pub fn history_row(
    point: &Point,
    series: Option<&Series>,
    comparison: Option<&Comparison>,
) -> String {
    let statistics = series.and_then(|series| Summary::of(series).statistics);
    row(&Found {
        point,
        series,
        statistics,
        comparison,
    })
}

fn row(found: &Found<'_>) -> String {
    let point = found.point;
    let mut line = format!("{} {:SUBJECT$}", clean(point.short()), subject(point));
    match &point.reading {
        Reading::Measured { .. } => {
            let value = value(found);
            // The format pads by characters, as a terminal shows them.
            let _ = write!(line, "  {value:>22}");
            if let Some(comparison) = found.comparison {
                let _ = write!(line, "  {}", change(comparison));
            }
        }
        reading => {
            let _ = write!(line, "  {}", trouble(reading));
        }
    }
    line.trim_end().to_owned()
}

fn subject(point: &Point) -> String {
    shorten(&point.subject, SUBJECT)
}

/// Reason why there is no value.
pub(super) fn trouble(reading: &Reading) -> String {
    let first = |reason: &str| shorten(reason.lines().next().unwrap_or_default(), 160);
    match reading {
        Reading::Measured { .. } => String::new(),
        Reading::NotBuilt { reason } => format!("not built: {}", first(reason)),
        Reading::NotBooted { reason } => format!("did not boot: {}", first(reason)),
        Reading::NotTried => "not tried".to_owned(),
    }
}

/// The median, with half of its interval.
pub(super) fn value(point: &Found<'_>) -> String {
    let (Some(series), Some(found)) = (point.series, &point.statistics) else {
        return "-".to_owned();
    };
    // An exact count is compared by its last digits.
    if series.unit == Unit::Instructions && found.min == found.max {
        return format!("{} instr", grouped(found.median));
    }
    let median = series.unit.format(found.median);
    match found.median_interval {
        Some(interval) if interval.high > interval.low => {
            let half = (interval.high - interval.low) / 2.0;
            format!("{median} ± {}", series.unit.format(half))
        }
        _ => median,
    }
}

/// `1 234 567`: digits in threes, with spaces as in the SI brochure.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// `↑ +1.2 % (p=0.010)`.
pub(super) fn change(comparison: &Comparison) -> String {
    let Some(ratio) = comparison.ratio else {
        return String::new();
    };
    let beyond_chance = matches!(comparison.verdict, Verdict::Faster | Verdict::Slower);
    let arrow = match ratio > 1.0 {
        _ if !beyond_chance => ' ',
        true => '↑',
        false => '↓',
    };
    let mut text = format!("{arrow} {}", percent(ratio));
    if comparison.p_value.is_some() {
        let p = table::p_value(comparison);
        let sign = if p.starts_with('<') { "" } else { "=" };
        let _ = write!(text, " (p{sign}{})", p.replace(' ', ""));
    }
    text
}

/// Every commit, and below them the changes with their explanations.
pub(super) fn lines(report: &Report, history: &History) -> String {
    let mut text = String::new();
    for found in found(report, history) {
        let _ = writeln!(text, "{}", row(&found));
    }
    text + &explained(history)
}

fn explained(history: &History) -> String {
    let changes = changes(history).into_iter();
    let lines = changes.map(|lines| format!("\n{}\n", lines.join("\n  ")));
    lines.collect()
}

/// Text that follows the lines of [`history_row`]: the changes with their explanations, and the
/// report's notes and warnings.
pub fn history_end(report: &Report) -> String {
    let changes = report.history.as_ref().map(explained).unwrap_or_default();
    let remarks = table::remarks(report);
    match remarks.is_empty() {
        true => changes,
        false => format!("{changes}\n{remarks}"),
    }
}

/// Describes each change with its explanation.
pub(super) fn changes(history: &History) -> Vec<Vec<String>> {
    let name = |place: usize| {
        let point = history.points.get(place)?;
        Some(format!("{} {}", clean(point.short()), subject(point)))
    };
    let words = |change: &crate::Change| {
        let after = name(change.after)?;
        let mut lines = vec![if change.after == change.before + 1 {
            format!("{} since {after}", change.percent())
        } else {
            let candidates = change.after.saturating_sub(change.before);
            format!(
                "{} in one of {candidates} commits: after {} up to {after}",
                change.percent(),
                name(change.before)?,
            )
        }];
        lines.extend(change.explanation.iter().map(|line| shorten(line, 160)));
        Some(lines)
    };
    history.changes.iter().filter_map(words).collect()
}

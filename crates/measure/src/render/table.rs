//! The report for a terminal.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::text::{clean, shorten};
use crate::{
    Comparison, Environment, Interval, Report, Series, Summary, Timeline, Unit, Verdict, Warning,
};

/// Characters of a name that a column shows.
const NAME: usize = 60;

/// Facts that have a line of their own.
const LONG: [&str; 2] = ["kernel command line", "QEMU command"];

/// How many activities the list of the longest has.
const LONGEST: usize = 15;

/// Formats a report as plain tables: its environment; series and comparisons, or the commits of a
/// history; the longest activities and gaps of the timeline, notes and warnings.
pub fn table(report: &Report) -> String {
    let mut parts = Vec::new();
    let head = head(&report.environment);
    if !head.is_empty() {
        parts.push(head);
    }
    // The lines of a history say what its series and comparisons are.
    if let Some(history) = &report.history {
        parts.push(super::history::lines(report, history));
    } else {
        if !report.series.is_empty() {
            parts.push(series(&report.series));
        }
        if !report.comparisons.is_empty() {
            parts.push(comparisons(&report.comparisons));
        }
    }
    parts.extend(report.timeline.as_ref().and_then(timeline));
    let remarks = remarks(report);
    if !remarks.is_empty() {
        parts.push(remarks);
    }
    parts.join("\n")
}

/// The measured command and its environment, one line for each known fact.
fn head(environment: &Environment) -> String {
    let text = |value: &Option<String>| value.clone();
    let known = |parts: &[Option<String>]| parts.iter().flatten().cloned().collect::<Vec<_>>();
    let host = known(&[
        text(&environment.host),
        text(&environment.cpu_model),
        environment
            .logical_cpus
            .map(|count| format!("{count} CPUs")),
        environment
            .memory
            .map(|bytes| Unit::Bytes.format(bytes as f64)),
        environment
            .host_kernel
            .as_ref()
            .map(|version| format!("Linux {version}")),
    ]);
    let qemu = known(&[
        text(&environment.qemu_version),
        text(&environment.accelerator),
    ]);
    let kernel = environment.guest_kernel.as_ref();
    let mut guest = known(&[kernel.map(|version| format!("Linux {version}"))]);
    let (long, short): (Vec<_>, Vec<_>) = environment
        .extra
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .partition(|(name, _)| LONG.contains(&name.as_str()));
    guest.extend(short.iter().map(|(name, value)| format!("{name} {value}")));
    let mut lines = vec![("host", host.join(", ")), ("QEMU", qemu.join(", "))];
    lines.push(("guest", guest.join(", ")));
    lines.extend(
        long.iter()
            .map(|(name, value)| (name.as_str(), (*value).clone())),
    );
    let mut head = String::new();
    for (name, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(head, "{}: {}", clean(name), clean(value));
    }
    head
}

/// Notes and warnings.
pub(super) fn remarks(report: &Report) -> String {
    let mut remarks = String::new();
    for note in &report.notes {
        let _ = writeln!(remarks, "Note: {}", clean(note));
    }
    for warning in Warning::lines(&report.warnings) {
        let _ = writeln!(remarks, "Warning: {}", clean(&warning));
    }
    remarks
}

/// A table whose columns, but for the first, are numbers.
pub fn sheet(head: &[&str], rows: impl IntoIterator<Item = impl AsRef<[String]>>) -> String {
    let rows = rows.into_iter().map(|row| row.as_ref().to_vec());
    laid_out(head, rows, CellAlignment::Right)
}

/// A table whose columns are text, with text from elsewhere cleaned.
pub fn columns(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let rows = rows.into_iter().map(|row| {
        let cells = row.iter().map(|cell| clean(cell).into_owned());
        cells.collect()
    });
    laid_out(head, rows, CellAlignment::Left)
}

/// A table whose columns, but for the first, are aligned so.
fn laid_out(
    head: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
    alignment: CellAlignment,
) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(head);
    table.add_rows(rows);
    for (place, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if place > 0 {
            column.set_cell_alignment(alignment);
        }
    }
    let lines: Vec<String> = table.lines().map(|l| l.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

fn series(all: &[Series]) -> String {
    let rows = all.iter().map(|series| {
        let summary = Summary::of(series);
        let failed = summary.failed + summary.timed_out;
        let runs = match failed {
            0 => summary.n.to_string(),
            _ => format!("{} ({failed} failed)", summary.n),
        };
        let name = shorten(&series.name, NAME);
        let Some(found) = summary.statistics else {
            return [name, runs].into_iter().chain(dashes()).collect::<Vec<_>>();
        };
        let show = |value: f64| series.unit.format_as(value, found.median);
        vec![
            name,
            runs,
            show(found.median),
            interval(series.unit, found.median_interval, found.median),
            show(found.mean),
            found.deviation.map_or_else(|| "-".to_owned(), show),
            show(found.min),
            show(found.max),
        ]
    });
    sheet(
        &[
            "series",
            "runs",
            "median",
            "95 % interval",
            "mean",
            "sd",
            "min",
            "max",
        ],
        rows,
    )
}

fn dashes() -> impl Iterator<Item = String> {
    std::iter::repeat_n("-".to_owned(), 6)
}

/// Formats an interval: both ends in the multiple that fits `scale`, with the unit once.
pub(super) fn interval(unit: Unit, interval: Option<Interval>, scale: f64) -> String {
    let Some(interval) = interval else {
        return "-".to_owned();
    };
    let low = unit.format_as(interval.low, scale);
    let high = unit.format_as(interval.high, scale);
    let low = low.split(' ').next().unwrap_or_default();
    format!("{low} – {high}")
}

/// Name of a verdict, for people: times are faster, sizes are smaller.
pub(super) fn verdict(comparison: &Comparison) -> &'static str {
    let time = comparison.unit == Unit::Seconds;
    match comparison.verdict {
        Verdict::Faster if time => "faster",
        Verdict::Slower if time => "slower",
        Verdict::Faster => "better",
        Verdict::Slower => "worse",
        Verdict::NoDifference => "no difference",
        Verdict::Inconclusive => "inconclusive",
    }
}

/// `−45.3 %`, with a sign that lines up.
pub(super) fn change(comparison: &Comparison) -> String {
    let percent = |percent: f64| format!("{percent:+.1} %").replace('-', "−");
    comparison
        .change_percent()
        .map_or_else(|| "-".to_owned(), percent)
}

/// Formats the ends of the ratio's interval.
pub(super) fn ratio(comparison: &Comparison) -> String {
    comparison.ratio_interval.map_or_else(
        || "-".to_owned(),
        |interval| format!("{:.3} – {:.3}", interval.low, interval.high),
    )
}

/// Formats a p-value; a bound instead where fewer digits would show 0.
pub(super) fn p_value(comparison: &Comparison) -> String {
    match comparison.p_value {
        None => "-".to_owned(),
        Some(p) if p.value < 0.001 => "< 0.001".to_owned(),
        Some(p) => format!("{:.3}", p.value),
    }
}

fn comparisons(all: &[Comparison]) -> String {
    let rows = all.iter().map(|comparison| {
        [
            format!(
                "{} → {}",
                shorten(&comparison.a, NAME / 2),
                shorten(&comparison.b, NAME / 2)
            ),
            change(comparison),
            ratio(comparison),
            p_value(comparison),
            verdict(comparison).to_owned(),
        ]
    });
    sheet(
        &["comparison", "change", "95 % ratio", "p", "verdict"],
        rows,
    )
}

fn timeline(timeline: &Timeline) -> Option<String> {
    let span = timeline.span()?;
    let share = |ticks: i64| {
        let whole = span.duration().max(1) as f64;
        format!("{:.1} %", ticks as f64 / whole * 100.0)
    };
    let activities = timeline.longest(LONGEST).into_iter().map(|node| {
        let took = node.span.duration();
        let activity = &timeline.activities[node.activity];
        (took, shorten(&activity.name, NAME))
    });
    let mut gaps = timeline.gaps();
    gaps.sort_by_key(|gap| std::cmp::Reverse(gap.span.duration()));
    let gaps = gaps.iter().take(5).map(|gap| {
        let name =
            |name: &Option<String>, edge: &str| shorten(name.as_deref().unwrap_or(edge), NAME / 2);
        let (after, before) = (name(&gap.after, "start"), name(&gap.before, "end"));
        (
            gap.span.duration(),
            format!("(nothing between {after} and {before})"),
        )
    });
    let mut rows: Vec<(i64, String)> = activities.chain(gaps).collect();
    rows.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
    let rows = rows
        .into_iter()
        .map(|(took, name)| [name, timeline.clock.format(took), share(took)]);
    let mut text = sheet(&["longest activities", "took", "share"], rows);
    if let Some(explained) = timeline.explained_fraction() {
        let total = timeline.clock.format(span.duration());
        let _ = writeln!(text, "{:.1} % of {total} explained", explained * 100.0);
    }
    Some(text)
}

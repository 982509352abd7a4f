//! A report as a self-contained HTML page.

use std::fmt::Write as _;

use super::svg::{BarPanel, CurvePanel};
use super::text::html as escape;
use super::{history, svg, table};
use crate::{Outcome, Phase, Report, Series, Summary, Warning};

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// Digest of the only script that the page may run.
const SCRIPT_DIGEST: &str = include_str!("html/page.js.sha256");

/// The report as one HTML page: pictures, tables and every raw sample. The timeline zooms along
/// its axis and moves by dragging; without scripts it is still shown whole.
///
/// The page loads nothing. Its Content-Security-Policy allows its own styles and the one script
/// whose digest it names, so that even text that escaped its quotes could not run or call home.
pub fn html(report: &Report) -> String {
    html_with_bars(report, &[])
}

/// The report as [`html`] has it, with bars before the other pictures.
pub fn html_with_bars(report: &Report, panels: &[BarPanel]) -> String {
    html_with_lead(report, panels, &Lead::default())
}

/// What a page begins with: the answer, and tables of what it is from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lead {
    /// Sentences, a paragraph each.
    pub sentences: Vec<String>,
    /// The tables.
    pub tables: Vec<LeadTable>,
}

/// A table: its heading, and the cells of its rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LeadTable {
    /// Names of the columns.
    pub head: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

/// The report as [`html_with_bars`] has it, after an answer.
pub fn html_with_lead(report: &Report, panels: &[BarPanel], lead: &Lead) -> String {
    let pictures = [svg::bars_only(panels), svg::samples_only(report)];
    page(report, lead, pictures)
}

/// The report as [`html`] has it, with curves for the picture of the samples, which is of values
/// that are orders of magnitude apart.
pub fn html_with_curves(report: &Report, panels: &[CurvePanel]) -> String {
    page(report, &Lead::default(), [svg::curves_only(panels), None])
}

fn page(report: &Report, lead: &Lead, pictures: [Option<String>; 2]) -> String {
    let mut page = String::new();
    // Writing to a string does not fail.
    let _ = write(report, lead, pictures, &mut page);
    page
}

fn write(
    report: &Report,
    lead: &Lead,
    [first, samples]: [Option<String>; 2],
    page: &mut String,
) -> std::fmt::Result {
    let kind = escape(&report.kind);
    write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>brisk {kind}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>brisk {kind}</h1>\n<p class=\"faint\">{}</p>\n",
        SCRIPT_DIGEST.trim(),
        escape(&report.created),
    )?;
    for sentence in &lead.sentences {
        writeln!(page, "<p class=\"lead\">{}</p>", escape(sentence))?;
    }
    for table in &lead.tables {
        let names: Vec<_> = table.head.iter().map(|name| escape(name)).collect();
        head(page, &names)?;
        for cells in &table.rows {
            row(page, cells)?;
        }
        page.push_str(END);
    }
    for warning in Warning::lines(&report.warnings) {
        writeln!(page, "<p class=\"warning\">{}</p>", escape(&warning))?;
    }
    for note in &report.notes {
        writeln!(page, "<p>{}</p>", escape(note))?;
    }
    if let Some(picture) = first {
        writeln!(page, "<div class=\"picture\">{picture}</div>")?;
    }
    history(report, page)?;
    if let Some(picture) = svg::timeline_only(report) {
        write!(
            page,
            "<h2>Timeline</h2>\n<p class=\"faint\">Wheel over the strip: zoom. Drag: move. \
             Click on a bar: only that. Double click or Escape: all. Point at a bar for its \
             details.</p>\n<div class=\"picture\" id=\"timeline\" \
             tabindex=\"0\">{picture}</div>\n"
        )?;
    }
    if let Some(picture) = samples {
        write!(
            page,
            "<h2>Samples</h2>\n<div class=\"picture\">{picture}</div>\n"
        )?;
    }
    if report.history.is_none() {
        series(&report.series, page)?;
    }
    comparisons(report, page)?;
    environment(report, page)?;
    raw(&report.series, page)?;
    write!(page, "<script>{SCRIPT}</script>\n</body>\n</html>\n")
}

/// The plot over commits and their table. Pointing at a dot shows its subject.
fn history(report: &Report, page: &mut String) -> std::fmt::Result {
    let (Some(history), Some(picture)) = (&report.history, svg::history_only(report)) else {
        return Ok(());
    };
    write!(
        page,
        "<h2>Commits</h2>\n<div class=\"picture\">{picture}</div>\n"
    )?;
    head(page, &["commit", "subject", "date", "median", "change"])?;
    for found in history::found(report, history) {
        let measured = match found.series {
            Some(_) => history::value(&found),
            None => history::trouble(&found.point.reading),
        };
        let cells = [
            found.point.short().to_owned(),
            found.point.subject.clone(),
            found.point.date.clone(),
            measured,
            found.comparison.map_or_else(String::new, history::change),
        ];
        row(page, &cells)?;
    }
    page.push_str(END);
    Ok(())
}

fn head(page: &mut String, names: &[impl std::fmt::Display]) -> std::fmt::Result {
    page.push_str("<div class=\"scroll\"><table>\n<thead><tr>");
    for name in names {
        write!(page, "<th>{name}</th>")?;
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    Ok(())
}

fn row(page: &mut String, cells: &[String]) -> std::fmt::Result {
    page.push_str("<tr>");
    for cell in cells {
        write!(page, "<td>{}</td>", escape(cell))?;
    }
    page.push_str("</tr>\n");
    Ok(())
}

const END: &str = "</tbody>\n</table></div>\n";

fn series(all: &[Series], page: &mut String) -> std::fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    page.push_str("<h2>Series</h2>\n");
    head(
        page,
        &[
            "series",
            "runs",
            "failed",
            "median",
            "95 % interval",
            "mean",
            "sd",
            "min",
            "max",
        ],
    )?;
    // What is 0 in every run says nothing.
    let says = |series: &&Series| {
        let mut samples = series.measured();
        series.measured().next().is_none() || samples.any(|sample| sample.value() != Some(0.0))
    };
    for series in all.iter().filter(says) {
        let summary = Summary::of(series);
        let mut cells = vec![
            series.name.clone(),
            summary.n.to_string(),
            (summary.failed + summary.timed_out).to_string(),
        ];
        if let Some(found) = summary.statistics {
            let show = |value: f64| series.unit.format_as(value, found.median);
            cells.extend([
                show(found.median),
                table::interval(series.unit, found.median_interval, found.median),
                show(found.mean),
                found.deviation.map_or_else(|| "-".to_owned(), show),
                show(found.min),
                show(found.max),
            ]);
        }
        cells.resize(9, "-".to_owned());
        row(page, &cells)?;
    }
    page.push_str(END);
    Ok(())
}

fn comparisons(report: &Report, page: &mut String) -> std::fmt::Result {
    if report.comparisons.is_empty() {
        return Ok(());
    }
    page.push_str("<h2>Comparisons</h2>\n");
    head(
        page,
        &["base", "compared", "change", "95 % ratio", "p", "verdict"],
    )?;
    for comparison in &report.comparisons {
        row(
            page,
            &[
                comparison.a.clone(),
                comparison.b.clone(),
                table::change(comparison),
                table::ratio(comparison),
                table::p_value(comparison),
                table::verdict(comparison).to_owned(),
            ],
        )?;
    }
    page.push_str(END);
    Ok(())
}

fn environment(report: &Report, page: &mut String) -> std::fmt::Result {
    let facts = report.environment.facts();
    if facts.is_empty() {
        return Ok(());
    }
    page.push_str("<h2>Environment</h2>\n<dl>\n");
    for (name, value) in facts {
        writeln!(
            page,
            "<dt>{}</dt><dd>{}</dd>",
            escape(&name),
            escape(&value)
        )?;
    }
    page.push_str("</dl>\n");
    Ok(())
}

fn raw(all: &[Series], page: &mut String) -> std::fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    page.push_str("<h2>Raw samples</h2>\n");
    for series in all {
        let name = escape(&series.name);
        writeln!(
            page,
            "<details><summary>{name} ({})</summary>",
            series.samples.len()
        )?;
        let unit = series.unit.symbol();
        let value = format!("value {unit}");
        head(page, &["run", "phase", &value, "outcome"])?;
        for sample in &series.samples {
            let phase = match sample.phase {
                Phase::Warmup => "warm-up",
                Phase::Measured => "measured",
            };
            let outcome = match &sample.outcome {
                Outcome::Ok { .. } => "ok".to_owned(),
                Outcome::Failed { reason } => format!("failed: {reason}"),
                Outcome::TimedOut => "timed out".to_owned(),
            };
            let value = sample.value().map(|value| value.to_string());
            row(
                page,
                &[
                    sample.iteration.to_string(),
                    phase.to_owned(),
                    value.unwrap_or_else(|| "-".to_owned()),
                    outcome,
                ],
            )?;
        }
        page.push_str(END);
        page.push_str("</details>\n");
    }
    Ok(())
}

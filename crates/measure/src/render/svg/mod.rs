//! Pictures: the timeline, and the raw samples of every series.
//!
//! Text reaches the picture only through the text and title elements of the `svg` crate, which
//! escapes it; attributes hold nothing but numbers and names of this module.

mod axis;
mod bars;
mod cells;
mod courses;
mod curves;
mod drawing;
mod history;
mod log_axis;
mod samples;
mod timeline;

use ::svg::node::element::{Group, SVG, Style};

pub use bars::{Bar, BarPanel};
pub use cells::{Cell, CellPanel, CellPart, CellRow};
pub use curves::{CurvePanel, PlottedCurve, PlottedPoint};
use drawing::{Drawing, MARGIN, WIDTH, px, rectangle, text};

use crate::Report;

/// Style of curves.
const CURVES: &str = concat!(
    include_str!("style.css"),
    include_str!("courses.css"),
    include_str!("curves.css")
);

/// The report as one picture (SVG 1.1 with CSS): the timeline if there is one, then the samples
/// of every series; with a history instead of the samples its plot over the commits. It follows the reader's choice of a light or dark scheme, and each bar and
/// dot says what it is when pointed at.
pub fn svg(report: &Report) -> String {
    let drawings = [
        heading(report),
        history::draw(report),
        report.timeline.as_ref().and_then(timeline::draw),
        samples(report),
    ];
    document(drawings.into_iter().flatten().collect())
}

/// The samples of every series as a line over time, a plot for each unit. `window` is the time
/// between two samples, in seconds; warm-ups are the windows before the measurement.
pub fn svg_over_time(report: &Report, window: f64) -> String {
    let drawings = [heading(report), courses::draw(&report.series, window)];
    let style = concat!(include_str!("style.css"), include_str!("courses.css"));
    styled(drawings.into_iter().flatten().collect(), style)
}

/// Curves over the size of data below the heading of a report.
pub fn svg_of_curves(report: &Report, panels: &[CurvePanel]) -> String {
    let drawings = [heading(report), curves::draw(panels)];
    styled(drawings.into_iter().flatten().collect(), CURVES)
}

/// Bars below the heading of a report.
pub fn svg_of_bars(report: &Report, panels: &[BarPanel]) -> String {
    let drawings = [heading(report), bars::draw(panels)];
    document(drawings.into_iter().flatten().collect())
}

/// Rows of coloured fields below the heading of a report.
pub fn svg_of_cells(report: &Report, panels: &[CellPanel]) -> String {
    let drawings = [heading(report), cells::draw(panels)];
    document(drawings.into_iter().flatten().collect())
}

/// Only bars.
pub(super) fn bars_only(panels: &[BarPanel]) -> Option<String> {
    Some(document(vec![bars::draw(panels)?]))
}

/// Only curves.
pub(super) fn curves_only(panels: &[CurvePanel]) -> Option<String> {
    Some(styled(vec![curves::draw(panels)?], CURVES))
}

/// Only the timeline.
pub(super) fn timeline_only(report: &Report) -> Option<String> {
    let drawing = report.timeline.as_ref().and_then(timeline::draw)?;
    Some(document(vec![drawing]))
}

/// Only the samples.
pub(super) fn samples_only(report: &Report) -> Option<String> {
    Some(document(vec![samples(report)?]))
}

/// Only the plot over commits.
pub(super) fn history_only(report: &Report) -> Option<String> {
    Some(document(vec![history::draw(report)?]))
}

/// The samples, unless each series is a dot of the plot over commits.
fn samples(report: &Report) -> Option<Drawing> {
    match report.history {
        Some(_) => None,
        None => samples::draw(&report.series),
    }
}

fn document(drawings: Vec<Drawing>) -> String {
    styled(drawings, include_str!("style.css"))
}

fn styled(drawings: Vec<Drawing>, style: &str) -> String {
    let mut placed = Vec::new();
    let mut y = MARGIN;
    for drawing in drawings {
        placed.push(
            drawing
                .body
                .set("transform", format!("translate(0 {})", px(y))),
        );
        y += drawing.height + MARGIN;
    }
    let mut document = SVG::new()
        .set("xmlns", "http://www.w3.org/2000/svg")
        .set("class", "brisk")
        .set("role", "img")
        .set("width", px(WIDTH))
        .set("height", px(y))
        .set("viewBox", format!("0 0 {} {}", px(WIDTH), px(y)))
        .add(Style::new(style))
        .add(rectangle(0.0, 0.0, WIDTH, y, "paper"));
    for group in placed {
        document = document.add(group);
    }
    document.to_string() + "\n"
}

fn heading(report: &Report) -> Option<Drawing> {
    let environment = &report.environment;
    let facts = [
        Some(report.created.clone()).filter(|created| !created.is_empty()),
        environment.accelerator.clone(),
        environment
            .qemu_version
            .as_ref()
            .map(|v| format!("QEMU {v}")),
        environment
            .guest_kernel
            .as_ref()
            .map(|k| format!("guest {k}")),
        environment
            .host_kernel
            .as_ref()
            .map(|k| format!("host {k}")),
        environment.cpu_model.clone(),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let facts = super::text::shorten(&facts.join(" · "), 160);
    let title = format!("brisk {}", super::text::shorten(&report.kind, 80));
    let body = Group::new()
        .add(text(MARGIN, 18.0, "title", &title))
        .add(text(MARGIN, 40.0, "faint", &facts));
    Some(Drawing { body, height: 44.0 })
}

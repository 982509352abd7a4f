//! Pictures: the timeline, and the raw samples of every series.
//!
//! Text reaches the picture only through the text and title elements of the `svg` crate, which
//! escapes it; attributes hold nothing but numbers and names of this module.

mod axis;
mod history;
mod samples;
mod timeline;

use ::svg::node::element::{Element, Group, Rectangle, SVG, Style, Text, Title};

use super::text::clean;
use crate::Report;

/// Width of every picture.
const WIDTH: f64 = 1200.0;

/// Space around what is drawn.
const MARGIN: f64 = 24.0;

/// Average width of a character at the size of labels; fonts differ, so a generous one.
const CHARACTER: f64 = 6.6;

/// Part of a picture, to be placed below others.
struct Drawing {
    body: Group,
    height: f64,
}

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
        .add(Style::new(include_str!("style.css")))
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

/// A coordinate with as many digits as a screen shows.
fn px(value: f64) -> String {
    let rounded = (value * 100.0).round() / 100.0;
    // No -0.
    (rounded + 0.0).to_string()
}

fn text(x: f64, y: f64, class: &str, content: &str) -> Text {
    Text::new(clean(content))
        .set("x", px(x))
        .set("y", px(y))
        .set("class", class)
}

fn rectangle(x: f64, y: f64, width: f64, height: f64, class: &str) -> Rectangle {
    Rectangle::new()
        .set("x", px(x))
        .set("y", px(y))
        .set("width", px(width))
        .set("height", px(height))
        .set("class", class)
}

fn line(x1: f64, y1: f64, x2: f64, y2: f64, class: &str) -> Element {
    let mut line = Element::new("line");
    for (name, value) in [("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2)] {
        line.get_attributes_mut()
            .insert(name.to_owned(), px(value).into());
    }
    line.get_attributes_mut()
        .insert("class".to_owned(), class.into());
    line
}

/// What pointing at an element shows, in lines.
fn hint(content: &str) -> Title {
    let lines: Vec<_> = content.split('\n').map(clean).collect();
    Title::new(lines.join("\n"))
}

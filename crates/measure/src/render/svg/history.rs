//! Plot of a quantity over commits: a dot with its interval for each, with changes marked.

use ::svg::node::element::{Circle, Group, Polyline};

use super::axis::Axis;
use super::drawing::{Drawing, MARGIN, WIDTH, hint, line, px, rectangle, text};
use super::samples::reach;
use crate::render::history::{Found, change, changes, found, trouble, value};
use crate::render::table;
use crate::render::text::shorten;
use crate::{Change, History, Reading, Report, Unit};

/// Left end of the plot; the numbers of the axis stand before it.
const LEFT: f64 = 104.0;
/// Right end of the plot.
const RIGHT: f64 = WIDTH - 40.0;
/// Height of the plot.
const HEIGHT: f64 = 320.0;
/// Room below the dots for commits that have none.
const FOOT: f64 = 26.0;
/// Width of the short hash of a commit, and of the space to the next.
const HASH: f64 = 104.0;
/// Lines above the plot that name changes.
const NAMED: usize = 8;
/// Lines below it that explain them.
const EXPLAINED: usize = 24;

/// The picture; none without commits.
pub(super) fn draw(report: &Report) -> Option<Drawing> {
    let history = report.history.as_ref()?;
    let points = found(report, history);
    let measured: Vec<&Found> = points.iter().filter(|p| p.series.is_some()).collect();
    let unit = measured.iter().find_map(|p| p.series).map(|s| s.unit);
    if points.is_empty() {
        return None;
    }
    let named = history.changes.len().min(NAMED);
    let top = 30.0 + 18.0 * named as f64;
    let bottom = top + HEIGHT;
    let plot = Plot {
        spacing: (RIGHT - LEFT) / points.len() as f64,
        value: value_axis(&measured, bottom - FOOT, top + 12.0),
        top,
        bottom,
    };
    let head = unit.map_or("Commits", super::samples::title);
    let mut body = Group::new()
        .add(text(MARGIN, 14.0, "head", &format!("{head} over commits")))
        .add(rectangle(LEFT, top, RIGHT - LEFT, HEIGHT, "band"))
        .add(
            plot.value
                .draw_rows(LEFT, RIGHT, unit.unwrap_or(Unit::Ratio)),
        );
    for (row, change) in largest(history).into_iter().enumerate() {
        body = body.add(plot.mark(change, history, row));
    }
    body = body.add(plot.course(&points));
    for (place, point) in points.iter().enumerate() {
        body = body.add(plot.point(place, point));
    }
    body = body.add(plot.hashes(&points));
    let key = "dot: median · bar: its 95 % interval · cross: not built or not booted · short line: \
               not tried · shaded: the change is here";
    body = body.add(text(MARGIN, bottom + 40.0, "faint", key));
    let mut y = bottom + 52.0;
    let words: Vec<Vec<String>> = changes(history);
    let indented = words.iter().flat_map(|lines| {
        let indent = |place| if place == 0 { 0.0 } else { 20.0 };
        lines.iter().enumerate().map(move |(n, l)| (indent(n), l))
    });
    for (indent, words) in indented.take(EXPLAINED) {
        y += 18.0;
        body = body.add(text(MARGIN + indent, y, "label", words));
    }
    Some(Drawing {
        body,
        height: y + 4.0,
    })
}

/// The changes worth naming, the largest, in order of the commits.
fn largest(history: &History) -> Vec<&Change> {
    let size = |change: &Change| change.ratio.max(f64::MIN_POSITIVE).ln().abs();
    let mut all: Vec<&Change> = history.changes.iter().collect();
    all.sort_by(|a, b| size(b).total_cmp(&size(a)));
    all.truncate(NAMED);
    all.sort_by_key(|change| change.after);
    all
}

fn value_axis(measured: &[&Found], low_at: f64, high_at: f64) -> Axis {
    let mut low = f64::INFINITY;
    let mut high = f64::NEG_INFINITY;
    for found in measured.iter().filter_map(|p| p.statistics.as_ref()) {
        let ends = found.median_interval.map(|i| [i.low, i.high]);
        for value in ends.into_iter().flatten().chain([found.median]) {
            low = low.min(value);
            high = high.max(value);
        }
    }
    let (low, high) = reach(low, high);
    Axis::new(low, high, low_at, high_at)
}

struct Plot {
    spacing: f64,
    value: Axis,
    top: f64,
    bottom: f64,
}

impl Plot {
    fn x(&self, place: usize) -> f64 {
        LEFT + (place as f64 + 0.5) * self.spacing
    }

    /// Half the size of a dot.
    fn radius(&self) -> f64 {
        (self.spacing / 2.5).clamp(1.2, 4.0)
    }

    /// Where the change is, with its name above.
    fn mark(&self, change: &Change, history: &History, row: usize) -> Group {
        let last = history.points.len().saturating_sub(1);
        let (before, after) = (change.before.min(last), change.after.min(last));
        let (left, right) = (self.x(before), self.x(after));
        let y = 32.0 + 18.0 * row as f64;
        let mut label = change.percent();
        if let Some(point) = history.points.get(change.after) {
            let subject = shorten(&point.subject, 60);
            label = match change.after == change.before + 1 {
                true => format!("{label} {} {subject}", point.short()),
                false => format!("{label} up to {} {subject}", point.short()),
            };
        }
        let middle = f64::midpoint(left, right);
        let (x, class) = match middle < f64::midpoint(LEFT, RIGHT) {
            true => (middle + 6.0, "label"),
            false => (middle - 6.0, "label end"),
        };
        let width = (right - left).max(2.0);
        Group::new()
            .add(hint(&label))
            .add(rectangle(left, self.top, width, HEIGHT, "change"))
            .add(line(middle, y - 10.0, middle, self.top, "event"))
            .add(text(x, y, class, &label))
    }

    /// The line through the dots.
    fn course(&self, points: &[Found]) -> Polyline {
        let places = points.iter().enumerate().filter_map(|(place, point)| {
            let found = point.statistics.as_ref()?;
            let (x, y) = (self.x(place), self.value.x(found.median));
            Some(format!("{},{}", px(x), px(y)))
        });
        let places: Vec<String> = places.collect();
        Polyline::new()
            .set("points", places.join(" "))
            .set("class", "course")
    }

    fn point(&self, place: usize, point: &Found) -> Group {
        let x = self.x(place);
        let commit = point.point;
        let about = format!(
            "{} {}\n{}",
            commit.short(),
            shorten(&commit.subject, 200),
            commit.date
        );
        let group = Group::new().set("class", "commit");
        let Some((series, found)) = point.series.zip(point.statistics.as_ref()) else {
            let about = format!("{about}\n{}", trouble(&commit.reading));
            let (y, r) = (self.bottom - FOOT / 2.0, self.radius());
            let group = group.add(hint(&about));
            return match commit.reading {
                Reading::NotTried => group.add(line(x, y - 3.0, x, y + 3.0, "untried")),
                _ => group
                    .add(line(x - r, y - r, x + r, y + r, "cross"))
                    .add(line(x - r, y + r, x + r, y - r, "cross")),
            };
        };
        let runs = series.values().len();
        let mut about = format!("{about}\n{} · n = {runs}", value(point));
        if let Some(comparison) = point.comparison {
            about = format!("{about}\n{}", change(comparison).trim());
        }
        let mut group = group;
        if let Some(interval) = found.median_interval {
            let (low, high) = (self.value.x(interval.low), self.value.x(interval.high));
            let text = table::interval(series.unit, Some(interval), found.median);
            about = format!("{about}\n95 % interval {text}");
            let r = self.radius();
            let tall = (low - high).max(1.0);
            group = group.add(rectangle(x - r, high, 2.0 * r, tall, "interval k0"));
        }
        let dot = Circle::new()
            .set("cx", px(x))
            .set("cy", px(self.value.x(found.median)))
            .set("r", px(self.radius()))
            .set("class", "dot k0");
        group.add(hint(&about)).add(dot)
    }

    /// The hashes of as many commits as have room, the last one always.
    fn hashes(&self, points: &[Found]) -> Group {
        let every = ((HASH / self.spacing).ceil() as usize).max(1);
        let last = points.len() - 1;
        let mut group = Group::new();
        for (place, point) in points.iter().enumerate() {
            if (last - place) % every != 0 || self.x(place) < LEFT + HASH / 4.0 {
                continue;
            }
            let x = self.x(place).min(WIDTH - HASH / 2.0);
            let hash = text(x, self.bottom + 18.0, "tick", point.point.short());
            group = group.add(hash);
        }
        group
    }
}

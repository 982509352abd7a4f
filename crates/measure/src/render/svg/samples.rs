//! The raw samples: a strip of dots for each series, with its median and interval.

use ::svg::node::element::{Circle, Group, TSpan};

use super::axis::Axis;
use super::drawing::{Drawing, MARGIN, WIDTH, by_unit, hint, line, px, rectangle, text};
use crate::outlier::{OUTLIER_SCORE, modified_z_scores};
use crate::render::table;
use crate::render::text::shorten;
use crate::{Outcome, Phase, Sample, Series, Summary, Unit};

/// Left end of the axis; names stand before it.
const LEFT: f64 = 330.0;
/// Right end of the axis.
const RIGHT: f64 = WIDTH - 60.0;
/// Height of a series.
const ROW: f64 = 52.0;
/// Characters of a name that fit before the axis.
const NAME: usize = 42;

/// The picture: a panel for each unit; none without series.
pub(super) fn draw(series: &[Series]) -> Option<Drawing> {
    by_unit(series, panel)
}

fn panel(unit: Unit, series: &[(usize, &Series)]) -> (Group, f64) {
    let values = series
        .iter()
        .flat_map(|(_, one)| one.samples.iter().filter_map(Sample::value));
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let (low, high) = reach(low, high);
    let axis = Axis::new(low, high, LEFT, RIGHT);
    let top = 48.0;
    let bottom = top + series.len() as f64 * ROW;
    let mut group = Group::new().add(text(MARGIN, 14.0, "head", title(unit)));
    for place in (0..series.len()).step_by(2) {
        let y = top + place as f64 * ROW;
        group = group.add(rectangle(MARGIN, y, WIDTH - 2.0 * MARGIN, ROW, "band"));
    }
    group = group.add(axis.draw(top, bottom, unit));
    for (place, (index, one)) in series.iter().enumerate() {
        group = group.add(strip(one, index % 8, &axis, top + place as f64 * ROW));
    }
    let key = "each dot is a run · line: median · band: its 95 % interval · ring: warm-up · \
               orange: outlier";
    group = group.add(text(MARGIN, bottom + 18.0, "faint", key));
    (group, bottom + 22.0)
}

/// The axis reaches a little beyond the values, and down to 0 where that costs little room.
pub(super) fn reach(low: f64, high: f64) -> (f64, f64) {
    if low > high {
        return (0.0, 1.0);
    }
    let room = if high > low {
        (high - low) * 0.06
    } else {
        high.abs().max(1e-9) * 0.05
    };
    let bottom = if low >= 0.0 && low < high * 0.4 {
        0.0
    } else {
        low - room
    };
    (bottom, high + room)
}

pub(super) fn title(unit: Unit) -> &'static str {
    match unit {
        Unit::Seconds => "Time",
        Unit::Bytes => "Size",
        Unit::BytesPerSecond => "Throughput",
        Unit::Instructions => "Instructions",
        Unit::Count => "Count",
        Unit::PerSecond => "Rate",
        Unit::Ratio => "Ratio",
        Unit::Percent => "Percent",
    }
}

fn strip(series: &Series, colour: usize, axis: &Axis, top: f64) -> Group {
    let summary = Summary::of(series);
    let mut group = Group::new().add(Group::new().add(hint(&shorten(&series.name, 300))).add(
        text(
            MARGIN + 4.0,
            top + 22.0,
            "label",
            &shorten(&series.name, NAME),
        ),
    ));
    let failed = summary.failed + summary.timed_out;
    let about = match &summary.statistics {
        None => "no run succeeded".to_owned(),
        Some(found) => format!("{} · n = {}", series.unit.format(found.median), summary.n),
    };
    if let Some(found) = &summary.statistics {
        let x = axis.x(found.median);
        let mut centre = Group::new();
        if let Some(interval) = found.median_interval {
            let (left, right) = (axis.x(interval.low), axis.x(interval.high));
            let text = table::interval(series.unit, Some(interval), found.median);
            centre = centre
                .add(hint(&format!("95 % interval of the median\n{text}")))
                .add(rectangle(
                    left,
                    top + 6.0,
                    (right - left).max(1.0),
                    ROW - 12.0,
                    &format!("interval k{colour}"),
                ));
        }
        group = group.add(centre);
        group = group.add(line(x, top + 6.0, x, top + ROW - 6.0, "median"));
    }
    let scores = modified_z_scores(&series.values());
    let mut scores = scores.iter();
    for (place, sample) in series.samples.iter().enumerate() {
        let score = match (&sample.outcome, sample.phase) {
            (Outcome::Ok { .. }, Phase::Measured) => scores.next().copied().unwrap_or(0.0),
            _ => 0.0,
        };
        let is_outlier = score.abs() > OUTLIER_SCORE;
        let class = match sample.phase {
            Phase::Warmup => "warmup".to_owned(),
            Phase::Measured if is_outlier => "outlier".to_owned(),
            Phase::Measured => format!("dot k{colour}"),
        };
        // The golden ratio spreads neighbours far apart (Weyl sequence), so equal values show.
        let spread = (place as f64 * 0.618_033_988_749_895).fract() - 0.5;
        let y = top + ROW / 2.0 + spread * (ROW - 24.0);
        group = group.add(dot(series.unit, sample, &class, axis, y));
    }
    let mut label = text(MARGIN + 4.0, top + 39.0, "faint", &about);
    if failed > 0 {
        label = label.add(TSpan::new(format!(" · {failed} failed")).set("class", "failed"));
    }
    group.add(label)
}

fn dot(unit: Unit, sample: &Sample, class: &str, axis: &Axis, y: f64) -> Group {
    let Some(value) = sample.value() else {
        return Group::new();
    };
    let kind = match class {
        "warmup" => "warm-up",
        "outlier" => "outlier, run",
        _ => "run",
    };
    let about = format!("{kind} {}: {}", sample.iteration, unit.format(value));
    let circle = Circle::new()
        .set("cx", px(axis.x(value)))
        .set("cy", px(y))
        .set("r", 4)
        .set("class", class);
    Group::new().add(hint(&about)).add(circle)
}

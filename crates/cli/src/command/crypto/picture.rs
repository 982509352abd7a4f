//! Graphs of `brisk crypto`: time and throughput over the size of the data. Pure.

use brisk_measure::render::{CurvePanel, PlottedCurve, PlottedPoint};
use brisk_measure::{Interval, Unit};
use brisk_tools::crypto::fit::{Crossover, Line, Metric, Verdict};

use super::crossover::Found;

/// Points by which a line is drawn.
const STEPS: u32 = 80;

/// The graphs of a pair: its quantity, and of times the throughput, too.
pub(super) fn panels(found: &Found) -> Vec<CurvePanel> {
    let metric = found.pair.metric;
    let name = metric.name();
    let title = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
    let time = panel(found, &title, Unit::Seconds, |point| point);
    if metric != Metric::Time {
        return vec![time];
    }
    let throughput = |point: PlottedPoint| PlottedPoint {
        value: point.bytes / point.value,
        ..point
    };
    vec![
        time,
        panel(found, "Throughput", Unit::BytesPerSecond, throughput),
    ]
}

fn panel(
    found: &Found,
    title: &str,
    unit: Unit,
    shown: impl Fn(PlottedPoint) -> PlottedPoint,
) -> CurvePanel {
    let crossover = &found.crossover;
    let curve = |side: Side<'_>| {
        let points = crossover.sizes.iter().map(|size| PlottedPoint {
            bytes: size.bytes as f64,
            value: match side.is_software {
                true => size.software,
                false => size.offload,
            },
        });
        let line = side.line.map(|line| drawn(line, found));
        let line = line.unwrap_or_default().into_iter();
        PlottedCurve {
            name: side.name.to_owned(),
            about: side.line.map(parameters).unwrap_or_default(),
            points: points.map(&shown).collect(),
            line: line.map(&shown).collect(),
        }
    };
    let software = Side {
        name: &crossover.software,
        line: crossover.software_line.as_ref(),
        is_software: true,
    };
    let offload = Side {
        name: &crossover.offload,
        line: crossover.offload_line.as_ref(),
        is_software: false,
    };
    let estimate = crossover.estimate();
    let interval = estimate.and_then(|estimate| estimate.interval);
    CurvePanel {
        title: title.to_owned(),
        unit,
        curves: vec![curve(software), curve(offload)],
        holds: crossover.is_described(),
        bracket: crossover.bracket.map(|bracket| Interval {
            low: bracket.low as f64,
            high: bracket.high as f64,
        }),
        crossing: estimate.map(|estimate| estimate.bytes),
        interval: interval.map(|bounds| Interval {
            low: bounds.low,
            high: bounds.high.unwrap_or(f64::INFINITY),
        }),
        remark: remark(crossover),
    }
}

/// One implementation.
#[derive(Clone, Copy)]
struct Side<'a> {
    name: &'a str,
    line: Option<&'a Line>,
    is_software: bool,
}

/// How the graph is to be read.
fn remark(crossover: &Crossover) -> String {
    let mut parts = vec!["dots: medians"];
    parts.push(match crossover.is_described() {
        true => "lines: fits",
        false => "dashes: fits, which do not describe the times",
    });
    match crossover.verdict {
        Verdict::From(_) | Verdict::UpTo(_) => {
            parts.push("dotted: crossover · orange: its 95 % interval");
        }
        _ => {}
    }
    if crossover.bracket.is_some() {
        parts.push("grey: measured sizes between which the order changes");
    }
    parts.join(" · ")
}

/// A line from a little below the smallest size to a little above the largest.
fn drawn(line: &Line, found: &Found) -> Vec<PlottedPoint> {
    let sizes = &found.crossover.sizes;
    let (Some(first), Some(last)) = (sizes.first(), sizes.last()) else {
        return Vec::new();
    };
    let (low, high) = (first.bytes as f64, last.bytes as f64);
    let points = (0..=STEPS).map(|step| {
        let share = f64::from(step) / f64::from(STEPS);
        let bytes = low * (high / low).powf(share);
        PlottedPoint {
            bytes,
            value: line.at(bytes),
        }
    });
    points.collect()
}

/// `0.201 µs + 89.81 ns/KiB`.
pub(super) fn parameters(line: &Line) -> String {
    // Of a KiB: of a byte it would have few digits.
    let fixed = Unit::Seconds.format(line.fixed);
    let per_byte = Unit::Seconds.format(line.per_byte.abs() * 1024.0);
    let sign = if line.per_byte < 0.0 { '−' } else { '+' };
    format!("{fixed} {sign} {per_byte}/KiB")
}

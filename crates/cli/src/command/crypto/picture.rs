//! Graphs of `brisk crypto`. Pure.

use brisk_measure::Unit;
use brisk_measure::render::{Bar, BarPanel};
use brisk_tools::crypto::{Combination, Row, metric};

/// Parts of the CPU time, with their metrics.
const PARTS: [(&str, &str); 3] = [
    ("threads that ask", metric::PROCESS),
    ("kernel threads", metric::KERNEL_THREADS),
    ("interrupts and the rest", metric::REST),
];

/// CPU time for a gigabyte by who spent it, a panel for the smallest size and one for the largest.
pub(super) fn of_bench(rows: &[Row]) -> Vec<BarPanel> {
    let sizes = rows.iter().map(|row| row.bytes);
    let (Some(least), Some(most)) = (sizes.clone().min(), sizes.max()) else {
        return Vec::new();
    };
    let mut sizes = vec![least, most];
    sizes.dedup();
    let panel = |bytes: u64| {
        let own = rows.iter().filter(|row| row.bytes == bytes);
        let bars = own.map(|row| {
            let part = |(_, metric): &(&str, &str)| {
                // Negative are only rests, of counters that are read one after the other.
                row.get(metric).unwrap_or(0.0).max(0.0) * 1e9 / bytes as f64
            };
            let is_known = row.get(metric::WHOLE).is_some();
            Bar {
                name: row.implementation.clone(),
                values: if is_known {
                    PARTS.iter().map(part).collect()
                } else {
                    Vec::new()
                },
                interval: None,
            }
        });
        BarPanel {
            title: format!(
                "CPU time for 1 GB in operations of {}",
                Unit::Bytes.format(bytes as f64)
            ),
            unit: Unit::Seconds,
            parts: PARTS.map(|(name, _)| name.to_owned()).to_vec(),
            bars: bars.collect(),
            remark: "medians, of all processors together, less an idle system's".into(),
        }
    };
    sizes.into_iter().map(panel).collect()
}

/// Throughput of software and an offload at once, beside the sum of both alone.
pub(super) fn of_combined(all: &[Combination]) -> Vec<BarPanel> {
    let mut bars = Vec::new();
    for one in all {
        let Some(throughput) = one.throughput else {
            continue;
        };
        let name = format!(
            "{} software + {} offload",
            one.split.software, one.split.offload
        );
        let values = match (one.split.software, one.split.offload) {
            (_, 0) => vec![throughput, 0.0],
            (0, _) => vec![0.0, throughput],
            _ => vec![one.software.unwrap_or(0.0), one.offload.unwrap_or(0.0)],
        };
        bars.push(Bar {
            name,
            values,
            interval: None,
        });
        if let Some(share) = one.of_sum.filter(|share| *share > 0.0) {
            let alone = |software, offload| {
                let is_it = |other: &&Combination| {
                    other.split.software == software && other.split.offload == offload
                };
                all.iter().find(is_it).and_then(|one| one.throughput)
            };
            let parts = alone(one.split.software, 0).zip(alone(0, one.split.offload));
            if let Some((software, offload)) = parts {
                bars.push(Bar {
                    name: format!("  sum of both alone ({:.0} % of it)", share * 100.0),
                    values: vec![software, offload],
                    interval: None,
                });
            }
        }
    }
    vec![BarPanel {
        title: "Throughput at once, and the sum of both alone".into(),
        unit: Unit::BytesPerSecond,
        parts: vec!["software".into(), "offload".into()],
        bars,
        remark: "medians; the sum is arithmetic, not a measurement".into(),
    }]
//! Graphs of `brisk crypto`: time and throughput over the size of the data. Pure.

use brisk_measure::render::{CurvePanel, PlottedCurve, PlottedPoint};
use brisk_measure::{Interval, Unit};
use brisk_tools::crypto::fit::{Line, Metric, Verdict};

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
        bracket: crossover.bracket.map(|bracket| Interval {
            low: bracket.low as f64,
            high: bracket.high as f64,
        }),
        crossing: estimate.map(|estimate| estimate.bytes),
        interval: interval.map(|bounds| Interval {
            low: bounds.low,
            high: bounds.high.unwrap_or(f64::INFINITY),
        }),
        remark: remark(&crossover.verdict, crossover.bracket.is_some()),
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
fn remark(verdict: &Verdict, has_bracket: bool) -> String {
    let mut parts = vec!["dots: medians · lines: fits"];
    match verdict {
        Verdict::From(_) | Verdict::UpTo(_) => {
            parts.push("dotted: crossover · orange: its 95 % interval");
        }
        Verdict::Rejected(_) => parts.push("the fits are rejected"),
        _ => {}
    }
    if has_bracket {
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

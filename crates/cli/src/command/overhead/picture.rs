//! Graphs of `brisk overhead`: seconds, speed, and where the time went. Pure.

use brisk_measure::Unit;
use brisk_measure::render::{Bar, BarPanel};
use brisk_tools::overhead::{Explanation, ImportError, Imported, LOSSES, PARTS, Row, is_by_cpu};

use super::table::{BY_CPU, Findings};

/// The graphs of a measurement.
pub(super) fn of_run(findings: &Findings) -> Vec<BarPanel> {
    let rows = &findings.rows;
    let bar = |row: &Row, value: Option<f64>| Bar {
        name: row.name.clone(),
        values: value.into_iter().collect(),
        interval: None,
    };
    let seconds = rows.iter().map(|row| bar(row, row.median));
    let is_by_cpu = |row: &Row| is_by_cpu(row, &findings.judged);
    let shares = rows.iter().map(|row| {
        let by_cpu = row.by_cpu.filter(|_| is_by_cpu(row));
        let (ratio, interval) = match by_cpu {
            Some((ratio, interval)) => (Some(ratio), interval),
            None => (row.ratio, row.interval),
        };
        let mark = if by_cpu.is_some() { BY_CPU } else { "" };
        // A ratio of times: its ends change places.
        let interval = interval.filter(|interval| interval.low > 0.0);
        Bar {
            name: format!("{}{mark}", row.name),
            interval: interval.map(|interval| brisk_measure::Interval {
                low: 100.0 / interval.high,
                high: 100.0 / interval.low,
            }),
            ..bar(row, ratio.map(|ratio| 100.0 / ratio))
        }
    });
    let parts = rows.iter().map(|row| {
        let known = row.parts.iter().flatten().count() > 0;
        let total = row.median.filter(|_| known);
        let part = |total: f64| row.parts.map(|share| share.unwrap_or(0.0).max(0.0) * total);
        Bar {
            name: row.name.clone(),
            values: total.map(|total| part(total).to_vec()).unwrap_or_default(),
            interval: None,
        }
    });
    let parts = BarPanel {
        title: "Where the time of the processors went".into(),
        unit: Unit::Seconds,
        parts: PARTS.map(str::to_owned).to_vec(),
        bars: parts.collect(),
        remark: "medians of the shares, of one processor".into(),
    };
    let has_accounts = parts.bars.iter().any(|bar| !bar.values.is_empty());
    let mut panels = vec![
        panel(
            "Seconds",
            Unit::Seconds,
            seconds.collect(),
            "medians; less is better",
        ),
        panel(
            "Speed, in percent of the host's",
            Unit::Percent,
            shares.collect(),
            match rows.iter().any(is_by_cpu) {
                true => "with the 95 % interval; more is better; ** by CPU time",
                false => "with the 95 % interval; more is better",
            },
        ),
    ];
    panels.extend(has_accounts.then_some(parts));
    panels.extend(losses(&findings.explained));
    panels
}

/// Where losses come from, if that is known.
fn losses(explained: &[Explanation]) -> Option<BarPanel> {
    let bars = explained.iter().map(|one| {
        // The sum is the loss of the table; parts below zero are not drawn.
        let parts = one.parts.map(|part| part.unwrap_or(0.0));
        Bar {
            name: one.name.clone(),
            values: parts.into_iter().chain([one.rest()]).collect(),
            interval: None,
        }
    });
    let parts = LOSSES.into_iter().chain(["rest"]);
    (!explained.is_empty()).then(|| BarPanel {
        title: "Where the loss against the host comes from".into(),
        unit: Unit::Seconds,
        parts: parts.map(str::to_owned).collect(),
        bars: bars.collect(),
        remark: "counts of the work times costs of operations; rest is not explained".into(),
    })
}

/// The graphs of results of others.
///
/// # Errors
/// If a result does not have the base.
pub(super) fn of_others(
    found: &[Imported],
    base: Option<&str>,
) -> Result<Vec<BarPanel>, ImportError> {
    let mut panels = Vec::new();
    for one in found {
        let base = one.base(base)?;
        let bar = |name: &str, value: f64| Bar {
            name: name.to_owned(),
            values: vec![value],
            interval: None,
        };
        let values = one.entries.iter();
        let values = values.map(|entry| bar(&entry.name, entry.value()));
        let shares = one.entries.iter();
        let shares = shares.map(|entry| bar(&entry.name, one.share(entry, base)));
        let title = match (&*one.title, &*one.unit) {
            ("", "s") => "Seconds".to_owned(),
            (title, "s") => format!("{title}: seconds"),
            (title, "") => title.to_owned(),
            (title, unit) => format!("{title}: {unit}"),
        };
        let better = match one.lower_is_better {
            true => "not measured here; less is better",
            false => "not measured here; more is better",
        };
        panels.push(panel(&title, unit(one), values.collect(), better));
        panels.push(panel(
            &format!("Speed, in percent of {}'s", base.name),
            Unit::Percent,
            shares.collect(),
            "not measured here; more is better",
        ));
    }
    Ok(panels)
}

/// Unit of a result of others.
pub(super) fn unit(one: &Imported) -> Unit {
    match &*one.unit {
        "s" => Unit::Seconds,
        _ => Unit::Count,
    }
}

fn panel(title: &str, unit: Unit, bars: Vec<Bar>, remark: &str) -> BarPanel {
    BarPanel {
        title: title.to_owned(),
        unit,
        parts: Vec::new(),
        bars,
        remark: remark.to_owned(),
    }
}

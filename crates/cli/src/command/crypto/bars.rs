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
}

//! Names of what is measured, in reports.

use std::collections::BTreeMap;
use std::fmt::Display;

use brisk_measure::{Report, Series, Summary};

/// Wall-clock time of an operation.
pub const TIME: &str = "time per operation";
/// CPU time of the threads that ask for it, in user space and in the kernel.
pub const PROCESS: &str = "process CPU per operation";
/// CPU time of threads of the kernel.
pub const KERNEL_THREADS: &str = "kernel threads per operation";
/// CPU time in interrupts, as sampled by ticks. Threads are charged with those that come to them, so
/// that it is in the other figures, too.
pub const INTERRUPTS: &str = "interrupts per operation";
/// Of the threads that ask and of the kernel's.
pub const SYSTEM: &str = "system CPU per operation";
/// What the whole system spent besides.
pub const REST: &str = "other CPU per operation";
/// CPU time of the whole system, less that of an idle one.
pub const WHOLE: &str = "whole-system CPU per operation";
/// CPU time of the guest's QEMU on the host.
pub const HOST: &str = "QEMU's CPU on the host per operation";
/// Operations of a run.
pub const OPERATIONS: &str = "operations";
/// Interrupts of the device.
pub const DEVICE: &str = "device interrupts per operation";
/// Joules of the processor packages for a gigabyte.
pub const ENERGY: &str = "joules per GB";
/// CPUs that an idle system uses.
pub const IN_USE: &str = "CPUs in use";

/// Side that measures nothing.
pub(super) const IDLE: &str = "idle";
/// Its repetition.
pub(super) const IDLE_AGAIN: &str = "idle again";
/// Fact about the algorithm.
pub const ALGORITHM: &str = "algorithm";
/// Fact with the names of the implementations, in order.
pub(super) const IMPLEMENTATIONS: &str = "implementations";
/// Facts about proofs begin with it.
pub const PROOF: &str = "proof of ";
/// Fact with the name of the host that was measured.
pub const NODE: &str = "measured host";
/// Fact with the architecture of that, as uname(1) has it.
pub const ARCHITECTURE: &str = "measured architecture";
/// Fact with the release of the kernel that was measured.
pub const KERNEL: &str = "measured kernel";
/// Fact with the OpenSSL that was measured.
pub const LIBRARY: &str = "measured OpenSSL";
/// Fact with the model of the processor that was measured.
pub const PROCESSOR: &str = "measured processor";
/// Fact with the features of that, as OpenSSL has them.
pub const FEATURES: &str = "measured CPUINFO";
/// Fact with the CPUs that other programs used in a run at most.
pub const OTHERS: &str = "CPUs in use by other programs at most";

/// Name of an implementation at a size, in reports.
#[must_use]
pub(super) fn side(implementation: &impl Display, bytes: impl Display) -> String {
    format!("{implementation} {bytes} B")
}

/// Parts of the name of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named<'a> {
    /// Implementation and size, as [`side`] writes them.
    pub(super) side: &'a str,
    /// Implementation.
    pub(super) implementation: &'a str,
    /// Bytes of an operation.
    pub(super) bytes: u64,
    /// Metric.
    pub(super) metric: &'a str,
}

impl<'a> Named<'a> {
    /// Those of `IMPLEMENTATION SIZE B: METRIC`; none of another name.
    pub(super) fn of(name: &'a str) -> Option<Self> {
        let (side, metric) = name.rsplit_once(": ")?;
        let (implementation, bytes) = side.strip_suffix(" B")?.rsplit_once(' ')?;
        Some(Self {
            side,
            implementation,
            bytes: bytes.parse().ok()?,
            metric,
        })
    }
}

/// What was measured of one implementation at one size: medians, by metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Implementation.
    pub implementation: String,
    /// Bytes of an operation.
    pub bytes: u64,
    /// Medians by the names of metrics in this module.
    pub medians: BTreeMap<String, f64>,
    /// Reason of the last run that failed.
    pub failure: Option<String>,
    /// What shows that a driver was at work.
    pub proof: Option<String>,
}

impl Row {
    /// A median.
    #[must_use]
    pub fn get(&self, metric: &str) -> Option<f64> {
        self.medians.get(metric).copied()
    }

    /// Bytes a second.
    #[must_use]
    pub fn throughput(&self) -> Option<f64> {
        let time = self.get(TIME).filter(|time| *time > 0.0)?;
        Some(self.bytes as f64 / time)
    }
}

/// Rows of a report, by implementation in the order of the report, and size.
#[must_use]
pub fn rows(report: &Report) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let named = report.environment.extra.get(IMPLEMENTATIONS);
    let named = named.map_or("", String::as_str).split(", ");
    let mut order: Vec<&str> = named.collect();
    for series in &report.series {
        let Some(named) = Named::of(&series.name) else {
            continue;
        };
        let Named {
            side,
            implementation,
            bytes,
            metric,
        } = named;
        if !order.contains(&implementation) {
            order.push(implementation);
        }
        let is_own = |row: &Row| row.implementation == implementation && row.bytes == bytes;
        let place = rows.iter().position(is_own).unwrap_or_else(|| {
            let proof = report.environment.extra.get(&format!("{PROOF}{side}"));
            rows.push(Row {
                implementation: implementation.to_owned(),
                bytes,
                medians: BTreeMap::new(),
                failure: None,
                proof: proof.cloned(),
            });
            rows.len() - 1
        });
        let row = &mut rows[place];
        if let Some(median) = median(series) {
            row.medians.insert(metric.to_owned(), median);
        }
        if metric == TIME {
            row.failure = failure(series);
        }
    }
    let place = |row: &Row| order.iter().position(|name| *name == row.implementation);
    rows.sort_by_key(|row| (place(row), row.bytes));
    rows
}

pub(super) fn median(series: &Series) -> Option<f64> {
    Summary::of(series)
        .statistics
        .map(|statistics| statistics.median)
}

pub(super) fn failure(series: &Series) -> Option<String> {
    let mut reasons = series
        .samples
        .iter()
        .filter_map(|sample| match &sample.outcome {
            brisk_measure::Outcome::Failed { reason } => Some(reason.clone()),
            _ => None,
        });
    reasons.next_back()
}

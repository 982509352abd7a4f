//! Reports of measurements, and what they need.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// The reason not to run what needs a program.
#[must_use]
pub fn missing(program: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|directory| directory.join(program).exists());
    (!found).then(|| format!("without {program}"))
}

/// The reason not to mount anything.
#[must_use]
pub fn not_root() -> Option<String> {
    let is_root = rustix::process::geteuid().is_root();
    (!is_root).then(|| "it mounts file systems, which needs root".to_owned())
}

/// Reads a report.
///
/// # Panics
/// If there is none.
#[must_use]
#[track_caller]
pub fn read_report(report: &Path) -> Value {
    serde_json::from_slice(&fs::read(report).unwrap()).unwrap()
}

/// Samples of a side in a metric, warm-ups included.
#[must_use]
pub fn samples(report: &Value, side: &str, metric: &str) -> Vec<Value> {
    let name = format!("{side}: {metric}");
    let series = report["series"].as_array().into_iter().flatten();
    let found = series.filter(|series| series["name"] == *name);
    let samples = found.flat_map(|series| series["samples"].as_array().into_iter().flatten());
    samples.cloned().collect()
}

/// Values of a side in a metric, of the runs that count.
#[must_use]
pub fn values(report: &Value, side: &str, metric: &str) -> Vec<f64> {
    let samples = samples(report, side, metric);
    let measured = samples
        .iter()
        .filter(|sample| sample["phase"] == "measured");
    measured
        .filter_map(|sample| sample["value"].as_f64())
        .collect()
}

/// Reasons of the runs of a side that failed, warm-ups included.
#[must_use]
pub fn reasons(report: &Value, side: &str) -> Vec<String> {
    let samples = samples(report, side, "time");
    let reasons = samples
        .iter()
        .filter_map(|sample| sample["reason"].as_str());
    reasons.map(str::to_owned).collect()
}

/// How many times as long a target takes with its fixes, by the table of `brisk overhead`.
///
/// # Panics
/// If the table does not have it.
#[must_use]
#[track_caller]
pub fn changed_ratio(text: &str, target: &str) -> f64 {
    let name = format!("{target} with its fixes");
    let changed = text.split("one thing changed").nth(1).unwrap();
    let line = changed.lines().find(|line| line.starts_with(&name));
    let ratio = line.unwrap().split_whitespace().nth(4).unwrap();
    ratio.parse().unwrap()
}

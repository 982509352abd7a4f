//! Reports of two experiments, set against each other. Pure.

use brisk_measure::{CompareOptions, Comparison, Pairing, Report, Series};

/// Compares what two reports measured: the first series of the first that the second has, too,
/// or else the first of each. The runs of the two were not interleaved. The environment of the new
/// report is what theirs have in common; whether they may be compared at all is for the caller to
/// say, as [`Environment::comparable`] does. None if a report has no series.
///
/// [`Environment::comparable`]: brisk_measure::Environment::comparable
#[must_use]
pub fn compare_reports(kind: &str, created: String, a: &Report, b: &Report) -> Option<Report> {
    let (one, other) = common_series(a, b)?;
    let options = CompareOptions {
        pairing: Pairing::Independent,
        ..CompareOptions::default()
    };
    let environment = b.environment.clone().common(&a.environment);
    let mut report = Report::new(kind, created, environment);
    let comparison = Comparison::of(&one, &other, &options);
    report.comparisons.push(comparison);
    report.series = vec![one, other];
    Some(report)
}

/// The series that are compared, with names that distinguish them.
fn common_series(a: &Report, b: &Report) -> Option<(Series, Series)> {
    let common = a.series.iter().find_map(|s| Some((s, b.series(&s.name)?)));
    let (one, other) = common.or_else(|| a.series.first().zip(b.series.first()))?;
    let (mut one, mut other) = (one.clone(), other.clone());
    if one.name == other.name {
        one.name = format!("A: {}", one.name);
        other.name = format!("B: {}", other.name);
    }
    Some((one, other))
}

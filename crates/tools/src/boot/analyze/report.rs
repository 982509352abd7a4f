//! Report of an analysis.

use brisk_measure::{Environment, Phase, Report, Sample, Series, Warning};

use super::phases::MAIN;
use super::{Analysis, Summary, summarize};

/// Makes a report of kind `boot-analysis` with the timeline of the median boot, a series for each
/// main phase, one for the whole with the given name, and the notes of all boots. The boots are in
/// the order in which they were made.
#[must_use]
pub fn report(
    passes: &[Analysis],
    created: impl Into<String>,
    environment: Environment,
    whole_name: &str,
) -> (Report, Summary) {
    let summary = summarize(passes);
    let mut report = Report::new("boot-analysis", created, environment);
    let (unit, tick) = summary.clock.unit();
    let value = |ticks: i64| ticks as f64 * tick;
    let mut whole = Series::new(whole_name, unit);
    for (iteration, total) in (0..).zip(&summary.totals) {
        whole.push(Sample::measured(iteration, value(*total)));
    }
    report.series.push(whole);
    for name in MAIN {
        let mut series = Series::new(name, unit);
        for (iteration, pass) in (0..).zip(passes) {
            let phase = pass
                .timeline
                .activities
                .iter()
                .find(|phase| phase.name == name);
            series.push(match phase {
                Some(phase) => Sample::measured(iteration, value(phase.duration as i64)),
                None => Sample::failed(iteration, Phase::Measured, "not seen"),
            });
        }
        if !series.values().is_empty() {
            report.series.push(series);
        }
    }
    report.timeline = summary
        .median
        .and_then(|median| passes.get(median))
        .map(|pass| pass.timeline.clone());
    report.notes.clone_from(&summary.notes);
    report.warn();
    // Once is enough: all series have as many boots.
    report.warnings.retain(
        |warning| !matches!(warning, Warning::FewRuns { series, .. } if series != whole_name),
    );
    let mut activities = passes.iter().flat_map(|pass| &pass.timeline.activities);
    if activities.any(|activity| activity.kind == "initcall") {
        report.warnings.push(Warning::Instrumented {
            by: "initcall_debug".to_owned(),
        });
    }
    (report, summary)
}

//! What a measurement says about its targets, in one sentence each. Pure.

use brisk_measure::{Interval, Report};

use super::judgement::Judged;
use super::report::{Row, rows};
use super::sides::{AGAIN_NAME, Side};
use brisk_lint::{Finding, Severity};

/// Rounds that an interval needs.
const LEAST: usize = 6;
/// By how much a host may differ from itself and still decide something.
const UNSTEADY: f64 = 0.1;

/// Whether wall-clock times of a target say nothing, since other programs had the processors, and
/// nothing else is wrong with them.
#[must_use]
pub fn is_by_cpu(row: &Row, judged: &[Judged]) -> bool {
    let findings = judged.iter().find(|one| one.name == row.name);
    let findings = findings.map_or(&[][..], |one| &one.findings);
    let is_elsewhere = findings.iter().any(|one| one.rule == "works-elsewhere");
    let is_steady = row.floor_of_cpu.is_none_or(|floor| floor <= UNSTEADY);
    let is_needed = is_busy(findings) || (is_steady && is_unsteady(row));
    reason(findings).is_none() && is_needed && !is_elsewhere && row.by_cpu.is_some()
}

fn is_busy(findings: &[Finding]) -> bool {
    let mut all = findings.iter();
    all.any(|one| one.rule == "neighbours" && one.severity == Severity::Impossible)
}

fn is_unsteady(row: &Row) -> bool {
    row.floor.is_some_and(|floor| floor > UNSTEADY)
}

/// Why a target is not comparable, by whatever time.
fn reason(findings: &[Finding]) -> Option<&Finding> {
    let mut all = findings.iter();
    all.find(|one| one.severity == Severity::Impossible && one.rule != "neighbours")
}

/// A sentence for each target, with its name. Sides with a change are compared with their targets
/// instead, and have none.
pub(super) fn answers(report: &Report, sides: &[Side], judged: &[Judged]) -> Vec<(String, String)> {
    let names: Vec<_> = sides.iter().map(|side| side.name.clone()).collect();
    let rows = rows(report, &names);
    let targets = sides.iter().zip(&rows).skip(1);
    let targets = targets.filter(|(side, _)| side.name != AGAIN_NAME && side.change.is_none());
    let answers = targets.map(|(side, row)| {
        let judged = judged.iter().filter(|one| one.name == side.name);
        let judged: Vec<_> = judged.cloned().collect();
        (side.name.clone(), answer(row, &judged))
    });
    answers.collect()
}

fn answer(row: &Row, judged: &[Judged]) -> String {
    let findings = judged.first().map_or(&[][..], |one| &one.findings);
    let name = &row.name;
    if let Some(finding) = reason(findings) {
        let what = &finding.what;
        return format!("{name} is not comparable with the host: {what}.");
    }
    let busy = match is_busy(findings) {
        true => "other programs had the processors".to_owned(),
        false => format!(
            "the host's own differs by {:.0} %",
            row.floor.unwrap_or(0.0) * 100.0
        ),
    };
    let busy = format!("wall-clock time says nothing, as {busy}");
    match row.by_cpu.filter(|_| is_by_cpu(row, judged)) {
        Some((ratio, interval)) => {
            let by_cpu = verdict(name, "CPU time", ratio, interval, row.floor_of_cpu);
            format!("{by_cpu} It is by CPU time: {busy}.")
        }
        None if is_busy(findings) => format!(
            "Whether {name} is slower than the host is not decided: {busy}, and its CPU time is not \
             known; end them, or choose another processor with --cpus."
        ),
        None => match row.ratio {
            Some(ratio) => verdict(name, "time", ratio, row.interval, row.floor),
            None => format!("{name} was not measured: no round has a time of it and of the host."),
        },
    }
}

/// What a ratio to the host says, beside what the host differs from itself by.
fn verdict(
    name: &str,
    what: &str,
    ratio: f64,
    interval: Option<Interval>,
    floor: Option<f64>,
) -> String {
    let Some(Interval { low, high }) = interval else {
        return format!(
            "Whether {name} is slower than the host is not decided: it takes {ratio:.2} times the \
             host's {what} in fewer than {LEAST} rounds that count; make more with --rounds."
        );
    };
    let floor = floor.unwrap_or(0.0);
    let (least, most) = (1.0 / (1.0 + floor), 1.0 + floor);
    let numbers = format!("{ratio:.2} times the host's {what} (95 %: {low:.2}–{high:.2})");
    if low > most || high < least {
        return format!("{name} takes {numbers}.");
    }
    let itself = format!("the host differs from itself by {:.1} %", floor * 100.0);
    if low >= least && high <= most && floor <= UNSTEADY {
        return format!("{name} takes no other {what} than the host: {numbers}, and {itself}.");
    }
    format!(
        "Whether {name} is slower than the host is not decided: it takes {numbers}, and {itself}; \
         make more rounds, or have the host do nothing else."
    )
}

#[cfg(test)]
mod tests {
    use brisk_measure::{Environment, Phase, Sample, Series, Unit};

    use super::super::judgement::judge;
    use super::super::metrics::{CPU, TIME};
    use super::*;

    const STEADY: [f64; 6] = [1.0, 1.001, 0.999, 1.0, 1.002, 0.998];

    fn answer_of(report: &Report) -> String {
        let targets = ["box=command:env".parse().unwrap()];
        let (sides, _) = crate::overhead::sides(&targets, &[], &Default::default()).unwrap();
        let names: Vec<_> = sides.iter().map(|side| side.name.clone()).collect();
        let mut found = answers(report, &sides, &judge(report, &names));
        assert_eq!(found.len(), 1);
        found.remove(0).1
    }

    fn report(box_by_host: [f64; 6]) -> Report {
        let mut report = Report::new("overhead", "2026-11-25T00:00:00Z", Environment::default());
        let mut put = |name: &str, values: [f64; 6]| {
            report
                .series
                .push(Series::of_values(name, Unit::Seconds, values));
        };
        for metric in [TIME, CPU] {
            put(&format!("host: {metric}"), STEADY);
            put(
                &format!("host again: {metric}"),
                [1.001, 1.0, 1.0, 0.999, 1.0, 1.001],
            );
            put(&format!("box: {metric}"), box_by_host);
        }
        report
    }

    #[test]
    fn the_verdict_has_its_ratio_or_what_would_decide_it() {
        let twice = answer_of(&report(STEADY.map(|time| time * 2.0)));
        assert_eq!(
            twice,
            "box takes 2.00 times the host's time (95 %: 2.00–2.00)."
        );
        let same = answer_of(&report(STEADY));
        assert!(
            same.starts_with("box takes no other time than the host: 1.00 times"),
            "{same}"
        );
        let unsteady = answer_of(&report([0.9, 1.2, 1.0, 0.8, 1.3, 1.1]));
        assert!(
            unsteady.contains("is not decided: it takes 1.0"),
            "{unsteady}"
        );
        let mut few = report(STEADY.map(|time| time * 2.0));
        for series in &mut few.series {
            series.samples.truncate(3);
        }
        assert!(answer_of(&few).contains("2.00 times the host's time in fewer than 6 rounds"));
    }

    #[test]
    fn a_busy_host_has_a_verdict_by_cpu_time() {
        let mut report = report(STEADY.map(|time| time * 2.0));
        let reason = "dropped: other programs had the processors in 50 % of its time";
        for series in &mut report.series {
            if series.name.ends_with(": time") {
                let samples = (0..6).map(|run| Sample::failed(run, Phase::Measured, reason));
                series.samples = samples.collect();
            }
        }
        let busy = answer_of(&report);
        let expected = "box takes 2.00 times the host's CPU time (95 %: 2.00–2.00). It is by CPU time: \
                        wall-clock time says nothing, as other programs had the processors";
        assert!(busy.starts_with(expected), "{busy}");
        report.series.retain(|series| !series.name.ends_with(CPU));
        assert!(answer_of(&report).contains("not decided"));
    }

    #[test]
    fn a_host_that_differs_from_itself_decides_nothing_by_its_wall_clock() {
        let mut report = report(STEADY.map(|time| time * 1.5));
        let again = report.series_mut("host again: time", Unit::Seconds);
        *again = Series::of_values(
            "host again: time",
            Unit::Seconds,
            [0.5, 1.5, 3.0, 0.4, 2.0, 1.0],
        );
        let by_cpu = answer_of(&report);
        assert!(
            by_cpu.starts_with("box takes 1.50 times the host's CPU time"),
            "{by_cpu}"
        );
        assert!(by_cpu.contains("wall-clock time says nothing, as the host's own differs"));
        report.series.retain(|series| !series.name.ends_with(CPU));
        let undecided = answer_of(&report);
        assert!(undecided.starts_with("Whether box is slower than the host is not decided"));
    }

    #[test]
    fn no_sentence_contradicts_a_note() {
        let mut report = report(STEADY.map(|time| time * 2.0));
        let extra = &mut report.environment.extra;
        extra.insert("box: cpus".into(), "4".into());
        let expected =
            "box is not comparable with the host: the target sees 4 CPUs, and runs on 1.";
        assert_eq!(answer_of(&report), expected);
    }
}

//! A measurement that goes on with the rounds of an earlier one. Pure.

use std::collections::BTreeMap;

use brisk_measure::{Environment, Report};

use super::metrics::TIME;
use super::run::OverheadError;

/// Facts of a target that must not change between rounds.
const CONSTANT: [&str; 6] = ["cc1", "as", "compiler", "cpus", "kernel", "directory"];

/// A report that cannot be gone on with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContinueError {
    /// It is of something else.
    #[error("it is a report of brisk {0}, not of brisk overhead run")]
    Kind(String),
    /// Its measurement was another one.
    #[error(
        "its {fact} is {}, and now {}; give the same options again, or begin a new report",
        shown(before),
        shown(now)
    )]
    Other {
        /// Name of the fact.
        fact: String,
        /// In the report; none if it does not have it.
        before: Option<String>,
        /// What it is now.
        now: Option<String>,
    },
    /// It was measured elsewhere.
    #[error("it was measured on another machine: {0}")]
    Machine(String),
}

fn shown(fact: &Option<String>) -> &str {
    fact.as_deref().unwrap_or("nothing")
}

/// Has a report take further rounds: what follows from its samples is removed. `facts` are those
/// by which the measurement is described. The result is the number of the next round.
///
/// # Errors
/// If another measurement, or one on another machine, is in the report.
pub fn go_on(
    report: &mut Report,
    kind: &str,
    here: &Environment,
    facts: &BTreeMap<String, String>,
) -> Result<u32, ContinueError> {
    if report.kind != kind {
        return Err(ContinueError::Kind(report.kind.clone()));
    }
    Environment::comparable(&report.environment, here).map_err(|differences| {
        let differences = differences.iter().map(ToString::to_string);
        ContinueError::Machine(differences.collect::<Vec<_>>().join("; "))
    })?;
    let extra = &report.environment.extra;
    // Facts of targets have the target's name before a colon; the others describe the measurement.
    let described = extra
        .keys()
        .filter(|name| !name.contains(": ") && *name != SEED);
    for name in described.chain(facts.keys()) {
        let (before, now) = (extra.get(name), facts.get(name));
        if before != now {
            return Err(ContinueError::Other {
                fact: name.clone(),
                before: before.cloned(),
                now: now.cloned(),
            });
        }
    }
    report.comparisons.clear();
    report.notes.clear();
    report.warnings.clear();
    let times = report
        .series
        .iter()
        .filter(|series| series.name.ends_with(&format!(": {TIME}")));
    let last = times
        .flat_map(|series| series.measured())
        .map(|sample| sample.iteration)
        .max();
    Ok(last.map_or(0, |last| last.saturating_add(1)))
}

/// The fact that the engine of experiments adds.
const SEED: &str = "seed of the order";

/// Whether a target is what it was in the rounds before.
pub(super) fn changed(
    before: &BTreeMap<String, String>,
    target: &str,
    facts: &BTreeMap<String, String>,
) -> Result<(), OverheadError> {
    for fact in CONSTANT {
        let then = before.get(&format!("{target}: {fact}"));
        let now = facts.get(fact);
        if let Some((then, now)) = then.zip(now).filter(|(then, now)| then != now) {
            return Err(OverheadError::Changed {
                target: target.to_owned(),
                fact: fact.to_owned(),
                before: then.clone(),
                now: now.clone(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use brisk_measure::{Sample, Unit};

    use super::*;

    fn facts(workload: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("workload".to_owned(), workload.to_owned())])
    }

    fn report() -> Report {
        let mut report = Report::new("overhead", "2026-11-25T00:00:00Z", Environment::default());
        report.environment.extra = facts("compile 5 units");
        let extra = &mut report.environment.extra;
        extra.insert("x: cc1".into(), "1".into());
        extra.insert(SEED.into(), "1".into());
        let series = report.series_mut("x: time", Unit::Seconds);
        series.push(Sample::warmup(7, 1.0));
        series.push(Sample::measured(0, 1.0));
        series.push(Sample::measured(1, 1.0));
        report.notes.push("x: comparable".into());
        report
    }

    #[test]
    fn rounds_go_on_after_the_last_and_conclusions_are_drawn_anew() {
        let mut report = report();
        let here = Environment::default();
        let next = go_on(&mut report, "overhead", &here, &facts("compile 5 units"));
        assert_eq!(next, Ok(2));
        assert!(report.notes.is_empty());
        assert_eq!(report.series[0].samples.len(), 3);
    }

    #[test]
    fn another_measurement_is_refused_with_what_differs() {
        let here = Environment::default();
        let refused = |kind: &str, here: &Environment, facts: &BTreeMap<String, String>| {
            let mut report = report();
            report.kind = kind.to_owned();
            let refused = go_on(&mut report, "overhead", here, facts);
            refused.unwrap_err().to_string()
        };
        let same = facts("compile 5 units");
        let mut more = same.clone();
        more.insert("target y".into(), "runc:".into());
        let other = Environment {
            cpu_model: Some("another".into()),
            ..Environment::default()
        };
        let messages = [
            refused("boot", &here, &same),
            refused("overhead", &here, &facts("make -s")),
            refused("overhead", &here, &more),
            refused("overhead", &other, &same),
        ];
        insta::assert_snapshot!(messages.join("\n"), @r"
        it is a report of brisk boot, not of brisk overhead run
        its workload is compile 5 units, and now make -s; give the same options again, or begin a new report
        its target y is nothing, and now runc:; give the same options again, or begin a new report
        it was measured on another machine: CPU model: unknown against another
        ");
    }

    #[test]
    fn a_target_with_another_compiler_is_another_one() {
        let before = report().environment.extra;
        let now = |hash: &str| BTreeMap::from([("cc1".to_owned(), hash.to_owned())]);
        assert!(changed(&before, "x", &now("1")).is_ok());
        assert!(changed(&before, "y", &now("2")).is_ok());
        let error = changed(&before, "x", &now("2")).unwrap_err().to_string();
        assert!(error.contains("target x has another cc1"), "{error}");
    }
}

//! A measurement that goes on with the rounds of an earlier one. Pure.

use std::collections::BTreeMap;

use brisk_measure::{Environment, Phase, Report, Series};

use super::limits::CPU_LIMIT;
use super::metrics::{TIME, series};
use super::run::OverheadError;
use super::vmm::{ACCELERATORS, UNSAFE_CACHE};

/// Facts of a target that must not change between rounds.
const CONSTANT: [&str; 14] = [
    "cc1",
    "as",
    "compiler",
    "make",
    "configuration",
    "cpus",
    "processor",
    "kernel",
    "directory",
    "hugepages",
    "mitigations",
    CPU_LIMIT,
    ACCELERATORS,
    UNSAFE_CACHE,
];

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

/// Has a report take further rounds: what follows from its samples is removed, and so is a last round
/// that not all sides have. `facts` are those by which the measurement is described, `names` those of
/// its sides. The result is the number of the next round.
///
/// # Errors
/// If another measurement, or one on another machine, is in the report.
pub fn go_on(
    report: &mut Report,
    kind: &str,
    here: &Environment,
    facts: &BTreeMap<String, String>,
    names: &[String],
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
    let is_conclusion = |name: &String| CONCLUSIONS.iter().any(|end| name.ends_with(end));
    report
        .environment
        .extra
        .retain(|name, _| !is_conclusion(name));
    let last = |name: &String| {
        let samples = series(report, name, TIME)
            .into_iter()
            .flat_map(Series::measured);
        samples
            .map(|sample| sample.iteration.saturating_add(1))
            .max()
    };
    let rounds = names.iter().map(|name| last(name).unwrap_or(0)).min();
    let rounds = rounds.unwrap_or(0);
    for series in &mut report.series {
        let is_whole = |phase, iteration| phase != Phase::Measured || iteration < rounds;
        series
            .samples
            .retain(|sample| is_whole(sample.phase, sample.iteration));
    }
    Ok(rounds)
}

/// Ends of the names of facts that follow from the samples.
pub(super) const CONCLUSIONS: [&str; 4] = [
    ": verdict",
    ": against the unchanged target",
    ": loss",
    ANSWER,
];

/// End of the name of the fact that has the answer of a measurement about a target, in a sentence.
pub const ANSWER: &str = ": answer";

/// The fact that the engine of experiments adds.
const SEED: &str = "seed of the order";

/// Whether a target is what it was in the rounds before.
pub(super) fn changed(
    before: &BTreeMap<String, String>,
    target: &str,
    facts: &BTreeMap<String, String>,
) -> Result<(), OverheadError> {
    let then = |fact: &str| before.get(&format!("{target}: {fact}"));
    // A target that was not started then has said nothing.
    if CONSTANT.iter().all(|fact| then(fact).is_none()) {
        return Ok(());
    }
    for fact in CONSTANT {
        let (then, now) = (then(fact), facts.get(fact));
        if then != now {
            return Err(OverheadError::Changed {
                target: target.to_owned(),
                fact: fact.to_owned(),
                before: shown(&then.cloned()).to_owned(),
                now: shown(&now.cloned()).to_owned(),
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
        let facts = facts("compile 5 units");
        let names = ["x".to_owned()];
        let next = go_on(&mut report, "overhead", &here, &facts, &names);
        assert_eq!(next, Ok(2));
        assert!(report.notes.is_empty());
        assert_eq!(report.series[0].samples.len(), 3);
    }

    #[test]
    fn a_round_that_not_all_have_is_made_again() {
        let mut report = report();
        let series = report.series_mut("y: time", Unit::Seconds);
        series.push(Sample::measured(0, 1.0));
        let here = Environment::default();
        let facts = facts("compile 5 units");
        let mut go_on = |names: [&str; 2]| {
            let names = names.map(str::to_owned);
            let next = go_on(&mut report, "overhead", &here, &facts, &names);
            (
                next,
                report
                    .series
                    .iter()
                    .map(|one| one.samples.len())
                    .collect::<Vec<_>>(),
            )
        };
        // The warm-up run stays.
        assert_eq!(go_on(["x", "y"]), (Ok(1), vec![2, 1]));
        assert_eq!(go_on(["x", "z"]), (Ok(0), vec![1, 0]));
    }

    #[test]
    fn another_measurement_is_refused_with_what_differs() {
        let here = Environment::default();
        let refused = |kind: &str, here: &Environment, facts: &BTreeMap<String, String>| {
            let mut report = report();
            report.kind = kind.to_owned();
            let refused = go_on(&mut report, "overhead", here, facts, &["x".to_owned()]);
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
        // It had none before, or has none now.
        let more = BTreeMap::from([
            ("cc1".to_owned(), "1".to_owned()),
            ("as".to_owned(), "1".to_owned()),
        ]);
        assert!(changed(&before, "x", &more).is_err());
        assert!(changed(&before, "x", &BTreeMap::new()).is_err());
        let error = changed(&before, "x", &now("2")).unwrap_err().to_string();
        assert!(error.contains("target x has another cc1"), "{error}");
    }
}

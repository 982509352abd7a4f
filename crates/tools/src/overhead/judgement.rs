//! Verdicts on targets. Pure.

use brisk_measure::Report;

use super::evidence::Evidence;
use super::rules::{Comparable, RULES};
use crate::lint::{Finding, check};

/// A target, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Its name.
    pub name: String,
    /// Whether its times may be compared with the host's.
    pub comparable: Comparable,
    /// Why not, or not quite.
    pub findings: Vec<Finding>,
}

/// The findings, a line each, with the names of all targets that it is about.
pub(super) fn lines(judged: &[Judged]) -> Vec<String> {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for Judged { name, findings, .. } in judged {
        for finding in findings {
            let severity = Comparable::of(std::slice::from_ref(finding)).name();
            let Finding {
                what,
                effect,
                fix,
                rule,
                ..
            } = finding;
            let line = format!("{severity}: {what}: {effect}; {fix} [{rule}]");
            match lines.iter_mut().find(|(known, _)| *known == line) {
                Some((_, names)) => names.push(name),
                None => lines.push((line, vec![name])),
            }
        }
    }
    let named = lines.into_iter();
    named
        .map(|(line, names)| format!("{}: {line}", names.join(", ")))
        .collect()
}

/// Judges all sides but the first of `names`, the host, with which they are compared.
#[must_use]
pub fn judge(report: &Report, names: &[String]) -> Vec<Judged> {
    let Some((host, targets)) = names.split_first() else {
        return Vec::new();
    };
    let judged = targets.iter().map(|name| {
        let findings = check(RULES, &Evidence::of(report, host, name));
        Judged {
            name: name.clone(),
            comparable: Comparable::of(&findings),
            findings,
        }
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use brisk_measure::{Environment, Series, Unit};

    use super::*;

    #[test]
    fn a_finding_about_several_targets_is_one_line() {
        let mut report = Report::new("overhead", "2026-11-25T00:00:00Z", Environment::default());
        for (name, kernel) in [("host", "6.12"), ("a", "6.1"), ("b", "6.1"), ("c", "6.12")] {
            let fact = format!("{name}: kernel");
            report.environment.extra.insert(fact, kernel.into());
            let series = Series::of_values(format!("{name}: time"), Unit::Seconds, [1.0]);
            report.series.push(series);
        }
        let names = ["host", "a", "b", "c"].map(str::to_owned);
        let judged = judge(&report, &names);
        let verdicts: Vec<_> = judged.iter().map(|one| one.comparable.name()).collect();
        assert_eq!(verdicts, ["with caveat", "with caveat", "comparable"]);
        let [line] = &lines(&judged)[..] else {
            panic!("one line");
        };
        assert!(line.starts_with("a, b: with caveat: its kernel is 6.1, and the host's 6.12:"));
        assert!(line.ends_with(" [other-kernel]"), "{line}");
    }
}

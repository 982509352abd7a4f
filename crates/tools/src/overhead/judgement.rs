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

impl Judged {
    /// The findings, a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let line = |finding: &Finding| {
            let severity = Comparable::of(std::slice::from_ref(finding)).name();
            let Self { name, .. } = self;
            let Finding {
                what,
                effect,
                fix,
                rule,
                ..
            } = finding;
            format!("{name}: {severity}: {what}: {effect}; {fix} [{rule}]")
        };
        self.findings.iter().map(line).collect()
    }
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

//! Verdicts on targets. Pure.

use brisk_measure::Report;

use super::evidence::Evidence;
use super::rules::{Comparable, RULES};
use brisk_lint::{Finding, check};

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

/// Findings of one rule about several targets.
struct Line<'a> {
    finding: &'a Finding,
    /// What was found, each with the targets that it was found of.
    found: Vec<(&'a str, Vec<&'a str>)>,
}

/// The findings, a line for each rule, with the names of all targets that it is about.
pub(super) fn lines(judged: &[Judged]) -> Vec<String> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for Judged { name, findings, .. } in judged {
        for finding in findings {
            let is_same = |line: &&mut Line<'_>| {
                let known = line.finding;
                (known.rule, known.severity, &known.fix)
                    == (finding.rule, finding.severity, &finding.fix)
            };
            let line = match lines.iter_mut().find(is_same) {
                Some(line) => line,
                None => {
                    lines.push(Line {
                        finding,
                        found: Vec::new(),
                    });
                    let last = lines.len() - 1;
                    &mut lines[last]
                }
            };
            match line
                .found
                .iter_mut()
                .find(|(what, _)| *what == finding.what)
            {
                Some((_, names)) => names.push(name),
                None => line.found.push((&finding.what, vec![name])),
            }
        }
    }
    lines.iter().map(Line::text).collect()
}

impl Line<'_> {
    fn text(&self) -> String {
        let Finding {
            effect, fix, rule, ..
        } = self.finding;
        let severity = Comparable::of(std::slice::from_ref(self.finding)).name();
        let names = self.found.iter().flat_map(|(_, names)| names);
        let mut names: Vec<_> = names.copied().collect();
        // A target may have several findings of a rule, one after another.
        names.dedup();
        let whats: Vec<_> = match &self.found[..] {
            [(what, _)] => vec![(*what).to_owned()],
            several => several
                .iter()
                .map(|(what, names)| format!("{what} ({})", names.join(", ")))
                .collect(),
        };
        let (names, whats) = (names.join(", "), whats.join(", "));
        format!("{names}: {severity}: {whats}: {effect}; {fix} [{rule}]")
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

#[cfg(test)]
mod tests {
    use brisk_measure::{Environment, Series, Unit};

    use super::*;

    #[test]
    fn a_finding_about_several_targets_is_one_line() {
        let mut report = Report::new("overhead", "2026-11-25T00:00:00Z", Environment::default());
        for (name, pages) in [
            ("host", "madvise"),
            ("a", "never"),
            ("b", "never"),
            ("c", "madvise"),
        ] {
            let fact = format!("{name}: hugepages");
            report.environment.extra.insert(fact, pages.into());
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
        let expected = "a, b: with caveat: its transparent huge pages are never, and the host's \
                        madvise:";
        assert!(line.starts_with(expected), "{line}");
        assert!(line.ends_with(" [other-huge-pages]"), "{line}");
        let extra = &mut report.environment.extra;
        extra.insert("c: hugepages".into(), "always".into());
        let [line] = &lines(&judge(&report, &names))[..] else {
            panic!("one line");
        };
        assert!(line.starts_with("a, b, c: with caveat: "), "{line}");
        assert!(
            line.contains("are never, and the host's madvise (a, b), its "),
            "{line}"
        );
    }
}

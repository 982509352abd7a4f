//! Findings about guests as text, and as accepted by a baseline.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context as _, ensure};
use brisk_host::files;
use brisk_lint::{Edit, Finding, Fix, Severity};
use brisk_tools::idle::proxmox;
use brisk_vm::hardware::Place;
use serde::Deserialize;

use super::lint::{Linted, SCHEMA};
use crate::output::printable_line;

/// Most bytes of a baseline.
const LARGEST: u64 = 64 << 20;

/// Where a finding is, behind the guest's name.
fn place(finding: &Finding, words: &[OsString]) -> String {
    match &finding.place {
        Some(Place::Element { line, column, .. }) => format!(":{line}:{column}"),
        Some(Place::Words(range)) => {
            let text = words.get(range.clone()).unwrap_or_default();
            let text = text.iter().map(|word| word.to_string_lossy());
            format!(": {}", text.collect::<Vec<_>>().join(" "))
        }
        _ => String::new(),
    }
}

/// The findings for people, beside so many that a baseline accepts.
pub(super) fn table(linted: &[Linted], accepted: usize) -> String {
    let mut text = summary(linted);
    for guest in linted {
        for finding in &guest.findings {
            let place = place(finding, &guest.words);
            let (severity, what) = (finding.severity.name(), &finding.what);
            let rule = finding.rule;
            let mut lines = vec![
                format!("{}{place}: {severity}: {what} [{rule}]", guest.guest),
                format!("    so:     {}", finding.effect),
            ];
            let evidence = finding.evidence.iter();
            lines.extend(evidence.map(|evidence| format!("    likely: {evidence}")));
            let command = proxmox::command(&guest.words, finding);
            let fix = command.unwrap_or_else(|| finding.fix.to_string());
            lines.push(format!("    fix:    {fix}"));
            for line in lines {
                text.push_str(&printable_line(&line));
                text.push('\n');
            }
        }
    }
    let findings = || linted.iter().flat_map(|guest| &guest.findings);
    let count = findings().count();
    match (count, accepted) {
        (0, 0) => return "No problems found.\n".to_owned(),
        (0, _) => {
            return format!("No problems found beside {accepted} that the baseline accepts.\n");
        }
        _ => {}
    }
    let of = |severity: Severity| findings().filter(|one| one.severity == severity).count();
    let severities = [
        Severity::High,
        Severity::Medium,
        Severity::Low,
        Severity::Note,
    ];
    let counts = severities.map(|severity| (of(severity), severity.name()));
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<_> = counts
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    let fixable = findings().filter(|finding| edit(finding).is_some()).count();
    let plural = if count == 1 { "" } else { "s" };
    let _ = writeln!(text, "{count} finding{plural}: {}", counts.join(", "));
    if accepted > 0 {
        let _ = writeln!(text, "The baseline accepts {accepted} more.");
    }
    if fixable > 0 {
        let _ = writeln!(text, "brisk idle fix makes {fixable} of the changes.");
    }
    text
}

/// The edit that is made without being asked for by name.
pub(super) fn edit(finding: &Finding) -> Option<&Edit> {
    match &finding.fix {
        Fix::Edit(edit) if edit.is_exact() && !edit.is_on_request() => Some(edit),
        _ => None,
    }
}

/// What a rule found in several guests.
#[derive(Default)]
struct Found {
    guests: usize,
    fixable: usize,
    /// Guests that were measured, and for which that speaks.
    likely: usize,
    /// Their CPU time, in percent of one CPU.
    cpu: f64,
}

/// Rules that found something: the worst first, of these what costs most and is most frequent;
/// nothing of a single guest.
fn summary(linted: &[Linted]) -> String {
    let mut rules: BTreeMap<&str, (Severity, Found)> = BTreeMap::new();
    for guest in linted {
        let mut counted: Vec<&str> = Vec::new();
        let mut likely: Vec<&str> = Vec::new();
        for finding in &guest.findings {
            let (severity, found) = rules
                .entry(finding.rule)
                .or_insert_with(|| (finding.severity, Found::default()));
            *severity = finding.severity.min(*severity);
            found.fixable += usize::from(edit(finding).is_some());
            if !counted.contains(&finding.rule) {
                counted.push(finding.rule);
                found.guests += 1;
            }
            let cpu = guest.cpu_percent.filter(|_| finding.evidence.is_some());
            if let Some(cpu) = cpu.filter(|_| !likely.contains(&finding.rule)) {
                likely.push(finding.rule);
                found.likely += 1;
                found.cpu += cpu;
            }
        }
    }
    if linted.len() < 2 || rules.is_empty() {
        return String::new();
    }
    let mut rules: Vec<_> = rules.into_iter().collect();
    rules.sort_by(|(_, (worst, one)), (_, (least, other))| {
        let by_cost = other.cpu.total_cmp(&one.cpu);
        let by_count = other.guests.cmp(&one.guests);
        worst.cmp(least).then(by_cost).then(by_count)
    });
    let found = linted.iter().filter(|guest| !guest.findings.is_empty());
    let mut text = format!(
        "{} of {} guests have findings:\n",
        found.count(),
        linted.len()
    );
    for (rule, (severity, found)) in rules {
        let plural = if found.guests == 1 { "" } else { "s" };
        let mut parts = vec![format!("{rule}: {} guest{plural}", found.guests)];
        if found.cpu > 0.0 {
            let cpus = found.cpu / 100.0;
            parts.push(format!(
                "likely in {}, which take {cpus:.2} CPUs",
                found.likely
            ));
        }
        if found.fixable > 0 {
            parts.push(format!("{} changed by brisk idle fix", found.fixable));
        }
        let _ = writeln!(text, "  {:<6}  {}", severity.name(), parts.join(", "));
    }
    text.push('\n');
    text
}

/// Findings that are accepted: those of an earlier `--format json`.
#[derive(Debug, Deserialize)]
pub(super) struct Baseline {
    schema: String,
    guests: Vec<Accepted>,
}

#[derive(Debug, Deserialize)]
struct Accepted {
    guest: String,
    findings: Vec<AcceptedFinding>,
}

#[derive(Debug, Deserialize)]
struct AcceptedFinding {
    rule: String,
}

impl Baseline {
    /// Reads the findings that an earlier run has written.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let failed = || {
            format!(
                "cannot use {} as a baseline, which brisk idle lint --format json writes",
                path.display()
            )
        };
        let bytes = files::read_regular(path, LARGEST).with_context(failed)?;
        let baseline: Self = serde_json::from_slice(&bytes).with_context(failed)?;
        ensure!(
            baseline.schema == SCHEMA,
            "{}: its schema is {}, and not {SCHEMA}",
            failed(),
            baseline.schema
        );
        Ok(baseline)
    }

    /// Leaves out what is accepted: of each guest as many findings of a rule as it had. How many.
    pub(super) fn leave_out(&self, linted: &mut [Linted]) -> usize {
        let mut left_out = 0;
        for guest in linted {
            let of_guest = self.guests.iter().filter(|one| one.guest == guest.guest);
            let mut rules: Vec<&str> = of_guest
                .flat_map(|one| &one.findings)
                .map(|finding| finding.rule.as_str())
                .collect();
            guest.findings.retain(|finding| {
                let place = rules.iter().position(|rule| *rule == finding.rule);
                left_out += usize::from(place.is_some());
                place.map(|place| rules.swap_remove(place)).is_none()
            });
        }
        left_out
    }
}

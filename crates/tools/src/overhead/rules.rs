//! Whether a target is comparable with the host, as rules over evidence of both. Pure.

use super::evidence::Evidence;
use crate::lint::{Applies, Description, Finding, Findings, Fix, Rule, Severity};

/// Difference of two clocks that is no caveat.
const SKEW: f64 = 0.005;
/// Difference that the resolution of a clock and the way of the lines may make besides, seconds.
const RESOLUTION: f64 = 0.02;
/// Share of its time in which other programs may have the processors.
const NEIGHBOURS: f64 = 0.05;
/// Share beyond which times say nothing.
const MANY_NEIGHBOURS: f64 = 0.2;

/// Whether times of a target may be compared with those of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Comparable {
    /// They may.
    Yes,
    /// They may, if what is found is said with them.
    Caveat,
    /// They may not.
    No,
}

impl Comparable {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Yes => "comparable",
            Self::Caveat => "with caveat",
            Self::No => "not comparable",
        }
    }

    /// Result of findings.
    #[must_use]
    pub fn of(findings: &[Finding]) -> Self {
        let of_one = |finding: &Finding| match finding.severity {
            Severity::Impossible => Self::No,
            _ => Self::Caveat,
        };
        findings.iter().map(of_one).max().unwrap_or(Self::Yes)
    }
}

/// All rules, in the order in which findings are shown.
pub const RULES: &[Rule<Evidence>] = &[
    Rule {
        id: "other-objects",
        applies: Applies::Target,
        why: "the target did other work than the host, so the times say nothing",
        source: "gcc makes the same object of the same unit and options wherever it runs",
        check: other_objects,
    },
    Rule {
        id: "other-compiler",
        applies: Applies::Target,
        why: "another compiler takes another time for the same units",
        source: "hashes of the programs `cc1` and `as` that gcc calls",
        check: other_compiler,
    },
    Rule {
        id: "unequal-cpus",
        applies: Applies::Target,
        why: "the target can do more at once than the host may, or less",
        source: "`nproc` in the target, and the processors that it runs on",
        check: unequal_cpus,
    },
    Rule {
        id: "swap",
        applies: Applies::Target,
        why: "a disk was measured, and not the work",
        source: "`pswpin` and `pswpout` of proc_vmstat(5)",
        check: swap,
    },
    Rule {
        id: "neighbours",
        applies: Applies::Target,
        why: "the time of other programs is in the times",
        source: "`Documentation/accounting/psi.rst` of the kernel: `full` of a group's CPU pressure",
        check: neighbours,
    },
    Rule {
        id: "clock-skew",
        applies: Applies::Target,
        why: "times that are taken inside the target are wrong",
        source: "a Firecracker guest whose clock ran ahead until NTP corrected it \
                 (firecracker-microvm/firecracker#1646)",
        check: clock_skew,
    },
    Rule {
        id: "emulation",
        applies: Applies::Target,
        why: "the loss is that of emulating a processor, not of virtualising one",
        source: "`docs/devel/tcg.rst` of QEMU",
        check: emulation,
    },
    Rule {
        id: "unsafe-cache",
        applies: Applies::Target,
        why: "flushes of the guest are ignored, so times of work on its disks are too good",
        source: "`cache` of qemu(1)",
        check: unsafe_cache,
    },
    Rule {
        id: "other-file-system",
        applies: Applies::Target,
        why: "files are written to another kind of file system than on the host",
        source: "`stat -f` of the work directory",
        check: other_file_system,
    },
];

/// All rules, for lists.
#[must_use]
pub fn descriptions() -> Vec<Description> {
    RULES.iter().map(Rule::description).collect()
}

fn advice(text: &str) -> Fix {
    Fix::Advice(text.to_owned())
}

fn other_objects(evidence: &Evidence, findings: &mut Findings) {
    for object in &evidence.objects {
        let fix = advice("give the target the host's compiler, and look at its options");
        let what = format!("object {object} differs from the host's");
        findings.add(Severity::Impossible, what, fix);
    }
}

fn other_compiler(evidence: &Evidence, findings: &mut Findings) {
    let differs = ["cc1", "as"]
        .into_iter()
        .filter_map(|name| evidence.differs(name).map(|_| name));
    let programs: Vec<_> = differs.collect();
    if !programs.is_empty() {
        let versions = evidence.differs("compiler");
        let versions = versions.map(|(host, target)| format!(": {target}, and {host} on the host"));
        let what = format!(
            "{} of the target is another program than the host's{}",
            programs.join(" and "),
            versions.unwrap_or_default()
        );
        let fix = advice("install the same version of gcc and binutils on both");
        findings.add(Severity::Impossible, what, fix);
    }
}

fn unequal_cpus(evidence: &Evidence, findings: &mut Findings) {
    let seen = evidence
        .target
        .get("cpus")
        .and_then(|text| text.parse::<usize>().ok());
    if let Some(seen) = seen.filter(|seen| *seen != evidence.cpus) {
        let what = format!("the target sees {seen} CPUs, and runs on {}", evidence.cpus);
        let fix = advice("give the target as many CPUs as --cpus names");
        findings.add(Severity::Impossible, what, fix);
    }
}

fn swap(evidence: &Evidence, findings: &mut Findings) {
    if evidence.swapped > 0.0 {
        let what = format!(
            "{} pages were swapped while it was measured",
            evidence.swapped
        );
        let fix = advice("give the target more memory, or free some of the host's");
        findings.add(Severity::Impossible, what, fix);
    }
}

fn neighbours(evidence: &Evidence, findings: &mut Findings) {
    let sides = [
        ("the target's", evidence.neighbours),
        ("the host's", evidence.host_neighbours),
    ];
    for (side, share) in sides {
        let Some(share) = share.filter(|share| *share > NEIGHBOURS) else {
            continue;
        };
        let severity = match share > MANY_NEIGHBOURS {
            true => Severity::Impossible,
            false => Severity::Low,
        };
        let percent = share * 100.0;
        let what = format!("other programs had the processors in {percent:.0} % of {side} time");
        let fix = advice("end them, or choose another processor with --cpus");
        findings.add(severity, what, fix);
    }
}

fn clock_skew(evidence: &Evidence, findings: &mut Findings) {
    let Some((own, time)) = evidence.clocks else {
        return;
    };
    let difference = own - time;
    if difference.abs() > SKEW * time + RESOLUTION {
        let percent = difference / time * 100.0;
        let what = format!("its clock differs from the host's by {percent:+.1} %");
        let fix = advice("take no times inside it; have the target use the host's clock source");
        findings.add(Severity::Low, what, fix);
    }
}

fn emulation(evidence: &Evidence, findings: &mut Findings) {
    let accelerators = evidence.target.get("accelerators");
    // QEMU's own choice, if nothing is said, is TCG.
    if accelerators.is_some_and(|names| !names.split(',').any(|name| name == "kvm")) {
        let fix = advice("use KVM where the host has it");
        findings.add(Severity::Low, "QEMU emulates the processor (TCG)", fix);
    }
}

fn unsafe_cache(evidence: &Evidence, findings: &mut Findings) {
    if evidence.target.contains_key("unsafe cache") {
        let fix = advice("use cache=none or cache=writeback, or keep all work off the disk");
        findings.add(Severity::Low, "QEMU has a disk with cache=unsafe", fix);
    }
}

fn other_file_system(evidence: &Evidence, findings: &mut Findings) {
    if let Some((host, target)) = evidence.differs("directory") {
        let what = format!("its work directory is on {target}, and the host's on {host}");
        let fix = advice("mount a tmpfs at /dev/shm of the target");
        findings.add(Severity::Low, what, fix);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::lint::check;

    fn facts(facts: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = facts
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        owned.collect()
    }

    fn equal() -> Evidence {
        let facts = facts(&[
            ("cc1", "1"),
            ("as", "2"),
            ("compiler", "gcc 12.2.0"),
            ("cpus", "1"),
            ("directory", "tmpfs"),
        ]);
        Evidence {
            host: facts.clone(),
            target: facts,
            cpus: 1,
            objects: BTreeSet::new(),
            swapped: 0.0,
            neighbours: Some(0.01),
            host_neighbours: Some(0.01),
            clocks: Some((10.0, 10.01)),
        }
    }

    fn found(change: impl FnOnce(&mut Evidence)) -> (Comparable, String) {
        let mut evidence = equal();
        change(&mut evidence);
        let findings = check(RULES, &evidence);
        let lines: Vec<_> = findings
            .iter()
            .map(|finding| format!("{}: {}", finding.rule, finding.what))
            .collect();
        (Comparable::of(&findings), lines.join("; "))
    }

    #[test]
    fn equal_sides_are_comparable() {
        assert_eq!(found(|_| {}), (Comparable::Yes, String::new()));
        // Unknown facts are not held against a target.
        let unknown = found(|evidence| {
            evidence.target.clear();
            evidence.clocks = None;
            evidence.neighbours = None;
        });
        assert_eq!(unknown, (Comparable::Yes, String::new()));
    }

    #[test]
    fn each_rule_finds_what_it_is_about_and_no_near_miss() {
        use Comparable::{Caveat, No, Yes};
        let set = |name: &'static str, value: &'static str| {
            found(move |evidence| {
                evidence.target.insert(name.into(), value.into());
            })
        };
        let cases = [
            (
                No,
                found(|evidence| {
                    evidence.objects.insert("a.o".into());
                }),
            ),
            (No, set("as", "3")),
            (
                No,
                found(|evidence| {
                    evidence.target.insert("cc1".into(), "9".into());
                    evidence
                        .target
                        .insert("compiler".into(), "gcc 14.2.0".into());
                }),
            ),
            (No, set("cpus", "2")),
            (No, found(|evidence| evidence.swapped = 3.0)),
            (Caveat, found(|evidence| evidence.neighbours = Some(0.06))),
            (No, found(|evidence| evidence.host_neighbours = Some(0.3))),
            (Yes, found(|evidence| evidence.neighbours = Some(0.04))),
            (
                Caveat,
                found(|evidence| evidence.clocks = Some((10.2, 10.0))),
            ),
            (
                Caveat,
                found(|evidence| evidence.clocks = Some((9.8, 10.0))),
            ),
            // Within the resolution of the clocks.
            (Yes, found(|evidence| evidence.clocks = Some((0.55, 0.54)))),
            (Caveat, set("accelerators", "tcg")),
            (Caveat, set("accelerators", "")),
            (Yes, set("accelerators", "kvm,tcg")),
            (Caveat, set("unsafe cache", "yes")),
            (Caveat, set("directory", "ext2/ext3")),
        ];
        for (expected, (verdict, text)) in &cases {
            assert_eq!(verdict, expected, "{text}");
        }
        let lines: Vec<_> = cases.iter().map(|(_, (_, text))| text.as_str()).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        other-objects: object a.o differs from the host's
        other-compiler: as of the target is another program than the host's
        other-compiler: cc1 of the target is another program than the host's: gcc 14.2.0, and gcc 12.2.0 on the host
        unequal-cpus: the target sees 2 CPUs, and runs on 1
        swap: 3 pages were swapped while it was measured
        neighbours: other programs had the processors in 6 % of the target's time
        neighbours: other programs had the processors in 30 % of the host's time

        clock-skew: its clock differs from the host's by +2.0 %
        clock-skew: its clock differs from the host's by -2.0 %

        emulation: QEMU emulates the processor (TCG)
        emulation: QEMU emulates the processor (TCG)

        unsafe-cache: QEMU has a disk with cache=unsafe
        other-file-system: its work directory is on ext2/ext3, and the host's on tmpfs
        ");
        let all = lines.join(" ");
        for rule in RULES {
            assert!(all.contains(rule.id), "{} has a case", rule.id);
        }
    }
}

//! Each rule, and near misses.

use std::collections::BTreeMap;

use super::*;
use brisk_lint::check;

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
        ("processor", "AMD EPYC"),
        ("directory", "tmpfs"),
        ("kernel", "6.1"),
        ("memory", "8388608"),
        ("mitigations", "l1tf=Not affected; mds=Vulnerable"),
        ("hugepages", "madvise"),
    ]);
    Evidence {
        host: facts.clone(),
        target: facts,
        cpus: 1,
        objects: BTreeSet::new(),
        runs: (8, 0),
        swapped: 0.0,
        dropped: (1, 8),
        speeds: Some((1.0, 1.0)),
        floor_of_speed: Some(0.01),
        too_short: None,
        differs: true,
        major_faults: Some((0.0, 90.0)),
        untimed: 0,
        neighbours: Some(0.01),
        host_neighbours: Some(0.01),
        clocks: Some((10.0, 10.01)),
        cpu_times: Some((9.9, 9.8)),
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
fn times_that_lines_cannot_say_are_not_comparable() {
    let short = found(|evidence| evidence.too_short = Some((0.001, 0.004)));
    let says = "too-short: its runs take 1.0 ms, and its lines say nothing below 4.0 ms";
    assert_eq!(short, (Comparable::No, says.to_owned()));
    let untimed = |runs, untimed| {
        found(|evidence| (evidence.runs, evidence.untimed) = ((runs, 0), untimed)).0
    };
    assert_eq!(untimed(10, 1), Comparable::Caveat);
    assert_eq!(untimed(2, 8), Comparable::No);
    // There is no second reason why it has no time.
    let all = found(|evidence| (evidence.runs, evidence.untimed) = ((0, 0), 8));
    assert!(all.1.starts_with("too-short: 8 of its runs") && !all.1.contains("no-run"));
}

#[test]
fn one_reason_for_no_run_is_enough() {
    let differs = found(|evidence| {
        evidence.runs = (0, 8);
        evidence.objects.insert("a.o".into());
    });
    assert!(!differs.1.contains("no-run"), "{}", differs.1);
    let dropped = found(|evidence| {
        evidence.runs = (0, 0);
        evidence.dropped = (8, 8);
    });
    assert!(!dropped.1.contains("no-run"), "{}", dropped.1);
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

/// A change of evidence, with the verdict that it should have.
type Case = (Comparable, (Comparable, String));

/// With another fact of the target.
fn set(name: &str, value: &str) -> (Comparable, String) {
    found(|evidence| {
        evidence.target.insert(name.into(), value.into());
    })
}

fn cases() -> Vec<Case> {
    use Comparable::{Caveat, No};
    vec![
        (No, found(|evidence| evidence.runs = (0, 8))),
        (
            No,
            found(|evidence| (evidence.runs, evidence.dropped) = ((0, 0), (0, 0))),
        ),
        (Caveat, found(|evidence| evidence.runs = (7, 1))),
        (No, found(|evidence| evidence.runs = (1, 7))),
        (Caveat, set("not-compared", "yes")),
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
    ]
}

fn cases_of_processors() -> Vec<Case> {
    use Comparable::{Caveat, No, Yes};
    vec![
        (No, set("CPU time by its group", "0.50")),
        (Yes, set("CPU time by its group", "1.00")),
        (
            Yes,
            found(|evidence| {
                for facts in [&mut evidence.host, &mut evidence.target] {
                    facts.insert("CPU time by its group".into(), "0.50".into());
                }
            }),
        ),
        (
            Caveat,
            found(|evidence| evidence.cpu_times = Some((0.01, 9.8))),
        ),
        // Too little to say it.
        (
            Yes,
            found(|evidence| evidence.cpu_times = Some((0.001, 0.003))),
        ),
        (Caveat, set("processor", "Intel Xeon")),
        (Yes, set("processor", "UML")),
        // That of gVisor says nothing.
        (Yes, set("processor", "unknown")),
    ]
}

fn more_cases() -> Vec<Case> {
    use Comparable::{Caveat, No, Yes};
    vec![
        (
            Caveat,
            set(
                "processors of its VMM",
                "not kept on these processors: EPERM",
            ),
        ),
        (
            No,
            found(|evidence| evidence.too_short = Some((0.001, 0.004))),
        ),
        (Caveat, found(|evidence| evidence.untimed = 1)),
        (No, found(|evidence| evidence.swapped = 3.0)),
        (Caveat, found(|evidence| evidence.neighbours = Some(0.06))),
        (No, found(|evidence| evidence.host_neighbours = Some(0.3))),
        (Yes, found(|evidence| evidence.neighbours = Some(0.04))),
        (No, found(|evidence| evidence.dropped = (2, 8))),
        (No, found(|evidence| evidence.speeds = Some((1.06, 1.0)))),
        (Yes, found(|evidence| evidence.speeds = Some((0.98, 1.0)))),
        // The host itself is no steadier.
        (
            Yes,
            found(|evidence| {
                evidence.speeds = Some((1.06, 1.0));
                evidence.floor_of_speed = Some(0.07);
            }),
        ),
        (Caveat, set("memory", "1048576")),
        // It reads no more from a disk.
        (
            Yes,
            found(|evidence| {
                evidence.target.insert("memory".into(), "1048576".into());
                evidence.major_faults = Some((90.0, 99.0));
            }),
        ),
        (Caveat, set("memory by its group", "1048576")),
        (Caveat, set("kernel", "6.12")),
        // There is no difference that could be the kernel's.
        (
            Yes,
            found(|evidence| {
                evidence.target.insert("kernel".into(), "6.12".into());
                evidence.differs = false;
            }),
        ),
        (
            Caveat,
            set(
                "mitigations",
                "l1tf=Not affected; mds=Mitigation: Clear CPU buffers",
            ),
        ),
        (Caveat, set("hugepages", "always")),
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
    ]
}

#[test]
fn each_rule_finds_what_it_is_about_and_no_near_miss() {
    let cases = [cases(), cases_of_processors(), more_cases()].concat();
    for (expected, (verdict, text)) in &cases {
        assert_eq!(verdict, expected, "{text}");
    }
    let lines: Vec<_> = cases.iter().map(|(_, (_, text))| text.as_str()).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    no-run: none of its runs succeeded
    no-run: the measurement ended before a run that counts
    failed-runs: 1 of its 8 runs failed
    failed-runs: 7 of its 8 runs failed
    objects-not-compared: its objects were not compared with the host's
    other-objects: object a.o differs from the host's
    other-compiler: as of the target is another program than the host's
    other-compiler: cc1 of the target is another program than the host's: gcc 14.2.0, and gcc 12.2.0 on the host
    unequal-cpus: the target sees 2 CPUs, and runs on 1
    limited-cpu: its control group may use 0.50 of the 1 s of CPU time in each second


    works-elsewhere: 0.010 s of CPU time were counted for it, and 9.800 s for the host

    other-processor: its processor is Intel Xeon, and the host's AMD EPYC


    not-pinned: its VMM is not kept on these processors: EPERM
    too-short: its runs take 1.0 ms, and its lines say nothing below 4.0 ms
    too-short: 1 of its runs are so short that their begin and their end were read at once
    swap: 3 pages were swapped while it was measured
    neighbours: other programs had the processors in 6 % of the target's time
    neighbours: other programs had the processors in 30 % of the host's time

    neighbours: 2 of 8 rounds were dropped, since other programs had the processors
    processor-speed: before its runs, the same instructions took 6.0 % more time on the host


    unequal-memory: it has 1.0 GiB of memory, and the host 8.0

    limited-memory: its control group may have 1.0 GiB of memory
    other-kernel: its kernel is 6.12, and the host's 6.1

    other-mitigations: mitigations differ from the host's: mds
    other-huge-pages: its transparent huge pages are always, and the host's madvise
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

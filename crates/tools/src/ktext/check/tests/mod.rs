//! Rules on trees, written as small texts after those of real machines.

mod cases;
mod report;
mod scene;

use std::collections::BTreeSet;

use super::{Consequence, Cost, Image, Machine, Verdict, descriptions};
use brisk_lint::Finding;
use cases::CASES;
use scene::Scene;

fn of<'a>(rule: &str, findings: &'a [Finding<Consequence>]) -> Vec<&'a Finding<Consequence>> {
    let of = findings.iter().filter(|finding| finding.rule == rule);
    of.collect()
}

#[test]
fn a_good_machine_passes_all_rules() {
    let machine = Scene::new().read();
    assert_eq!(machine.findings(), []);
    assert_eq!(machine.unread, [""; 0]);
    assert_eq!(Verdict::of(&machine.findings()), Verdict::CouldGain);
}

#[test]
fn each_rule_finds_what_it_is_for_and_not_what_is_near_it() {
    let mut wrong = Vec::new();
    for case in CASES {
        let findings = |change: fn(&Scene)| {
            let scene = Scene::new();
            change(&scene);
            scene.read().findings()
        };
        let (bad, near) = (findings(case.bad), findings(case.near));
        let is_it = |finding: &&Finding<Consequence>| {
            finding.severity == case.consequence
                && finding.what.contains(case.words)
                && finding
                    .evidence
                    .as_deref()
                    .is_some_and(|text| !text.is_empty())
                && !finding.fix.to_string().is_empty()
        };
        if !of(case.rule, &bad).iter().any(is_it) {
            wrong.push(format!(
                "{}, {}: not found in {bad:#?}",
                case.rule, case.words
            ));
        }
        let near = of(case.rule, &near);
        if !near.is_empty() {
            wrong.push(format!("{}: found without it: {near:#?}", case.rule));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_rule_has_cases() {
    let rules: BTreeSet<_> = descriptions().iter().map(|rule| rule.id).collect();
    assert_eq!(rules.len(), descriptions().len(), "a name is there twice");
    let with_cases: BTreeSet<_> = CASES.iter().map(|case| case.rule).collect();
    assert_eq!(rules, with_cases);
}

#[test]
fn the_worst_finding_decides() {
    let scene = Scene::new();
    let verdict = |scene: &Scene| Verdict::of(&scene.read().findings());
    scene.file("sys/power/resume", "8:3\n");
    assert_eq!(verdict(&scene), Verdict::CouldGain);
    scene.file("proc/cmdline", "rodata=off\n");
    assert_eq!(verdict(&scene), Verdict::Refused);
    scene.memory(1, 0);
    assert_eq!(verdict(&scene), Verdict::NoGain);
    let findings = scene.read().findings();
    let order: Vec<_> = findings.iter().map(|one| one.severity).collect();
    assert!(order.is_sorted_by(|a, b| a >= b), "{order:?}");
}

#[test]
fn copies_cost_their_size_and_page_tables_on_each_other_node() {
    let cost = Cost::of(&Scene::new().read());
    // 16 MiB and 1 byte are 4097 pages, and 9 large pages' tables; 6 MiB 3; 3 MiB of modules 2.
    let expected = Cost {
        nodes: Some(1),
        text: Some((16 << 20) + 4096),
        rodata: Some(6 << 20),
        modules: Some(3 << 20),
        page_tables: Some((3 + 9 + 3 + 2) * 4096),
        processes: Some(2 * 4096),
    };
    assert_eq!(cost, expected);
    assert_eq!(cost.on_a_node(), Some((25 << 20) + 4096 * (1 + 17 + 2)));
}

#[test]
fn sizes_of_the_kernel_are_for_root() {
    let scene = Scene::new();
    scene.file(
        "proc/iomem",
        "00000000-00000000 : System RAM\n  00000000-00000000 : Kernel code\n",
    );
    let machine = scene.read();
    assert_eq!(machine.image, Image::default());
    assert_eq!(
        machine.unread,
        ["size of the kernel: /proc/iomem shows it to root alone"]
    );
    assert_eq!(Cost::of(&machine).on_a_node(), None);
    scene.file("proc/iomem", "  01000000-01ffffff : Kernel code\n");
    let machine = scene.read();
    assert_eq!(machine.image.text, Some(16 << 20));
    assert!(machine.unread[0].contains("read-only data"));
    for text in [
        "ffffffffffffffff-0 : Kernel code\n",
        "0-ffffffffffffffff : Kernel code\n",
        "2-1 : Kernel code\n",
        " : Kernel code\n",
        "Kernel code\n",
        "x-y : Kernel code\n",
    ] {
        scene.file("proc/iomem", text);
        assert_eq!(scene.read().image.text, None, "{text}");
    }
}

#[test]
fn of_an_empty_tree_nothing_is_known() {
    let root = tempfile::tempdir().unwrap();
    let machine = Machine::read(root.path());
    assert_eq!(Verdict::of(&machine.findings()), Verdict::NotKnown);
    let unread = machine.unread.join("\n");
    for words in ["/proc/modules", "processes", "/proc/iomem"] {
        assert!(unread.contains(words), "{unread}");
    }
    let text = super::text(&machine, &machine.findings());
    for words in [
        "release not known",
        "the NUMA nodes: not known",
        "the processors: not known",
        "modules not known",
        "Not known: what decides it cannot be read (2 findings).",
    ] {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn numbers_that_cannot_be_are_no_panic() {
    let scene = Scene::new();
    let huge = u64::MAX.to_string();
    scene.file(
        "proc/modules",
        &format!("a {huge} 0 - Live 0x0\nb {huge} 0 - Live 0x0\n"),
    );
    scene.node(0, "0-1", &huge, &huge, &format!("{huge} 1 2 3"));
    scene.node(1, "2-99999999", &huge, "-1", "");
    scene.file("sys/devices/system/node/node99999/cpulist", "0\n");
    scene.file("sys/devices/system/node/nodex/cpulist", "0\n");
    scene.file(
        "proc/iomem",
        "0-fffffffffffffffe : Kernel code\n0-1 : Kernel rodata\n",
    );
    let machine = scene.read();
    assert_eq!(machine.nodes.len(), 2);
    assert_eq!(Cost::of(&machine).on_a_node(), Some(u64::MAX));
    let text = super::text(&machine, &machine.findings());
    assert!(text.contains("node 0"), "{text}");
}

//! `brisk ktext locality` and `brisk ktext bench`, in machines of the kernel of the series.

use brisk_testkit::brisk_of;
use serde_json::Value;

/// Counts of a kind on a side of `brisk ktext locality`.
fn counts<'a>(report: &'a Value, side: &str, kind: &str) -> &'a Value {
    let counts = report[side]["counts"].as_array().unwrap();
    let found = counts.iter().find(|one| one["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind} {side}: {report:#}"))
}

fn of(nodes: u32, more: &[&str], kinds: &[&str]) {
    let nodes_word = nodes.to_string();
    let words = ["locality", "--format", "json", "--nodes", &nodes_word];
    let output = brisk_of!["ktext"].args(words).args(more).exits(0).text();
    let report: Value = serde_json::from_str(&output).unwrap();
    for kind in kinds {
        let (with, without) = (
            counts(&report, "with", kind),
            counts(&report, "without", kind),
        );
        println!("{nodes} nodes, {kind}: {with}\nwithout: {without}");
        let least = if *kind == "text" { 10_000_000 } else { 1_000 };
        assert!(with["local"].as_u64().unwrap() > least, "{with}");
        assert!(without["total"].as_u64().unwrap() > least, "{without}");
        assert!(with["share"].as_f64().unwrap() >= 0.99, "{with}");
        // All nodes work alike, and one has the text.
        let fair = 1.0 / f64::from(nodes);
        let share = without["share"].as_f64().unwrap();
        assert!((share - fair).abs() < 0.2, "{without}");
    }
    // The matrix has a row for the CPUs of each node.
    let rows = counts(&report, "with", "text")["cpus"].as_array().unwrap();
    assert_eq!(rows.len(), nodes as usize);
}

pub(super) fn of_two() {
    of(2, &[], &["text", "module"]);
}

pub(super) fn of_four() {
    of(4, &[], &["text", "module"]);
}

pub(super) fn of_data() {
    of(
        2,
        &["--read-only-data", "--turns", "2"],
        &["text", "rodata"],
    );
}

/// Instructions with replication and without, and the same twice without.
pub(super) fn costs() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("report.json");
    let words = ["bench", "--emulated", "--rounds", "6", "--operations"];
    let text = brisk_of!["ktext"]
        .args(words)
        .arg("kill,open")
        .arg("--output")
        .arg(&file)
        .exits(0)
        .text();
    println!("{text}");
    let report = brisk_testkit::read_report(&file);
    assert_eq!(report["environment"]["accelerator"], "tcg icount");
    for operation in ["kill", "open"] {
        assert!(text.contains(operation), "{text}");
        let values = |side: &str| brisk_testkit::values(&report, side, operation);
        for side in ["off", "on", "off again"] {
            let values = values(side);
            assert_eq!(values.len(), 6, "{report:#}");
            // A system call has some thousand instructions.
            assert!(values.iter().all(|value| (500.0..50_000.0).contains(value)));
        }
        let sum = |side: &str| values(side).iter().sum::<f64>();
        let ratio = sum("on") / sum("off");
        assert!((0.98..1.02).contains(&ratio), "{operation}: {ratio}");
    }
}

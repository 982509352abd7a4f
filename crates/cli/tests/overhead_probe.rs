//! The probe in several targets, and what a target lacks for a workload.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::Path;

use brisk_testkit::{Brisk, brisk_of, trial, trials};
use brisk_tools::overhead::probe::OPERATIONS;
use libtest_mimic::Arguments;
use serde_json::Value;
use tempfile::tempdir;

fn main() {
    let plain: [(_, fn()); 1] = [("a_guest_of_brisk_is_probed", || {
        probed("brisk:--accel tcg");
    })];
    let mut all = trials(None, plain);
    all.extend([
        trial("a_container_is_probed", missing("runc"), || probed("runc:")),
        trial("user_mode_linux_is_probed", missing("linux.uml"), || {
            probed("uml:")
        }),
        trial(
            "two_processors_interrupt_one_another",
            one_processor(),
            two_processors_interrupt_one_another,
        ),
        trial(
            "the_probe_runs_where_programs_are_allowed",
            not_root(),
            the_probe_runs_where_programs_are_allowed,
        ),
    ]);
    // One after another: each measures on one processor.
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, all).exit();
}

/// The reason not to run what needs a program.
fn missing(program: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).any(|directory| directory.join(program).exists());
    (!found).then(|| format!("without {program}"))
}

/// The reason not to mount anything.
fn not_root() -> Option<String> {
    let is_root = rustix::process::geteuid().is_root();
    (!is_root).then(|| "it mounts file systems, which needs root".to_owned())
}

/// The reason not to have two threads run at once.
fn one_processor() -> Option<String> {
    let count = std::thread::available_parallelism().unwrap().get();
    (count < 2).then(|| "with one CPU".to_owned())
}

/// `brisk overhead run` with a report, of one round.
fn overhead(report: &Path, words: &[&str]) -> Brisk {
    brisk_of![
        "overhead",
        "run",
        "--keep-disturbed",
        "--rounds=1",
        "--output"
    ]
    .arg(report)
    .args(words)
}

/// The probe, as short as it gets.
fn probe(report: &Path, words: &[&str]) -> Brisk {
    overhead(report, &["--workload=probe", "--probe-time=1"]).args(words)
}

fn read(report: &Path) -> Value {
    serde_json::from_slice(&fs::read(report).unwrap()).unwrap()
}

/// Values of the runs that count, in a metric of a target.
fn values(report: &Value, target: &str, metric: &str) -> Vec<f64> {
    let name = format!("{target}: {metric}");
    let series = report["series"].as_array().unwrap().iter();
    let found = series.filter(|series| series["name"] == *name);
    let samples = found.flat_map(|series| series["samples"].as_array().unwrap());
    let measured = samples.filter(|sample| sample["phase"] == "measured");
    measured
        .filter_map(|sample| sample["value"].as_f64())
        .collect()
}

/// The reason of the last run that failed.
fn reason(report: &Value, target: &str) -> String {
    let name = format!("{target}: time");
    let series = report["series"].as_array().unwrap().iter();
    let found = series.filter(|series| series["name"] == *name);
    let samples = found.flat_map(|series| series["samples"].as_array().unwrap());
    let mut reasons = samples.filter_map(|sample| sample["reason"].as_str());
    reasons.next_back().unwrap_or_default().to_owned()
}

/// Each operation is measured in a target, or it is said why not.
fn probed(kind: &str) {
    /// What depends on the host and the target.
    const MAY_LACK: [&str; 3] = ["memory-chase-huge", "ipi-mprotect", "net-loopback"];
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let picture = dir.path().join("report.svg");
    let target = format!("x={kind}");
    let ended = probe(&path, &["--target", &target, "--svg"])
        .arg(&picture)
        .exits(0);
    let report = read(&path);
    let facts = &report["environment"]["extra"];
    for side in ["host", "host again", "x"] {
        for operation in OPERATIONS {
            let name = operation.name;
            let values = values(&report, side, name);
            let skipped = &facts[format!("{side}: {name}")];
            match &values[..] {
                [] if MAY_LACK.contains(&name) => {
                    let reason = skipped.as_str().unwrap();
                    assert!(reason.starts_with("skipped: "), "{side}: {name}: {reason}");
                    assert!(ended.text().contains(reason), "{}", ended.text());
                }
                [value] => {
                    assert!(*value > 0.0 && *value < 1.0, "{side}: {name}: {value}");
                    assert!(skipped.is_null(), "{side}: {name}: {skipped}");
                }
                values => panic!("{side}: {name}: {values:?}, {skipped}"),
            }
        }
    }
    let compared: Vec<_> = report["comparisons"].as_array().unwrap().iter().collect();
    let is_compared = |name: &str| compared.iter().any(|one| one["b"] == *name);
    assert!(is_compared("x: switch-pipe"), "{compared:?}");
    assert!(!is_compared("x: time"), "its length is chosen");
    for operation in OPERATIONS {
        let begin = format!("{} ", operation.name);
        let text = ended.text();
        let mut lines = text.lines();
        assert!(lines.any(|line| line.starts_with(&begin)), "{begin}");
    }
    let picture = fs::read_to_string(picture).unwrap();
    assert!(picture.contains("x: what operations cost"));
    assert!(picture.contains("fault-anonymous"));
}

fn two_processors_interrupt_one_another() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    probe(&path, &["--cpus=0-1", "--target=x=host"]).exits(0);
    assert_eq!(values(&read(&path), "x", "ipi-mprotect").len(), 1);
}

fn the_probe_runs_where_programs_are_allowed() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let target = |name: &str, places: &str| {
        format!(
            "{name}=command:unshare --mount sh -c 'for p in {places}; do mount -t tmpfs -o noexec \
             tmpfs $p || exit; done; exec \"$@\"' sh"
        )
    };
    let words = [
        "--target",
        &target("one", "/dev/shm"),
        "--target",
        &target("both", "/dev/shm /tmp"),
    ];
    probe(&path, &words).exits(0);
    let report = read(&path);
    assert_eq!(values(&report, "one", "process-exec").len(), 1);
    let reason = reason(&report, "both");
    for part in ["cannot run the probe", "noexec", "Permission denied"] {
        assert!(reason.contains(part), "{reason}");
    }
}

//! Boots are explained, compared, followed over commits, and tuned.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::Path;
use std::process::Command;

use brisk_testkit::brisk_of;
use serde_json::Value;
use tempfile::tempdir;

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn notes(report: &Value) -> String {
    let notes = report["notes"].as_array().unwrap().iter();
    notes
        .map(|n| n.as_str().unwrap())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_boot_is_explained_in_words_and_pictures() {
    let home = tempdir().unwrap();
    let file = |name: &str| home.path().join(name);
    let run = brisk_of![
        "boot", "analyze", "--accel", "tcg", "--passes", "2", "--width", "100"
    ]
    .arg("--output")
    .arg(file("report.json"))
    .arg("--svg")
    .arg(file("picture.svg"))
    .arg("--html")
    .arg(file("page.html"))
    .arg("--perfetto")
    .arg(file("trace.json"))
    .exits(0);
    let text = run.text();
    for part in [
        "firmware",
        "kernel",
        "initcalls",
        "command",
        "shutdown",
        "watching costs",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let report = read(&file("report.json"));
    let activities = report["timeline"]["activities"].as_array().unwrap();
    let initcalls = activities
        .iter()
        .filter(|a| a["kind"] == "initcall")
        .count();
    assert!(initcalls > 200, "{initcalls} initcalls");
    for name in ["inet_init", "mount /proc"] {
        assert!(activities.iter().any(|a| a["name"] == name), "{name}");
    }
    assert!(
        fs::read_to_string(file("picture.svg"))
            .unwrap()
            .contains("inet_init")
    );
    assert!(
        fs::read_to_string(file("page.html"))
            .unwrap()
            .contains("inet_init")
    );
    let trace = read(&file("trace.json"));
    assert!(trace["traceEvents"].as_array().unwrap().len() > 200);
}

/// Of two boots every part has the same count.
#[test]
fn a_boot_is_explained_in_instructions() {
    let home = tempdir().unwrap();
    let output = home.path().join("report.json");
    let run = brisk_of![
        "boot",
        "analyze",
        "--clock",
        "instructions",
        "--passes",
        "2"
    ]
    .args(["--output"])
    .arg(&output)
    .exits(0);
    let text = run.text();
    for part in ["inet_init", "Minstr", "what the firmware executed"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let report = read(&output);
    let series = report["series"].as_array().unwrap();
    assert!(series.len() > 2, "{series:?}");
    for one in series {
        let samples = one["samples"].as_array().unwrap();
        assert_eq!(samples[0]["value"], samples[1]["value"], "{}", one["name"]);
    }
}

#[test]
fn any_qemu_is_explained_by_its_console() {
    let home = tempdir().unwrap();
    let output = home.path().join("report.json");
    let kernel = fs::read_dir("/boot").unwrap().map(|e| e.unwrap().path());
    let kernel = kernel
        .filter(|p| p.display().to_string().contains("/vmlinuz-"))
        .max()
        .unwrap();
    let run = brisk_of![
        "boot", "analyze", "--passes", "1", "--width", "100", "--output", output
    ]
    .args([
        "--",
        "qemu-system-x86_64",
        "-nodefaults",
        "-display",
        "none",
        "-no-reboot",
    ])
    .args(["-serial", "stdio", "-m", "512", "-kernel"])
    .arg(kernel)
    .args([
        "-append",
        "console=ttyS0 panic=-1 initcall_debug ignore_loglevel",
    ])
    .exits(0);
    let text = run.text();
    assert!(
        text.contains("kernel") && text.contains("initcalls"),
        "{text}"
    );
}

#[test]
fn two_configurations_are_compared_and_the_difference_is_explained() {
    let home = tempdir().unwrap();
    let output = home.path().join("report.json");
    let _ = brisk_of![
        "boot", "compare", "--runs", "2", "--warmup", "0", "--traces", "1"
    ]
    .args([
        "--a",
        "--accel tcg --machine q35",
        "--b",
        "--accel tcg --machine pc-no-acpi",
    ])
    .arg("--output")
    .arg(&output)
    .exits(0);
    let report = read(&output);
    assert_eq!(report["comparisons"].as_array().unwrap().len(), 1);
    let notes = notes(&report);
    assert!(notes.contains("acpi_init"), "{notes}");
}

#[test]
fn reports_of_different_machines_are_compared_only_by_force() {
    let home = tempdir().unwrap();
    let (a, b) = (home.path().join("a.json"), home.path().join("b.json"));
    let _ = brisk_of![
        "boot", "bench", "--accel", "tcg", "--runs", "1", "--warmup", "0"
    ]
    .arg("--output")
    .arg(&a)
    .exits(0);
    let text = fs::read_to_string(&a).unwrap();
    fs::write(
        &b,
        text.replace(r#""accelerator": "tcg""#, r#""accelerator": "kvm""#),
    )
    .unwrap();
    let compare = || {
        brisk_of![
            "boot",
            "compare",
            &a,
            &b,
            "--output",
            home.path().join("c.json")
        ]
    };
    compare()
        .exits(125)
        .explains(&["cannot be compared", "accelerator: tcg against kvm"]);
    let _ = compare().arg("--force").exits(0);
    assert!(notes(&read(&home.path().join("c.json"))).contains("not comparable"));
}

fn git(repository: &Path, words: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(repository)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args([
            "-c",
            "user.name=brisk",
            "-c",
            "user.email=brisk@example.org",
        ])
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_commit_that_made_boots_longer_is_found() {
    let home = tempdir().unwrap();
    let repository = home.path().join("repository");
    fs::create_dir(&repository).unwrap();
    git(&repository, &["init", "-q", "-b", "main"]);
    for number in 0..8 {
        let line = if number < 5 { "" } else { "log_buf_len=32M" };
        fs::write(repository.join("line"), line).unwrap();
        fs::write(repository.join("number"), number.to_string()).unwrap();
        git(&repository, &["add", "-A"]);
        git(
            &repository,
            &["commit", "-q", "-m", &format!("commit {number}")],
        );
    }
    fs::write(repository.join("number"), "changed by the user").unwrap();
    let before = git(&repository, &["status", "--porcelain"]);
    let svg = home.path().join("plot.svg");
    let run = brisk_of!["boot", "range", &repository, "main~7..main", "--bisect"]
        .args([
            "--clock",
            "instructions",
            "--build",
            "cp line built",
            "--fresh",
        ])
        .args(["--artifact", "file=built", "--svg"])
        .arg(&svg)
        .exits(0);
    let text = run.text();
    assert!(text.contains("commit 5, found with"), "{text}");
    assert!(fs::read_to_string(&svg).unwrap().contains("<svg"));
    assert_eq!(git(&repository, &["status", "--porcelain"]), before);
    assert_eq!(git(&repository, &["worktree", "list"]).lines().count(), 1);
}

#[test]
fn a_guest_that_cannot_do_what_it_must_is_not_tuned() {
    let panic = "echo c > /proc/sysrq-trigger; sleep 100000";
    for (check, text) in [
        ("exit 3", "exited with 3"),
        (panic, "sysrq triggered crash"),
    ] {
        brisk_of!["boot", "tune", "--accel", "tcg", "--no-profile"]
            .args(["--check", check, "--timeout", "120s"])
            .exits(125)
            .explains(&["does not work before anything is tuned", text]);
    }
}

#[test]
fn a_ledger_to_compare_with_is_read_before_anything_boots() {
    let home = tempdir().unwrap();
    let ledger = home.path().join("ledger.json");
    let tune = || brisk_of!["boot", "tune", "--no-profile", "--against", &ledger].exits(125);
    tune().explains(&["cannot read", "ledger.json"]);
    fs::write(&ledger, "{}").unwrap();
    tune().explains(&["ledger.json is no ledger of brisk boot tune"]);
    fs::write(&ledger, r#"{"schema": "brisk.tune/9", "ledger": []}"#).unwrap();
    tune().explains(&["is a ledger of brisk.tune/9, not brisk.tune/1"]);
}

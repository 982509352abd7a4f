//! Boots are measured, exactly where that is possible.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::Path;

use brisk_testkit::{Brisk, Finished, Signal, brisk_of};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

fn bench(words: &[&str], home: &TempDir) -> Brisk {
    brisk_of!["boot", "bench", "--output", home.path().join("report.json")]
        .args(["--accel", "tcg", "--warmup", "0"])
        .args(words)
}

fn report(home: &TempDir) -> Value {
    read(&home.path().join("report.json"))
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn values(report: &Value) -> Vec<f64> {
    let samples = report["series"][0]["samples"].as_array().unwrap();
    samples.iter().filter_map(|s| s["value"].as_f64()).collect()
}

/// One instruction more or less would be seen.
#[test]
fn instructions_are_the_same_at_every_boot_and_differ_with_the_command_line() {
    let count = |words: &[&str]| {
        let home = tempdir().unwrap();
        let all = [&["--clock", "instructions", "--until", "exit"], words].concat();
        let run = bench(&all, &home).exits(0);
        assert!(
            run.text().contains("boots, 1 distinct value"),
            "{}",
            run.text()
        );
        values(&report(&home))
    };
    let plain = count(&["--runs", "3"]);
    assert_eq!(plain.len(), 3);
    assert!(plain.windows(2).all(|pair| pair[0] == pair[1]), "{plain:?}");
    // So many that what they cost is more than what they move, such as the timer's ticks.
    let unknown = ["--append", "brisk.unknown=1"].repeat(10);
    let longer = count(&[&["--runs", "2"][..], &unknown].concat());
    assert!(
        longer[0] > plain[0] && longer[0] < plain[0] * 1.01,
        "{longer:?}"
    );
}

#[test]
fn the_end_of_a_boot_can_be_chosen() {
    for until in ["kernel", "init", "ready", "exit"] {
        let home = tempdir().unwrap();
        let run = bench(&["--runs", "1", "--until", until], &home).exits(0);
        assert!(
            run.text().contains(&format!("exec to {until}")),
            "{}",
            run.text()
        );
        assert!(values(&report(&home))[0] > 0.0);
    }
}

/// A breakpoint ends the boot: nothing in the guest does.
#[test]
fn the_kernels_entry_is_counted_on_every_kernel() {
    for kernel in kernels() {
        let count = |until: &str, more: &[&str]| {
            let home = tempdir().unwrap();
            let words = ["--clock", "instructions", "--runs", "2", "--until", until];
            let words = [&words[..], &["--kernel", &kernel], more].concat();
            let run = bench(&words, &home).exits(0);
            let text = run.text();
            assert!(
                text.contains("2 boots, 1 distinct value"),
                "{kernel}: {text}"
            );
            values(&report(&home))[0]
        };
        let own = count("kernel", &[]);
        assert!(0.0 < own && own < count("init", &[]), "{kernel}: {own}");
        // SeaBIOS and a bzImage, which is entered elsewhere.
        let plain = count("kernel", &["--machine", "q35", "--optimisations", "none"]);
        assert!(plain > own, "{kernel}: {plain}");
    }
}

#[test]
fn the_entry_of_a_command_lines_kernel_is_counted() {
    let line = [
        "--until",
        "kernel",
        "--clock",
        "instructions",
        "--runs",
        "2",
        "--",
    ];
    let line = [
        &line[..],
        &["qemu-system-x86_64", "-nodefaults", "-display", "none"],
    ]
    .concat();
    let home = tempdir().unwrap();
    let run = bench(&[&line[..], &["-kernel", kernel()]].concat(), &home).exits(0);
    let text = run.text();
    assert!(text.contains("2 boots, 1 distinct value"), "{text}");
    assert!(
        text.contains("its decompressor's startup_32 at 0x100000"),
        "{text}"
    );
    assert!(values(&report(&home))[0] > 0.0);
    bench(&line, &home)
        .exits(125)
        .explains(&["with -kernel FILE"]);
    bench(&[&line[..], &["-kernel", "/bin/sh"]].concat(), &home)
        .exits(125)
        .explains(&["/bin/sh", "not a kernel"]);
    bench(
        &[&line[..], &["-enable-kvm", "-kernel", kernel()]].concat(),
        &home,
    )
    .exits(125)
    .explains(&["leave KVM out"]);
}

/// There is no VM that could come to it.
#[test]
fn a_guest_that_does_not_come_to_its_kernel_is_not_a_number() {
    let home = tempdir().unwrap();
    let words = [
        "--until",
        "kernel",
        "--clock",
        "instructions",
        "--runs",
        "1",
    ];
    let qemu = [
        "--",
        "qemu-system-x86_64",
        "-nodefaults",
        "-display",
        "none",
        "-M",
        "none",
    ];
    let words = [
        &words[..],
        &["--timeout", "10s"],
        &qemu,
        &["-kernel", kernel()],
    ]
    .concat();
    bench(&words, &home)
        .exits(125)
        .explains(&["no boot came to its end"]);
    assert!(values(&report(&home)).is_empty());
}

#[test]
fn what_cannot_be_counted_says_so() {
    let home = tempdir().unwrap();
    let qemu = ["--", "qemu-system-x86_64", "-kernel", kernel()];
    let words = ["--clock", "instructions", "--until", "exit"];
    bench(&[&words[..], &qemu].concat(), &home)
        .exits(125)
        .explains(&["--until kernel"]);
}

#[test]
fn a_root_that_others_serve_is_not_called_deterministic() {
    let home = tempdir().unwrap();
    let root = tempdir().unwrap();
    brisk_testkit::tree(root.path());
    let root = root.path().to_str().unwrap();
    let words = [
        "--clock",
        "instructions",
        "--until",
        "ready",
        "--runs",
        "4",
        "--root",
        root,
    ];
    let run = bench(&words, &home).exits(0);
    let text = run.text();
    assert!(
        text.contains("served by another process") || text.contains("1 distinct value"),
        "{text}"
    );
}

/// SeaBIOS writes its messages to port 0x402 and, without graphics, its name to the serial port.
#[test]
fn any_qemu_can_be_measured_by_a_marker() {
    // A kernel without a root gives up and resets.
    let panic = [
        "-no-reboot",
        "-m",
        "512",
        "-kernel",
        kernel(),
        "-append",
        "panic=-1",
    ];
    for (marker, options) in [
        ("port:0x402", &["-nodefaults", "-display", "none"][..]),
        ("console:SeaBIOS", &["-nographic", "-net", "none"][..]),
        (
            "qmp:SHUTDOWN",
            &[&["-display", "none"][..], &panic].concat()[..],
        ),
    ] {
        let home = tempdir().unwrap();
        let qemu = [&["--", "qemu-system-x86_64"], options].concat();
        let words = [&["--runs", "2", "--ready", marker][..], &qemu].concat();
        let _ = bench(&words, &home).exits(0);
        let report = report(&home);
        assert_eq!(values(&report).len(), 2, "{marker}");
        assert_eq!(report["environment"]["accelerator"], "tcg");
    }
}

/// Those in /boot, the newest last.
fn kernels() -> Vec<String> {
    let mut kernels: Vec<_> = fs::read_dir("/boot")
        .unwrap()
        .map(|entry| entry.unwrap().path().display().to_string())
        .filter(|path| path.contains("/vmlinuz-"))
        .collect();
    kernels.sort();
    kernels
}

fn kernel() -> &'static str {
    kernels().pop().unwrap().leak()
}

#[test]
fn reports_go_where_they_are_told_to() {
    let home = tempdir().unwrap();
    let _ = brisk_of![
        "boot", "bench", "--accel", "tcg", "--warmup", "0", "--runs", "1"
    ]
    .env("BRISK_STATE_DIR", home.path())
    .exits(0);
    let reports = fs::read_dir(home.path().join("reports")).unwrap();
    let files: Vec<_> = reports.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(values(&read(&files[0])).len(), 1);
}

/// Has no number, and why.
#[track_caller]
fn failed(finished: Finished, home: &TempDir) -> Vec<String> {
    let _ = finished.exited(125).explains(&["no boot came to its end"]);
    let report = report(home);
    assert!(values(&report).is_empty());
    let samples = report["series"][0]["samples"].as_array().unwrap();
    let reasons = samples.iter().map(|s| s["reason"].as_str().unwrap());
    reasons.map(str::to_owned).collect()
}

#[test]
fn a_qemu_that_fails_is_not_a_number() {
    for marker in [&[][..], &["--ready", "console:x"]] {
        let home = tempdir().unwrap();
        let words = ["--runs", "5", "--until", "exit"];
        let qemu = ["--", "qemu-system-x86_64", "-M", "nonsense"];
        let run = bench(&[&words[..], marker, &qemu].concat(), &home).spawn();
        let reasons = failed(run.wait(), &home);
        assert_eq!(reasons.len(), 3, "hopeless after three");
        assert!(
            reasons[0].contains("unsupported machine type"),
            "{reasons:?}"
        );
    }
}

/// The end of QEMU is what is waited for, and comes all the same.
#[test]
fn a_guest_that_panics_is_not_a_number() {
    let home = tempdir().unwrap();
    let words = ["--runs", "1", "--until", "exit", "--append", "mem=48M"];
    let reasons = failed(bench(&words, &home).spawn().wait(), &home);
    let reason = &reasons[0];
    assert!(
        reason.contains("before the command did") && reason.contains("Kernel panic - not syncing"),
        "{reason}"
    );
}

#[test]
fn an_end_without_the_marker_is_not_a_number() {
    let home = tempdir().unwrap();
    let words = ["--runs", "1", "--until", "exit"];
    let qemu = ["--", "qemu-system-x86_64", "-display", "none", "-no-reboot"];
    let guest = ["-m", "512", "-kernel", kernel(), "-append", "panic=-1"];
    let with = |marker| {
        let marker = ["--ready", marker];
        bench(&[&words[..], &marker, &qemu, &guest].concat(), &home).spawn()
    };
    let reasons = failed(with("console:nothing says so").wait(), &home);
    assert!(
        reasons[0].contains("QEMU ended before ready"),
        "{reasons:?}"
    );
    let _ = with("qmp:SHUTDOWN").wait().exited(0);
    assert_eq!(report(&home)["series"][0]["name"], "exec to exit");
    assert_eq!(values(&report(&home)).len(), 1);
}

#[test]
fn a_qemu_that_is_killed_is_not_a_number() {
    let home = tempdir().unwrap();
    let firmware = home.path().join("firmware");
    let words = ["--runs", "1", "--until", "exit"];
    let qemu = ["--", "qemu-system-x86_64", "-nodefaults", "-display"];
    let log = format!("file:{}", firmware.display());
    let run = bench(
        &[&words[..], &qemu, &["none", "-debugcon", &log]].concat(),
        &home,
    );
    let run = run.args(["-global", "isa-debugcon.iobase=0x402"]).spawn();
    brisk_testkit::until("the guest runs", || {
        fs::metadata(&firmware)
            .is_ok_and(|file| file.len() > 0)
            .then_some(())
    });
    run.process("qemu-system").signal(Signal::KILL);
    assert_eq!(failed(run.wait(), &home), ["signal 9 ended QEMU"]);
}

#[test]
fn an_interrupted_measurement_keeps_what_it_has_and_leaves_nothing() {
    let home = tempdir().unwrap();
    let file = home.path().join("report.json");
    let run = bench(&["--runs", "1000"], &home).spawn();
    brisk_testkit::until("a boot is in the report", || file.exists().then_some(()));
    run.signal(Signal::INT);
    let _ = run.wait().exited(130).explains(&["interrupted"]);
    assert!(!values(&report(&home)).is_empty());
}

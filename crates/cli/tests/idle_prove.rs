//! Fixes are proven by starting guests with and without them.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::Path;

use brisk_testkit::{Brisk, Finished, IdleKernel, Libvirt, brisk_of, trial, trials};
use libtest_mimic::Arguments;
use serde_json::Value;
use tempfile::tempdir;

fn main() {
    let plain: [(_, fn()); 5] = [
        (
            "a_script_that_starts_qemu_is_refused",
            a_script_that_starts_qemu_is_refused,
        ),
        (
            "an_hpet_wakes_qemu_and_a_placebo_does_not",
            an_hpet_wakes_qemu_and_a_placebo_does_not,
        ),
        (
            "a_kernel_that_ticks_wakes_qemu",
            a_kernel_that_ticks_wakes_qemu,
        ),
        (
            "an_io_thread_that_polls_takes_a_cpu",
            an_io_thread_that_polls_takes_a_cpu,
        ),
        (
            "guests_that_end_are_no_numbers",
            guests_that_end_are_no_numbers,
        ),
    ];
    let mut all = trials(None, plain);
    let without = IdleKernel::with_usb().err();
    all.push(trial(
        "a_tablet_in_a_uhci_wakes_qemu",
        without,
        a_tablet_in_a_uhci_wakes_qemu,
    ));
    let domain = "a_domain_is_tried_and_keeps_its_definition";
    all.push(trial(
        domain,
        Libvirt::forbidden(),
        a_domain_is_tried_and_keeps_its_definition,
    ));
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}

const IDLE: &str = "exec sleep 1000000";

/// Proves the changes of these rules in a guest that runs this script; the report.
fn prove(kernel: &IdleKernel, script: &str, append: &str, rules: &[&str], words: &[&str]) -> Value {
    let dir = tempdir().unwrap();
    let initramfs = kernel.initramfs(dir.path(), script);
    let report = dir.path().join("report.json");
    let rules = rules.iter().map(|rule| format!("--rule={rule}"));
    let settings = "--rounds=2 --boot=15s --settle=9s --time=6s".split(' ');
    brisk_of!("idle")
        .arg("prove")
        .args(settings)
        .args(rules)
        .arg("--output")
        .arg(&report)
        .args([
            "--",
            "qemu-system-x86_64",
            "-accel",
            "tcg",
            "-m",
            "256M",
            "-nodefaults",
        ])
        .args(["-display", "none"])
        .args(words)
        .args(["-kernel", text(&kernel.image), "-initrd", text(&initramfs)])
        .args(["-append", append])
        .exits(0);
    serde_json::from_slice(&fs::read(report).unwrap()).unwrap()
}

/// The values of a series.
fn values(report: &Value, side: &str, metric: &str) -> Vec<f64> {
    let name = format!("{side}: {metric}");
    let all = report["series"].as_array().unwrap();
    let series = all.iter().find(|series| series["name"] == *name).unwrap();
    let samples = series["samples"].as_array().unwrap();
    let value = |sample: &Value| sample["value"].as_f64();
    let found: Vec<_> = samples.iter().filter_map(value).collect();
    assert_eq!(found.len(), samples.len(), "{name}: {samples:?}");
    found
}

/// The median of a guest before its change, over the most of it afterwards. Not the least: of some
/// starts, one comes up without the timer that its change is about.
fn factor(report: &Value, side: &str, metric: &str) -> f64 {
    let before = [
        values(report, "before", metric),
        values(report, "before again", metric),
    ];
    let mut before = before.concat();
    before.sort_by(f64::total_cmp);
    let median = f64::midpoint(before[1], before[2]);
    let most = values(report, side, metric).into_iter().fold(0.0, f64::max);
    median / most
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn an_hpet_wakes_qemu_and_a_placebo_does_not() {
    // The kernel has no driver for a balloon, so what becomes of it changes nothing.
    let rules = ["hpet", "balloon-stats"];
    let kernel = IdleKernel::installed();
    let words = "-M pc -device virtio-balloon-pci,guest-stats-polling-interval=5";
    let words: Vec<_> = words.split(' ').collect();
    let report = prove(&kernel, IDLE, "quiet", &rules, &words);
    let hpet = factor(&report, "hpet", "wakeups");
    assert!(hpet >= 4.0, "{hpet}: {report:#}");
    let placebo = factor(&report, "balloon-stats", "wakeups");
    assert!((0.5..2.0).contains(&placebo), "{placebo}: {report:#}");
    let notes = report["notes"].to_string();
    // Two rounds cannot decide that there is no difference; six do.
    let words = [
        "balloon-stats: no difference:",
        "balloon-stats: not decided:",
    ];
    assert!(words.iter().any(|words| notes.contains(words)), "{notes}");
}

fn a_kernel_that_ticks_wakes_qemu() {
    let kernel = IdleKernel::installed();
    let machine = ["-M", "q35,hpet=off"];
    let report = prove(&kernel, IDLE, "quiet nohz=off", &["nohz"], &machine);
    let vcpus = factor(&report, "nohz", "vCPUs");
    assert!(vcpus >= 15.0, "{vcpus}: {report:#}");
    assert!(factor(&report, "nohz", "CPU") > 2.0, "{report:#}");
}

fn an_io_thread_that_polls_takes_a_cpu() {
    let reads = "while :; do dd if=/dev/vda of=/dev/null bs=512 count=1 iflag=direct 2>/dev/null; \
                 usleep 5000; done";
    let dir = tempdir().unwrap();
    let disk = dir.path().join("disk");
    fs::write(&disk, vec![0; 1 << 20]).unwrap();
    let node = format!(
        "driver=file,filename={},node-name=disk,read-only=on",
        text(&disk)
    );
    let words = format!(
        "-M q35,hpet=off -object iothread,id=io1,poll-max-ns=10000000 -blockdev {node} -device \
         virtio-blk-pci,drive=disk,iothread=io1"
    );
    let words: Vec<_> = words.split(' ').collect();
    let kernel = IdleKernel::installed();
    let report = prove(&kernel, reads, "quiet", &["iothread-poll"], &words);
    let polled = factor(&report, "iothread-poll", "CPU of I/O threads");
    assert!(polled >= 2.0, "{polled}: {report:#}");
}

fn a_tablet_in_a_uhci_wakes_qemu() {
    // A device is looked at while somebody has it open.
    let open = "while ! ls /dev/input/event* > /dev/null 2>&1; do sleep 1; done\n\
                for event in /dev/input/event*; do cat $event > /dev/null & done\nwait";
    let kernel = IdleKernel::with_usb().unwrap();
    let machine = ["-M", "pc,hpet=off", "-usb", "-device", "usb-tablet"];
    let report = prove(&kernel, open, "quiet", &["usb-uhci"], &machine);
    let uhci = factor(&report, "usb-uhci", "main thread");
    assert!(uhci >= 15.0, "{uhci}: {report:#}");
}

fn guests_that_end_are_no_numbers() {
    let dir = tempdir().unwrap();
    let report = dir.path().join("report.json");
    let ended: Finished = brisk_of!("idle")
        .args([
            "prove",
            "--rounds=3",
            "--boot=10s",
            "--settle=3s",
            "--time=1s",
            "--output",
        ])
        .arg(&report)
        .args([
            "--",
            "qemu-system-x86_64",
            "-M",
            "pc",
            "-device",
            "no-such-device",
        ])
        .exits(125)
        .explains(&["no guest could be measured", "no-such-device"]);
    let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    let failures = report["series"].to_string();
    assert!(failures.contains("no-such-device"), "{failures}");
    let samples = report["series"][0]["samples"].as_array().unwrap();
    assert!(samples.iter().all(|sample| sample["value"].is_null()));
    assert!(!ended.text().contains("less"), "{}", ended.text());
}

fn a_script_that_starts_qemu_is_refused() {
    let dir = tempdir().unwrap();
    let script = dir.path().join("qemu-system-x86_64");
    brisk_testkit::script(&script, "#!/bin/sh\nsleep 4321\n");
    let ended = brisk_of!("idle")
        .args([
            "prove",
            "--rounds=1",
            "--boot=1s",
            "--settle=0",
            "--time=1s",
            "--output",
        ])
        .arg(dir.path().join("report.json"))
        .arg("--")
        .arg(&script)
        .args(["-M", "pc"])
        .exits(125);
    assert!(ended.stderr.contains("is not a QEMU"), "{}", ended.stderr);
}

fn a_domain_is_tried_and_keeps_its_definition() {
    let dir = tempdir().unwrap();
    let libvirt = Libvirt::start();
    let home = libvirt.directory();
    let kernel = IdleKernel::installed();
    let initramfs = kernel.initramfs(dir.path(), IDLE);
    // Where the QEMU of the session may read it.
    let place = |from: &Path, name: &str| {
        let to = home.join(name);
        fs::copy(from, &to).unwrap();
        text(&to).to_owned()
    };
    let (image, initramfs) = (
        place(&kernel.image, "kernel"),
        place(&initramfs, "initramfs"),
    );
    libvirt.define(&format!(
        "<domain type='qemu'><name>web</name><memory unit='MiB'>256</memory><os><type \
         arch='x86_64' machine='pc'>hvm</type><kernel>{image}</kernel><initrd>{initramfs}</initrd>\
         <cmdline>quiet</cmdline></os><features><acpi/></features></domain>"
    ));
    let before = libvirt.virsh(&["dumpxml", "--inactive", "web"]);
    let report = dir.path().join("report.json");
    let uri = libvirt.uri();
    let words = [
        "prove",
        "--domain",
        "web",
        "--connect",
        &uri,
        "--rule=hpet",
        "--rounds=1",
    ];
    let brisk: Brisk = brisk_of!("idle").args(words);
    brisk
        .args([
            "--boot=15s",
            "--settle=6s",
            "--time=4s",
            "--shutdown=0",
            "--output",
        ])
        .arg(&report)
        .exits(0);
    assert_eq!(libvirt.virsh(&["dumpxml", "--inactive", "web"]), before);
    assert_eq!(libvirt.virsh(&["domstate", "web"]), "shut off");
    let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    // libvirt's QEMU is 7.2 on Debian 12, in which the HPET rests, so no factor is known.
    for side in ["before", "before again", "hpet"] {
        assert_eq!(values(&report, side, "wakeups").len(), 1);
    }
}

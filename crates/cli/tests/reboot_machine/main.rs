//! `brisk reboot` on a Debian machine with systemd and GRUB, in QEMU without KVM: its package is
//! installed, VMs run in it, and it is restarted.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

mod faults;
mod interrupted;
mod kept;
mod memory;
mod once;
mod rehearsed;
mod repeated;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use brisk_testkit::{
    CHECK_MEMORY, Computer, MEMORY_STATE, STOPPED, STOPPING, package_disk, rounds, times, trials,
};
use kept::Kept;
use libtest_mimic::Arguments;
use serde_json::Value;

fn main() {
    let arguments = Arguments::from_args();
    // One at a time: each has two processors.
    let arguments = Arguments {
        test_threads: Some(1),
        ..arguments
    };
    let lacks = Computer::files().err().or_else(without_xtask);
    // Each takes many minutes: machines in a machine, without KVM.
    let long = lacks.clone().or_else(|| {
        let is_soak = times(0, 1) > 0;
        (!is_soak).then(|| "make soak runs it".to_owned())
    });
    let mut all = trials(
        lacks,
        [("a_machine_restarts_without_its_firmware", restarts as fn())],
    );
    all.extend(trials(
        long,
        [
            ("vms_go_on_over_warm_and_cold_restarts", vms_go_on as fn()),
            ("memory_of_vms_stays_in_ram", memory::stays),
            (
                "memory_of_vms_stays_over_many_restarts",
                memory::stays_over_many_restarts,
            ),
            (
                "memory_in_ram_alone_is_written_for_another_restart",
                memory::is_written_for_another_restart,
            ),
            (
                "memory_in_another_place_or_none_is_not_used",
                memory::is_not_used_elsewhere,
            ),
            (
                "a_kernel_that_panics_is_barred",
                a_kernel_that_panics_is_barred,
            ),
            (
                "a_kernel_that_hangs_ends_in_the_firmware",
                a_kernel_that_hangs,
            ),
            ("a_killed_restart_is_undone", faults::killed),
            (
                "a_one_shot_choice_that_fails_ends_in_the_default",
                once::comes_back_in_the_default,
            ),
            (
                "a_one_shot_choice_is_restored_or_left_to_grub",
                once::is_restored_or_left_to_grub,
            ),
            (
                "a_watchdog_that_nothing_would_stop_is_not_armed",
                once::nothing_would_stop_the_watchdog,
            ),
            (
                "vms_go_on_when_a_restart_is_interrupted",
                interrupted::go_on,
            ),
            ("a_power_cut_leaves_a_machine_that_boots", faults::power_cut),
            (
                "rehearsals_agree_with_reality",
                rehearsed::agree_with_reality,
            ),
            ("one_restart_after_the_other", repeated::restarts),
            (
                "the_older_call_loads_what_the_newer_cannot",
                repeated::older_call,
            ),
            ("services_of_kexec_tools_do_nothing", repeated::kexec_tools),
            (
                "vms_go_down_while_others_are_started",
                repeated::goes_down_early,
            ),
            (
                "a_kernel_that_hangs_early_ends_in_the_firmware",
                repeated::hangs_early,
            ),
        ],
    ));
    let conclusion = libtest_mimic::run(&arguments, all);
    if let Some(directory) = DIRECTORY.get() {
        fs::remove_dir_all(directory).unwrap();
    }
    conclusion.exit();
}

static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();

/// Directory of the disks, while the tests run.
fn directory() -> &'static Path {
    let new = || {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        directory.keep()
    };
    DIRECTORY.get_or_init(new)
}

/// Disk of the machine on which the package is installed, made once.
fn installed() -> &'static Path {
    static DISK: OnceLock<PathBuf> = OnceLock::new();
    DISK.get_or_init(|| {
        let disk = directory().join("installed.qcow2");
        let mut machine = install(&disk);
        machine.begin("systemctl poweroff");
        machine.off();
        disk
    })
}

/// A machine on a new disk, on which the package has just been installed.
fn install(disk: &Path) -> Computer {
    Computer::disk(disk, &Computer::files().unwrap().join("disk.qcow2"));
    let package = package();
    let drive = format!(
        "file={},format=raw,if=virtio,readonly=on",
        package.display()
    );
    let mut machine = Computer::start(disk, directory(), &["-drive", &drive]);
    machine.booted();
    machine.install();
    let units = "brisk-reboot brisk-reboot-early brisk-vms";
    machine.ok(&format!(
        "systemctl is-enabled {units} && systemctl is-active {units}"
    ));
    machine
}

/// Disk with the Debian package of the brisk under test.
fn package() -> PathBuf {
    static DISK: OnceLock<PathBuf> = OnceLock::new();
    DISK.get_or_init(build_package).clone()
}

/// Program of the workspace's own tasks, which makes manual pages for the package.
fn xtask() -> PathBuf {
    // The programs of the workspace's tests are in one directory.
    Path::new(env!("CARGO_BIN_EXE_brisk")).with_file_name("xtask")
}

fn without_xtask() -> Option<String> {
    (!xtask().exists()).then(|| "without xtask: cargo build --workspace".to_owned())
}

fn build_package() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out = directory().join("package");
    let built = Command::new(here.join("packaging/build-deb"))
        .arg(&out)
        .env("PREBUILT", env!("CARGO_BIN_EXE_brisk"))
        .env("XTASK", xtask())
        .env("COMPRESSION", "gzip")
        .output()
        .unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let is_package = |path: &PathBuf| path.extension().is_some_and(|end| end == "deb");
    let mut files = std::fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let disk = directory().join("package.ext4");
    package_disk(&files.find(is_package).unwrap(), &disk);
    disk
}

/// A disk of the installed machine for one test.
fn disk(name: &str) -> PathBuf {
    let disk = directory().join(format!("{name}.qcow2"));
    Computer::disk(&disk, installed());
    disk
}

/// The last restart, as brisk reboot report has it.
#[track_caller]
fn last_restart(machine: &mut Computer) -> Value {
    let text = machine.ok("brisk reboot report --format json");
    let report: Value = serde_json::from_str(&text).unwrap();
    report["restarts"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone()
}

/// Asserts that the last restart came through the firmware because its kernel failed.
#[track_caller]
fn ended_in_the_firmware(machine: &mut Computer) {
    let restart = last_restart(machine);
    let record = &restart["record"];
    assert_eq!(record["result"], "cold-instead", "{restart:#}");
    assert_eq!(record["phase"], "kernel", "{restart:#}");
}

/// Starts a VM that checks its memory; the result is its boot_id.
#[track_caller]
fn start(machine: &mut Computer, vm: &str) -> String {
    machine.ok(&format!("brisk vm start {vm} --timeout 30m"));
    let script = in_emulation(CHECK_MEMORY).replace('\'', r"'\''");
    machine.ok(&format!("brisk vm exec {vm} -- sh -c '{script}'"))
}

/// Asserts that a VM is the guest of before, that its memory was never other than it left it, and
/// that it makes progress. The result is how many rounds it has made.
#[track_caller]
fn is_well(machine: &mut Computer, vm: &str, boot: &str) -> u64 {
    let script = in_emulation(MEMORY_STATE);
    let state = machine.ok(&format!("brisk vm exec {vm} -- sh -c '{script}'"));
    rounds(&state, boot)
}

/// A script for a guest of an emulated machine, in which a program takes seconds to start: with one file,
/// and long pauses.
fn in_emulation(script: &str) -> String {
    let script = script.replace("for k in 0 1 2 3;", "for k in 1;");
    script
        .replace("sleep 0.02", "sleep 2")
        .replace("sleep 0.05", "sleep 1")
}

fn vms_go_on() {
    let (kept, boot) = Kept::with_vm();
    // The end of QEMU would show that the firmware was to run.
    let mut machine = kept.go_on_with("vms", &["-no-reboot"]);
    machine.tells_how_far_it_is();
    let first = repeated::boot(&mut machine);
    machine.ok(
        "brisk vm create two --memory 128M --root none --autoshutdown suspend \
         --kernel $(ls /boot/vmlinuz-*-cloud-amd64)",
    );
    let boots = [
        ("one", boot.to_owned()),
        ("two", start(&mut machine, "two")),
    ];
    let before: Vec<_> = boots
        .iter()
        .map(|(vm, boot)| is_well(&mut machine, vm, boot))
        .collect();
    let running = machine.ok("uname -r");
    let newer = "$(ls /boot/vmlinuz-* | sed s,.*vmlinuz-,, | grep cloud)";
    // As an upgrade does it: the boot loader's default is another kernel.
    machine.ok(&format!(
        "sed -i \"s/^GRUB_DEFAULT=.*/GRUB_DEFAULT='GNU\\/Linux, with Linux {newer}'/\" \
         /etc/default/grub && update-grub"
    ));
    let asked = machine.elapsed();
    // The machine may go down before the command has told its end.
    machine.begin("brisk reboot");
    machine.booted();
    let up = machine.elapsed();
    let second = repeated::boot(&mut machine);
    assert_ne!(first, second);
    assert_eq!(machine.firmware_runs(), 0);
    assert_ne!(machine.ok("uname -r"), running);
    assert_eq!(
        machine.ok("echo $(($(cat /proc/sys/kernel/bootloader_type) >> 4))"),
        "13\n"
    );
    for ((vm, boot), before) in boots.iter().zip(before) {
        assert!(is_well(&mut machine, vm, boot) >= before);
    }
    let restart = last_restart(&mut machine);
    assert_eq!(restart["record"]["result"], "warm", "{restart:#}");
    // The newer kernel, that of clouds, has no such driver.
    let lost = ["GPU 0000:00:02.0 has no driver; it had bochs-drm"];
    assert_eq!(restart["lost"], serde_json::json!(lost), "{restart:#}");
    seconds_are_those_of_the_console(&machine, [asked, up], &restart);
    machine.begin("brisk reboot --cold");
    machine.off();
    let mut machine = Kept::boot(&directory().join("vms.qcow2"));
    assert_ne!(second, repeated::boot(&mut machine));
    for (vm, boot) in &boots {
        is_well(&mut machine, vm, boot);
    }
    let restart = last_restart(&mut machine);
    assert_eq!(restart["record"]["result"], "cold", "{restart:#}");
    assert_eq!(restart["record"]["to"]["is_kexec"], false);
    let report = machine.ok("brisk reboot report --svg /root/report.svg");
    assert!(report.contains("--cold was given"), "{report}");
}

/// Asserts that a report's phases are as long as this host saw them, by its own clock, on the console
/// of a machine that [`Computer::tells_how_far_it_is`], until its boot was over.
#[track_caller]
fn seconds_are_those_of_the_console(
    machine: &Computer,
    [asked, up]: [Duration; 2],
    restart: &Value,
) {
    let console = machine.console();
    let at = |text| {
        let last = console.iter().rev().find(|line| line.text.contains(text));
        last.unwrap_or_else(|| panic!("{text}: {console:#?}")).at
    };
    let sum = |phases: &[&str]| {
        let seconds = phases.iter().map(|name| restart["phases"][name].as_f64());
        seconds.sum::<Option<f64>>().unwrap()
    };
    // Units stop after systemd was asked, and the machine was looked at before anything began. A boot is
    // over a moment after its target was reached, and the hardware clock has whole seconds.
    let (stopping, stopped) = (at(STOPPING), at(STOPPED));
    for (phases, least, most) in [
        (&["shutdown"][..], stopped - stopping, stopped - asked),
        (
            &["preparation", "shutdown"],
            stopped - stopping,
            stopped - asked,
        ),
        (
            &["firmware or kexec", "kernel and initrd", "userspace"],
            (up - stopped)
                .mul_f64(0.9)
                .saturating_sub(Duration::from_secs(5)),
            up - stopped,
        ),
    ] {
        let (least, most) = (least.as_secs_f64() - 2.0, most.as_secs_f64() + 2.0);
        let is = sum(phases);
        assert!(
            least < is && is < most,
            "{phases:?}: {least} {is} {most} {restart:#}"
        );
    }
}

/// A restart that waits for VMs which are being started is taken back by a signal.
fn taken_back(machine: &mut Computer) {
    const SLOW: &str = "\
        mkdir -p /run/systemd/system/brisk-vms.service.d
        cat >/run/systemd/system/brisk-vms.service.d/slow.conf <<'END'
[Service]
ExecStartPre=sh -c 'until test -e /run/go; do sleep 0.1; done'
END
        systemctl daemon-reload
        systemctl restart --no-block brisk-vms
        until systemctl show --property=ActiveState brisk-vms | grep -q =activating; do :; done";
    machine.ok(SLOW);
    let asked = machine.run(
        "brisk reboot --cold --no-vms & asked=$!
        until systemctl list-jobs --no-legend | grep -q brisk-reboot-run; do sleep 0.1; done
        kill -TERM $asked; wait $asked",
    );
    assert_eq!(asked.status, 143, "{}", asked.output);
    let is_told = asked.output.contains("interrupted; nothing was changed");
    assert!(is_told, "{}", asked.output);
    machine.ok(
        "touch /run/go; rm -r /run/systemd/system/brisk-vms.service.d; systemctl daemon-reload
        until systemctl show --property=ActiveState brisk-vms | grep -q =active; do sleep 0.1; done
        until test -z \"$(systemctl list-jobs --no-legend)\"; do sleep 0.1; done
        ! systemctl --quiet is-active brisk-reboot-run && test ! -e /run/brisk/reboot/request.json
        test \"$(systemctl show --property=SystemState --value)\" != stopping",
    );
}

fn restarts() {
    let mut machine = install(&directory().join("restarts.qcow2"));
    let first = machine.ok("cat /proc/sys/kernel/random/boot_id");
    // A refused request changes nothing.
    let refused = machine.run("brisk reboot --kernel 1.2.3");
    assert_eq!(refused.status, 125, "{}", refused.output);
    taken_back(&mut machine);
    machine.ok("sysctl -q kernel.panic=7");
    machine.tells_how_far_it_is();
    let asked = machine.elapsed();
    // The machine may go down before the command has told its end.
    machine.begin("brisk reboot");
    let second = machine.booted();
    let up = machine.elapsed();
    assert_ne!(first, second);
    assert_eq!(machine.firmware_runs(), 1);
    assert_eq!(
        machine.ok("echo $(($(cat /proc/sys/kernel/bootloader_type) >> 4))"),
        "13\n"
    );
    let restart = last_restart(&mut machine);
    assert_eq!(restart["record"]["result"], "warm", "{restart:#}");
    assert_eq!(restart["lost"], serde_json::json!([]), "{restart:#}");
    // panic= was for the start alone.
    assert_eq!(machine.ok("cat /proc/sys/kernel/panic"), "7\n");
    assert!(machine.ok("cat /proc/cmdline").contains("panic=10"));
    seconds_are_those_of_the_console(&machine, [asked, up], &restart);
    machine.ok("brisk reboot report --svg /root/restarts.svg --html /root/restarts.html");
    assert_eq!(machine.run("brisk reboot check --no-trial-load").status, 0);
    // Others may look, unless the administrator has closed the directory.
    let other = "setpriv --reuid=65534 --regid=65534 --clear-groups brisk reboot report";
    assert!(machine.ok(other).contains("warm"));
    let refused = machine.run(&format!("chmod 700 /var/lib/brisk && {other}"));
    let is_told = refused.output.contains("try: sudo brisk reboot report");
    assert!(refused.status != 0 && is_told, "{}", refused.output);
}

fn a_kernel_that_panics_is_barred() {
    let mut machine = Computer::start(&disk("panics"), directory(), &[]);
    machine.booted();
    // initramfs-tools takes another init for one that is not there.
    let bad = "--same --cmdline 'root=/dev/vda1 console=ttyS0 init=/bin/false'";
    machine.begin(&format!("brisk reboot {bad}"));
    machine.booted();
    // The kernel ended itself, and the firmware ran again.
    assert_eq!(machine.firmware_runs(), 2);
    ended_in_the_firmware(&mut machine);
    let check = machine.run(&format!("brisk reboot check --no-trial-load {bad}"));
    assert_eq!(check.status, 10, "{}", check.output);
    assert!(check.output.contains("[barred]"), "{}", check.output);
    let only = machine.run(&format!("brisk reboot --warm-only {bad}"));
    assert_eq!(only.status, 10, "{}", only.output);
    // Others were never barred.
    machine.ok("brisk reboot check --no-trial-load --same");
    machine.ok("brisk reboot allow --all");
    machine.ok(&format!("brisk reboot check --no-trial-load {bad}"));
}

fn a_kernel_that_hangs() {
    let watchdog = ["-device", "i6300esb", "-watchdog-action", "reset"];
    let mut machine = Computer::start(&disk("hangs"), directory(), &watchdog);
    machine.booted();
    kept::has_watchdog(&mut machine);
    // An initrd that does nothing, for ever.
    machine.ok(
        "mkdir -p /tmp/i/bin && cd /tmp/i && cp /bin/busybox bin/ && \
         printf '#!/bin/busybox sh\\nwhile :; do busybox sleep 1000; done\\n' >init && \
         chmod 755 init && find . | busybox cpio -o -H newc >/root/loops.img",
    );
    machine.begin("brisk reboot --same --initrd /root/loops.img --watchdog 40s");
    machine.booted();
    assert_eq!(machine.firmware_runs(), 2);
    ended_in_the_firmware(&mut machine);
}

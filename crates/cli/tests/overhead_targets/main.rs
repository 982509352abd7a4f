//! Kinds of targets, each with a real one.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

mod containers;
mod domains;
mod leftovers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use brisk_testkit::{
    Brisk, Machines, brisk_of, changed_ratio, missing, not_root, samples, tool, trial, trials,
};
use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

fn main() {
    let plain: [(_, fn()); 9] = [
        (
            "a_qemu_ends_with_a_brisk_that_is_killed",
            leftovers::a_qemu_ends_with_a_brisk_that_is_killed,
        ),
        (
            "files_without_an_end_are_refused",
            files_without_an_end_are_refused,
        ),
        (
            "an_interrupt_of_packing_leaves_nothing",
            leftovers::an_interrupt_of_packing_leaves_nothing,
        ),
        (
            "an_engine_that_hangs_is_not_waited_for",
            containers::an_engine_that_hangs_is_not_waited_for,
        ),
        (
            "targets_of_a_file_are_measured",
            targets_of_a_file_are_measured,
        ),
        (
            "any_qemu_is_logged_in_to_and_counted",
            any_qemu_is_logged_in_to_and_counted,
        ),
        (
            "what_fixes_of_a_command_line_are_worth_is_measured",
            what_fixes_of_a_command_line_are_worth_is_measured,
        ),
        ("a_target_says_what_it_lacks", a_target_says_what_it_lacks),
        (
            "a_vm_that_runs_is_counted_and_left_as_it_was",
            a_vm_that_runs_is_counted_and_left_as_it_was,
        ),
    ];
    let mut all = trials(None, plain);
    let of =
        |name: &str, program: &str, test: fn()| -> Trial { trial(name, missing(program), test) };
    all.extend([
        of("runc_sees_all_mounts_read_only", "runc", || {
            containers::all_mounts_are_seen_read_only("runc:");
        }),
        of("gvisor_sees_all_mounts_read_only", "runsc", || {
            containers::all_mounts_are_seen_read_only("gvisor:");
        }),
        of(
            "gvisor_is_counted_on_the_host",
            "runsc",
            containers::gvisor_is_counted_on_the_host,
        ),
        of(
            "a_container_of_podman_is_counted_and_removed",
            "podman",
            containers::a_container_of_podman_is_counted_and_removed,
        ),
    ]);
    all.extend(domains::trials());
    all.push(trial(
        "nothing_is_removed_where_no_work_directory_can_be_made",
        not_root(),
        leftovers::nothing_is_removed_where_no_work_directory_can_be_made,
    ));
    all.push(trial(
        "what_the_work_has_mounted_is_not_removed",
        not_root(),
        leftovers::what_the_work_has_mounted_is_not_removed,
    ));
    all.push(trial(
        "what_works_in_the_background_ends_without_groups",
        not_root(),
        leftovers::what_works_in_the_background_ends_without_groups,
    ));
    // One after another: each measures on one processor.
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, all).exit();
}

/// A report of one round of a command in targets.
struct Measured {
    report: Value,
    _directory: TempDir,
}

/// `brisk overhead run` of a command in one round.
fn overhead(directory: &Path, command: &str) -> Brisk {
    brisk_of![
        "overhead",
        "run",
        "--keep-disturbed",
        "--rounds=1",
        "--workload=command"
    ]
    .arg("--output")
    .arg(directory.join("report.json"))
    .arg(format!("--command={command}"))
}

fn measure(command: &str, words: &[&str]) -> Measured {
    measure_with(|brisk| brisk, command, words)
}

/// `with` says where the command finds what it measures.
fn measure_with(with: impl Fn(Brisk) -> Brisk, command: &str, words: &[&str]) -> Measured {
    measured_with(with, command, words, 0)
}

/// Likewise, with another exit status: 125 if no target was measured.
fn measured_with(
    with: impl Fn(Brisk) -> Brisk,
    command: &str,
    words: &[&str],
    status: i32,
) -> Measured {
    let directory = tempdir().unwrap();
    with(overhead(directory.path(), command).args(words)).exits(status);
    let report = fs::read(directory.path().join("report.json")).unwrap();
    Measured {
        report: serde_json::from_slice(&report).unwrap(),
        _directory: directory,
    }
}

impl Measured {
    /// Samples of a target in a metric: the warm-up and the one that counts.
    fn samples(&self, target: &str, metric: &str) -> Vec<Value> {
        samples(&self.report, target, metric)
    }

    /// Value of the run that counts. A run that failed shows its reason.
    #[track_caller]
    fn value(&self, target: &str, metric: &str) -> f64 {
        let samples = self.samples(target, metric);
        let last = samples.last().unwrap_or(&Value::Null);
        last["value"]
            .as_f64()
            .unwrap_or_else(|| panic!("{target}: {metric}: {last}"))
    }

    fn fact(&self, name: &str) -> &str {
        let facts = &self.report["environment"]["extra"];
        facts[name].as_str().unwrap_or_default()
    }
}

/// A loop of a shell that takes a while everywhere.
const LOOP: &str = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done";

/// The CPU time of a target is nearly all of its time, as that of a loop is.
#[track_caller]
fn is_counted(measured: &Measured, target: &str) {
    let (cpu, time) = (
        measured.value(target, "CPU of the host"),
        measured.value(target, "time"),
    );
    let waiting = measured.samples(target, "waiting");
    let waiting = waiting.last().and_then(|sample| sample["value"].as_f64());
    let rest = measured.value(target, "rest");
    // What other programs had is in `waiting`, or in `rest` where that is not counted.
    let other = waiting.unwrap_or_default() + rest.max(0.0);
    assert!(
        cpu > 0.0 && cpu <= time * 1.05 + 0.02 && cpu + other >= time * 0.5,
        "{target}: {cpu} of {time}, {waiting:?}, {rest}"
    );
}

/// Processors that each thread of a process may run on.
fn allowed(pid: i32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut all: Vec<_> = tasks
        .map(|task| {
            let text = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let line = text.lines().find(|line| line.starts_with("Cpus_allowed:"));
            line.unwrap().to_owned()
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

fn a_vm_that_runs_is_counted_and_left_as_it_was() {
    let all = Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"));
    all.does(&["create", "a", "--memory=128M"]);
    let dir = tempdir().unwrap();
    let run = |target: &str| all.with(overhead(dir.path(), "true").args(["--target", target]));
    run("x=vm:b")
        .exits(125)
        .explains(&["target x: there is no VM b"]);
    run("x=vm:a").exits(125).explains(&["brisk vm start a"]);
    all.does(&["start", "a"]);
    let qemu = all.processes("qemu")[0].pid;
    let before = allowed(qemu);
    // Threads of QEMU are on one processor in the meantime.
    let command = format!(
        "{LOOP}; ! [ -e /proc/{qemu}/task/{qemu}/status ] || \
         grep -h Cpus_allowed: /proc/{qemu}/task/*/status >{}/allowed",
        dir.path().display()
    );
    let measured = measure_with(|brisk| all.with(brisk), &command, &["--target=x=vm:a"]);
    is_counted(&measured, "x");
    assert_ne!(measured.fact("x: accelerators"), "");
    let meanwhile = fs::read_to_string(dir.path().join("allowed")).unwrap();
    let ones = meanwhile.lines().map(|line| {
        let mask = line.split_whitespace().last().unwrap().replace(',', "");
        u128::from_str_radix(&mask, 16).unwrap().count_ones()
    });
    assert!(ones.clone().count() > 1 && ones.clone().all(|ones| ones == 1));
    assert_eq!(allowed(qemu), before);
    assert_eq!(all.output("a", "ls -A /tmp"), "");
    all.does(&["kill", "a"]);
}

fn kernel() -> PathBuf {
    let kernels = fs::read_dir("/boot").unwrap();
    let paths = kernels.map(|entry| entry.unwrap().path());
    let kernels = paths.filter(|path| path.display().to_string().contains("/vmlinuz-"));
    kernels.max().unwrap()
}

/// An initramfs with the programs of busybox, `/etc/passwd` with root, who has no password, and the
/// script `init`; `more` adds to the tree, whose path is its directory.
fn initramfs(directory: &Path, init: &str, more: &str) -> PathBuf {
    let script = r#"
mkdir -p "$1/etc" "$1/dev" "$1/proc" "$1/root" "$1/tmp"
cd "$1"
programs
echo 'root::0:0:root:/root:/bin/sh' >etc/passwd
printf '%s' "$INIT" >init
chmod 755 init
eval "$MORE"
find . | bin/busybox cpio -o -H newc >../initramfs
"#;
    let variables = [("INIT", init), ("MORE", more)];
    run_script(script, &[&directory.join("tree")], &variables);
    directory.join("initramfs")
}

/// Has a shell run a script that makes a tree. Its command `programs` puts those of busybox into the
/// directory `bin` of the current one.
fn run_script(script: &str, words: &[&Path], variables: &[(&str, &str)]) {
    let programs = r#"
set -e
programs() {
    mkdir -p bin
    cp "$BUSYBOX" bin/busybox
    for name in $(bin/busybox --list); do [ -e "bin/$name" ] || ln -s busybox "bin/$name"; done
}
"#;
    let output = Command::new("sh")
        .args(["-c", &format!("{programs}{script}"), "sh"])
        .args(words)
        .env("BUSYBOX", tool("busybox"))
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// An initramfs with a login prompt on the serial port, for root without a password.
fn login_initramfs(directory: &Path) -> PathBuf {
    let init = "#!/bin/sh
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
while :; do setsid getty 0 ttyS0 vt100; done
";
    initramfs(directory, init, "")
}

/// A guest with a login prompt on its serial port, as options of QEMU.
fn with_login(directory: &Path) -> String {
    format!(
        "-accel tcg -m 256M -nographic -append console=ttyS0 -kernel {} -initrd {}",
        kernel().display(),
        login_initramfs(directory).display()
    )
}

fn what_fixes_of_a_command_line_are_worth_is_measured() {
    let dir = tempdir().unwrap();
    let disk = dir.path().join("disk.raw");
    fs::write(&disk, vec![0; 1 << 20]).unwrap();
    let target = format!(
        "x=qemu:qemu-system-x86_64 {} -drive file={},if=virtio,format=raw,cache=unsafe",
        with_login(dir.path()),
        disk.display()
    );
    let run = overhead(dir.path(), LOOP).args(["--timeout=100s", "--ablate=fix", "--target"]);
    let text = run.arg(&target).exits(0).text();
    let note = text.lines().find(|line| line.ends_with("[unsafe-cache]"));
    assert!(note.unwrap().starts_with("Note: x: with caveat"), "{text}");
    // What was found about its times leads to what can be changed of its definition.
    for change in [
        "--ablate fix=guest-unsafe-cache measures the change [guest-unsafe-cache]",
        "use KVM where it works; brisk doctor says whether it does [guest-tcg]",
    ] {
        assert!(text.contains(change), "{text}");
    }
    let ratio = changed_ratio(&text, "x");
    // What the disk's cache is worth to a loop without a disk.
    assert!((0.2..5.0).contains(&ratio), "{text}");
}

fn any_qemu_is_logged_in_to_and_counted() {
    let dir = tempdir().unwrap();
    let target = format!("x=qemu:qemu-system-x86_64 {}", with_login(dir.path()));
    // What comes to no prompt says so before the test is given up.
    let measured = measure(LOOP, &["--timeout=100s", "--target", &target]);
    is_counted(&measured, "x");
    assert_eq!(measured.fact("x: cpus"), "1");
    assert_eq!(measured.fact("x: accelerators"), "tcg");
    let refused = |line: &str, text: &str| {
        let target = format!("x=qemu:{line}");
        let run = overhead(dir.path(), "true").args(["--target", &target]);
        run.exits(125).explains(&["target x: ", text]);
    };
    refused("qemu-system-x86_64 -daemonize", "take it out");
    refused("qemu-system-none -m 1G", "qemu-system-none");
}

fn targets_of_a_file_are_measured() {
    let dir = tempdir().unwrap();
    let file = dir.path().join("targets.toml");
    let path = file.to_str().unwrap();
    let entry = "[[target]]\nname = 'kind'\nkind = 'command'\narguments = ['env', 'X=1 2']\n";
    fs::write(&file, entry).unwrap();
    // It gets the words as they are in the file.
    let command = "[ -z \"$X\" ] || [ \"$X\" = '1 2' ]";
    let words = ["--targets", path, "--target=second=host"];
    let measured = measure(command, &words);
    assert!(measured.value("kind", "time") > 0.0);
    assert!(measured.value("second", "time") > 0.0);
    assert_eq!(measured.fact("target kind"), "command:env 'X=1 2'");
    let refused = |text: &str, expected: &str| {
        fs::write(&file, text).unwrap();
        let run = overhead(dir.path(), "true").args(["--targets", path]);
        run.exits(125).explains(&[path, expected]);
    };
    refused(&format!("{entry}prefix = 'env'\n"), "line 5");
    refused(
        &entry.replace("command'", "xen'"),
        "line 1: xen: no such kind",
    );
}

fn a_target_says_what_it_lacks() {
    let dir = tempdir().unwrap();
    let nowhere = dir.path().join("nowhere");
    let (target, package) = ("x=gvisor:", "runsc");
    let lacks = overhead(dir.path(), "true").args(["--target", target]);
    let lacks = lacks.env("PATH", &nowhere).env("HOME", &nowhere);
    lacks.exits(125).explains(&[
        "target x: there is no",
        &format!("apt-get install {package}"),
    ]);
}

fn files_without_an_end_are_refused() {
    let dir = tempdir().unwrap();
    let refused = |words: &[&str]| {
        let run = overhead_of("kernel").args(["--rounds=1", "--target=x=host"]);
        run.args(words)
            .exits(125)
            .explains(&["it is not a regular file"]);
    };
    let pipe = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    let tree = dir.path().join("tree");
    kernel_source(&tree);
    let tree = ["--tree", tree.to_str().unwrap()];
    for path in [pipe.to_str().unwrap(), "/dev/zero"] {
        refused(&["--targets", path]);
        refused(&["--config", path]);
        refused(&[&["--continue", path], &tree[..]].concat());
    }
}

fn overhead_of(workload: &str) -> Brisk {
    brisk_of!["overhead", "run", "--workload"].arg(workload)
}

/// A directory that is taken for the source of a kernel.
fn kernel_source(tree: &Path) {
    fs::create_dir(tree).unwrap();
    for name in ["Kconfig", "Makefile"] {
        fs::write(tree.join(name), "").unwrap();
    }
}

//! Nothing is left behind, however it ends. Every run in every test is looked at when it ends;
//! here are the endings with most to leave: a VM and two servers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use brisk_testkit::{Running, Signal, brisk, tree};
use tempfile::tempdir;

/// A root and a share, each with its virtiofsd.
fn start(home: &Path, script: &str) -> Running {
    tree(home);
    let share = format!("{}:/srv:ro", home.display());
    let run = brisk!["--share", share, "--root"].arg(home).script(script);
    let mut run = run.spawn();
    run.shows("ready\n");
    // One of them in a process of its own, where it is confined.
    let names: Vec<_> = run.processes();
    assert!(names.len() > 3, "{names:?}");
    run
}

const WAIT: &str = "echo ready; exec busybox sleep 100000";

#[test]
fn after_the_commands_end() {
    let home = tempdir().unwrap();
    // A child that is not in the shell's group lives on.
    let run = start(
        home.path(),
        "trap 'exit 3' TERM; busybox setsid busybox sleep 100000 & echo ready; wait",
    );
    run.signal(Signal::TERM);
    let _ = run.wait().exited(3);
}

#[test]
fn after_a_panic() {
    let home = tempdir().unwrap();
    // Not before its output has arrived: a kernel that gives up at once may take that with it.
    let crash = "echo c > /proc/sysrq-trigger";
    let script = format!("trap '{crash}' TERM; echo ready; busybox sleep 100000 & wait; wait");
    let run = start(home.path(), &script);
    run.signal(Signal::TERM);
    let _ = run.wait().exited(121);
}

#[test]
fn after_a_second_sigint() {
    let home = tempdir().unwrap();
    let script = "trap 'echo no' INT; echo ready; while :; do busybox sleep 100000 & wait; done";
    let mut run = start(home.path(), script);
    run.signal(Signal::INT);
    run.shows("no\n");
    run.signal(Signal::INT);
    let _ = run.wait().exited(130);
}

#[test]
fn after_sigkill() {
    let home = tempdir().unwrap();
    let run = start(home.path(), WAIT);
    run.signal(Signal::KILL);
    assert_eq!(run.wait().signal(), Some(9));
}

#[test]
fn after_sigkill_while_the_guest_boots() {
    // Nobody in the guest notices: its processor is never started.
    let run = brisk!["--root", "none", "--qemu-arg=-S"].command(["true"]);
    let run = run.spawn();
    run.process("qemu-system");
    run.signal(Signal::KILL);
    assert_eq!(run.wait().signal(), Some(9));
}

#[test]
fn after_the_death_of_a_server() {
    let home = tempdir().unwrap();
    let run = start(home.path(), WAIT);
    run.process("virtiofsd").signal(Signal::KILL);
    // The VM without its root goes on until it is ended.
    run.signal(Signal::INT);
    run.signal(Signal::TERM);
    assert!(run.wait().status.code().is_some_and(|code| code >= 120));
}

#[test]
fn after_the_end_of_a_script_around_qemu() {
    let home = tempdir().unwrap();
    let script = home.path().join("qemu");
    // The shell stays, and QEMU is its child.
    brisk_testkit::script(&script, "#!/bin/sh\nqemu-system-x86_64 \"$@\"\nexit $?\n");
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let start = || {
        let run = brisk!["--root", "none", "--qemu"].arg(&script);
        let mut run = run.script(WAIT).spawn();
        run.shows("ready\n");
        run.process("qemu-system");
        run
    };
    let run = start();
    run.signal(Signal::TERM);
    let _ = run.wait().exited(143);
    // Here the guest notices that nobody listens.
    let run = start();
    run.signal(Signal::KILL);
    assert_eq!(run.wait().signal(), Some(9));
}

//! Signals to brisk are signals to the command; asked twice, or too early, brisk ends itself.

use brisk_testkit::{Signal, brisk, tree, until};
use rustix::process::{Pid, getpgid};

/// A shell that waits in the background, so that its traps run at once.
const WAIT: &str = "echo ready; while :; do sleep 1000 & wait; done";

#[test]
fn each_signal_reaches_the_command() {
    let traps = "trap 'echo int; exit 9' INT; trap 'echo usr1' USR1; trap 'echo hup' HUP;";
    let mut run = brisk!["--root", "none"]
        .script(&format!("{traps} {WAIT}"))
        .spawn();
    run.shows("ready\n");
    // Signals with a meaning of the command's own may come again and again.
    for (signal, text) in [
        (Signal::USR1, "ready\nusr1\n"),
        (Signal::USR1, "usr1\nusr1\n"),
        (Signal::HUP, "usr1\nhup\n"),
        (Signal::HUP, "hup\nhup\n"),
        (Signal::INT, "hup\nint\n"),
    ] {
        run.signal(signal);
        run.shows(text);
    }
    assert_eq!(run.wait().exited(9).stderr, "");
}

#[test]
fn a_command_without_a_trap_is_ended_by_sigterm() {
    let mut run = brisk!["--root", "none"].script(WAIT).spawn();
    run.shows("ready\n");
    run.signal(Signal::TERM);
    let _ = run.wait().exited(143);
}

#[test]
fn the_second_sigint_ends_the_machine() {
    let script = format!("trap 'echo no' INT; {WAIT}");
    let mut run = brisk!["--root", "none"].script(&script).spawn();
    run.shows("ready\n");
    run.signal(Signal::INT);
    run.shows("no\n");
    run.signal(Signal::INT);
    let _ = run.wait().exited(130);
}

#[test]
fn sigint_while_the_guest_boots_ends_brisk() {
    // The processor of this guest is never started.
    let run = brisk!["--root", "none", "--qemu-arg=-S"].command(["true"]);
    let run = run.spawn();
    run.process("qemu-system");
    run.signal(Signal::INT);
    let _ = run.wait().exited(130);
}

#[test]
fn sigterm_ends_brisk_though_nobody_reads_its_output() {
    let run = brisk!["--root", "none"].script("head -c 500000 /dev/zero");
    let run = run.spawn();
    run.is_stuck();
    // The VM is gone, only brisk still waits for its reader.
    until("QEMU has ended", || {
        (run.processes().len() == 1).then_some(())
    });
    run.signal(Signal::TERM);
    let _ = run.wait().exited(143);
}

/// What a terminal sends to a process group is brisk's to forward, whatever serves the guest.
#[test]
fn programs_that_serve_a_guest_are_in_no_group_of_brisks() {
    let root = tempfile::tempdir().unwrap();
    tree(root.path());
    let mut run = brisk!["--root", root.path().to_str().unwrap()]
        .script(&format!("trap 'echo int; exit 9' INT; {WAIT}"))
        .spawn();
    run.shows("ready\n");
    let group = |pid: i32| getpgid(Pid::from_raw(pid)).unwrap();
    let own = group(run.id() as i32);
    for name in ["virtiofsd", "qemu-system"] {
        assert_ne!(group(run.process(name).pid), own, "{name}");
    }
    run.signal(Signal::INT);
    let _ = run.wait().exited(9);
}

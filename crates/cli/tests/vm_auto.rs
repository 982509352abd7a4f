//! Persistent VMs that start and stop with the host.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;

use brisk_testkit::{Machines, Running, Signal, brisk_of, qemu_is_before, trials, until};
use libtest_mimic::Arguments;

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

fn main() {
    let old = qemu_is_before(8, 2);
    let tests: [(&str, fn()); 4] = [
        ("each_comes_up_and_goes_down_as_it_wants", up_and_down),
        ("one_that_cannot_be_suspended_is_stopped", stopped),
        ("a_command_at_work_is_waited_for", waited_for),
        ("ctrl_c_leaves_machines_as_they_were", interrupted),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials(old, tests)).exit();
}

fn create(all: &Machines, name: &str, words: &[&str]) {
    let fixed = ["create", name, "--memory", "128M", "--compression", "lz4"];
    let _ = all.does(&[&fixed, words].concat());
}

fn up_and_down() {
    let all = machines();
    let doing = || ["a", "b", "c", "d"].map(|name| all.doing(name));
    create(&all, "a", &["--autoboot", "--autoshutdown", "suspend"]);
    create(&all, "b", &["--autoboot"]);
    create(&all, "c", &["--autoshutdown", "off"]);
    let nowhere = all.dir().join("nowhere");
    let root = ["--autoboot", "--root", nowhere.to_str().unwrap()];
    create(&all, "d", &root);
    fs::write(all.definition("e"), "autobot = true\n").unwrap();
    // What is wrong with two of them keeps no other from it.
    let up = all.vm(&["autostart"]).exits(125);
    let up = up.explains(&["a: started in", "b: started in", "error: d: ", "error: e: "]);
    let _ = up.explains(&["nowhere", "autobot"]);
    assert_eq!(doing(), ["running", "running", "off", "off"]);
    // Nothing is left to do for the others.
    let again = all.vm(&["autostart"]).exits(125);
    assert!(!again.stderr.contains("started"), "{}", again.stderr);
    let _ = all.does(&["start", "c"]);
    let boot = "cat /proc/sys/kernel/random/boot_id";
    let before = ["a", "b"].map(|name| all.output(name, boot));
    let down = all.does(&["autostop"]);
    let _ = down.explains(&["a: suspended in", "b: stopped in", "c: ended in"]);
    assert_eq!(doing(), ["suspended", "off", "off", "off"]);
    assert_eq!(all.count(), 0);
    let _ = all.does(&["autostop"]);
    fs::remove_file(all.definition("e")).unwrap();
    let _ = all.does(&["set", "d", "--autoboot=false"]);
    let up = all.does(&["autostart", "--jobs", "2"]);
    let _ = up.explains(&["a: resumed in", "b: started in"]);
    let after = ["a", "b"].map(|name| all.output(name, boot));
    assert_eq!(before[0], after[0]);
    assert_ne!(before[1], after[1]);
    // A definition that became wrong: the VM is asked to stop.
    fs::write(all.definition("b"), "autobot = true\n").unwrap();
    let down = all.does(&["autostop"]);
    let _ = down.explains(&["a: suspended in", "b: stopped in"]);
    assert_eq!(all.count(), 0);
}

fn stopped() {
    let all = machines();
    let nowhere = all.dir().join("nowhere/a.brisk");
    let path = ["--suspend-path", nowhere.to_str().unwrap()];
    create(
        &all,
        "a",
        &[&path[..], &["--autoshutdown", "suspend"]].concat(),
    );
    create(&all, "b", &["--autoshutdown", "suspend"]);
    for name in ["a", "b"] {
        let _ = all.does(&["start", name]);
    }
    let down = all.vm(&["autostop"]).exits(125);
    let texts = ["error: a: it was not suspended, but stopped", "nowhere"];
    let _ = down.explains(&texts).explains(&["b: suspended in"]);
    assert_eq!(["a", "b"].map(|name| all.doing(name)), ["off", "suspended"]);
    let log = all.does(&["log", "a"]).text();
    assert!(log.contains("VM is stopped, because it cannot"), "{log}");
    assert!(log.ends_with("VM halted\n"), "{log}");
}

/// Starts a command that suspends a VM for long, and waits until it is at work.
fn suspends(all: &Machines, words: &[&str]) -> Running {
    let run = all.vm(words).spawn();
    let log = all.state_dir("a").join("log");
    until("it suspends", || {
        let text = fs::read_to_string(&log).unwrap();
        text.contains("VM suspending").then_some(())
    });
    run
}

/// A VM whose suspend takes some time.
fn slow() -> Machines {
    let all = machines();
    create(&all, "a", &["--autoshutdown", "suspend"]);
    let _ = all.does(&["set", "a", "--compression", "zstd:7"]);
    let _ = all.does(&["start", "a"]);
    all
}

fn waited_for() {
    let all = slow();
    let suspend = suspends(&all, &["suspend", "a"]);
    let down = all.does(&["autostop"]);
    assert!(!down.stderr.contains("a: "), "{}", down.stderr);
    let _ = suspend.wait().exited(0);
    assert_eq!(all.doing("a"), "suspended");
}

fn interrupted() {
    let all = slow();
    // At such a rate it would never end.
    let _ = all.does(&["set", "a", "--bandwidth", "1K"]);
    let run = suspends(&all, &["autostop"]);
    run.signal(Signal::TERM);
    let ended = run.wait().exited(130);
    let _ = ended.explains(&["interrupted; VMs that were not done with"]);
    assert_eq!(all.doing("a"), "running");
    assert_eq!(all.output("a", "echo well"), "well\n");
}

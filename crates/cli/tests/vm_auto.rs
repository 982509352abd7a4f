//! Persistent VMs that start and stop with the host.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use brisk_testkit::{Machines, Running, Signal, brisk_of, qemu_is_before, trials, until};
use libtest_mimic::Arguments;
use serde_json::Value;

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

fn main() {
    let old = qemu_is_before(8, 2);
    let tests: [(&str, fn()); 8] = [
        ("each_comes_up_and_goes_down_as_it_wants", up_and_down),
        ("one_that_cannot_be_suspended_is_stopped", stopped),
        ("one_that_is_not_done_by_the_deadline_is_stopped", late),
        ("nothing_is_left_of_a_suspend_that_was_killed", killed),
        ("a_command_at_work_is_waited_for", waited_for),
        (
            "one_that_is_about_to_be_resumed_is_waited_for",
            resume_waited_for,
        ),
        ("one_whose_qemu_was_replaced_is_stopped", replaced),
        ("ctrl_c_leaves_machines_as_they_were", interrupted),
    ];
    let lazy: [(&str, fn()); 1] = [("memory_follows_while_others_come_and_go", lazily)];
    let mut all = trials(old, tests);
    all.extend(trials(no_postcopy(), lazy));
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}

/// Why VMs cannot run before their memory is loaded here.
fn no_postcopy() -> Option<String> {
    let device = std::path::Path::new("/dev/userfaultfd").exists();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    qemu_is_before(10, 0)
        .or_else(|| (!device).then(|| "no /dev/userfaultfd".to_owned()))
        // QEMU cannot have files of its own then.
        .or_else(|| (!points.any(|point| point == "/")).then(|| "/ is no mount point".to_owned()))
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
    create(&all, "d", &["--autoboot"]);
    // What is there when it is defined may be gone by its start.
    let _ = all.does(&["set", "d", "--root", nowhere.to_str().unwrap()]);
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
    // A definition that became wrong, or went away: the VM is asked to stop, and perhaps it was to be
    // suspended.
    let _ = all.does(&["start", "c"]);
    fs::write(all.definition("b"), "autobot = true\n").unwrap();
    fs::rename(all.definition("c"), all.dir().join("c.toml")).unwrap();
    let down = all.vm(&["autostop"]).exits(125);
    let down = down.explains(&["a: suspended in", "autobot"]);
    let _ = down.explains(
        &["b", "c"]
            .map(|name| format!("error: {name}: it was not suspended, but stopped: "))
            .each_ref()
            .map(|it| &**it),
    );
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

/// Names of what is in the directory of a VM that is like an image.
fn images(all: &Machines, name: &str) -> Vec<String> {
    let entries = fs::read_dir(all.state_dir(name)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".brisk")).collect()
}

fn late() {
    let all = machines();
    for name in ["a", "b", "c"] {
        create(&all, name, &["--autoshutdown", "suspend"]);
    }
    // At such a rate it would never end.
    let _ = all.does(&["set", "b", "--bandwidth", "1K"]);
    for name in ["a", "b", "c"] {
        let _ = all.does(&["start", name]);
    }
    let down = all.vm(&[
        "autostop",
        "--deadline",
        "40s",
        "--timeout",
        "20s",
        "--jobs",
        "2",
    ]);
    let down = down.exits(125);
    let down = down.explains(&["a: suspended in", "c: suspended in"]);
    let texts = [
        "error: b: it was not suspended, but stopped",
        "MB are left",
        "--deadline",
    ];
    let _ = down.explains(&texts);
    let doing = ["a", "b", "c"].map(|name| all.doing(name));
    assert_eq!(doing, ["suspended", "off", "suspended"]);
    assert_eq!(images(&all, "b"), [""; 0]);
    assert_eq!(images(&all, "a"), ["a.brisk"]);
    let log = all.does(&["log", "b"]).text();
    let why = "VM is stopped, because it cannot be suspended: ";
    assert!(log.contains(why) && log.contains("MB are left"), "{log}");
    assert!(log.ends_with("VM halted\n"), "{log}");
    // It was stopped cleanly, and begins anew.
    let _ = all.does(&["start", "b"]);
    assert_eq!(all.output("b", "echo well"), "well\n");
}

fn killed() {
    let all = slow();
    let _ = all.does(&["set", "a", "--bandwidth", "1K"]);
    let run = suspends(&all, &["autostop"]);
    let record = all.state_dir("a").join("standing");
    until("the guest stands still", || record.exists().then_some(()));
    // As systemd does when the unit's time is over.
    run.signal(Signal::KILL);
    let _ = run.wait();
    assert_eq!(all.doing("a"), "paused");
    assert_eq!(images(&all, "a"), [""; 0]);
    // It was to go down with the host, and runs again with it, or when that is undone.
    let up = all.does(&["autostart"]);
    let _ = up.explains(&["a: resumed in"]);
    assert_eq!(all.output("a", "echo well"), "well\n");
    // A later suspend is another one.
    let _ = all.does(&["set", "a", "--bandwidth", "none"]);
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&["autostart"]);
    assert_eq!(all.doing("a"), "suspended");
}

fn lazily() {
    const FILL: &str = "mkdir /m && mount -t tmpfs none /m && \
                        dd if=/dev/urandom of=/m/x bs=1M count=40 2>/dev/null && sha256sum /m/x";
    let all = machines();
    let names = ["a", "b"];
    let sums = names.map(|name| {
        create(&all, name, &["--autoshutdown", "suspend"]);
        let _ = all.does(&["start", name]);
        all.output(name, FILL)
    });
    let of_both = |words: &[&str], done: &str| {
        let run = all.does(words);
        let _ = run.explains(
            &names
                .map(|name| format!("{name}: {done} in"))
                .each_ref()
                .map(|it| &**it),
        );
    };
    of_both(&["autostop", "--jobs", "2"], "suspended");
    // Neither has autoboot: they are resumed because they were suspended with the host. It goes down
    // again before they have all of their memory.
    of_both(&["autostart", "--jobs", "2"], "resumed");
    of_both(&["autostop", "--jobs", "2"], "suspended");
    of_both(&["autostart", "--eager"], "resumed");
    let again = names.map(|name| all.output(name, "sha256sum /m/x"));
    assert_eq!(again, sums);
    for name in names {
        let log = all.does(&["log", name]).text();
        let places = [
            "VM has all of its memory after",
            "VM suspending",
            "loaded: ",
        ];
        let places = places.map(|text| log.rfind(text));
        assert!(places.is_sorted() && places[0].is_some(), "{log}");
        assert_eq!(log.matches("loaded: ").count(), 1, "{log}");
    }
    // One that was not suspended with the host stays as it is.
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&["autostart"]);
    assert_eq!(all.doing("a"), "suspended");
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
    // It was not the host that suspended it.
    let _ = all.does(&["autostart"]);
    assert_eq!(all.doing("a"), "suspended");
}

fn resume_waited_for() {
    let all = slow();
    let _ = all.does(&["suspend", "a"]);
    // As a resume does that has not started QEMU yet.
    let mut holder = Command::new("flock")
        .arg(all.state_dir("a").join("lock"))
        .args(["sh", "-c", "echo taken; cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut taken = [0; 6];
    let stdout = holder.stdout.as_mut().unwrap();
    stdout.read_exact(&mut taken).unwrap();
    let down = all.vm(&["autostop", "--deadline", "2s", "--timeout", "1s"]);
    let _ = down
        .exits(125)
        .explains(&["error: a: another command works on a"]);
    let down = all.vm(&["autostop"]).spawn();
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    let ended = down.wait().exited(0);
    assert!(!ended.stderr.contains("a: "), "{}", ended.stderr);
    assert_eq!(all.doing("a"), "suspended");
}

/// As an upgrade of a distribution replaces it, by another release.
fn replaced() {
    let all = machines();
    create(&all, "a", &["--autoshutdown", "suspend"]);
    let _ = all.does(&["start", "a"]);
    let plan = all.runtime_dir("a").join("plan.json");
    let mut running: Value = serde_json::from_slice(&fs::read(&plan).unwrap()).unwrap();
    let was = running["qemu"].as_str().unwrap().to_owned();
    running["qemu"] = "9.99.0 (Debian 1:9.99)".into();
    running["machine"]["version"] = [9, 99].into();
    fs::write(&plan, running.to_string()).unwrap();
    let texts = ["runs in QEMU 9.99.0 (Debian 1:9.99), and ", &was];
    all.refuses(&["suspend", "a"], &texts);
    assert_eq!(all.output("a", "echo well"), "well\n");
    let down = all.vm(&["autostop"]).exits(125);
    let down = down.explains(&["error: a: it was not suspended, but stopped"]);
    let _ = down.explains(&texts);
    assert_eq!((all.doing("a").as_str(), all.count()), ("off", 0));
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

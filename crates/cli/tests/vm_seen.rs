//! Persistent VMs: each change of state is reported.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, File};
use std::io::Write;

use brisk_testkit::{Machines, Signal, brisk_of, qemu_is_before, trial, until};
use libtest_mimic::Arguments;

fn main() {
    let old = || qemu_is_before(8, 2);
    let trials = vec![
        trial("an_end_that_nobody_saw_is_logged", None::<String>, ended),
        trial(
            "a_running_machine_without_definition",
            None::<String>,
            undefined,
        ),
        trial(
            "a_suspended_machine_without_definition",
            old(),
            undefined_suspended,
        ),
        trial("commands_that_a_suspend_ends_are_named", old(), named),
        trial("a_suspend_waits_for_commands", old(), waits),
        trial("a_console_keeps_its_end", None::<String>, long),
        trial("a_fifth_command_waits_for_its_turn", None::<String>, queued),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

fn ended() {
    let all = machines();
    let gone = || until("QEMU has ended", || (all.count() == 0).then_some(()));
    let logged = |text: &str| all.does(&["log", "a"]).text().matches(text).count();
    all.boot("a", &[]);
    let crash = all.exec("a", "echo c > /proc/sysrq-trigger").spawn();
    gone();
    let _ = crash.wait();
    let panicked = "VM ended: its kernel panicked: Kernel panic - not syncing";
    assert_eq!((logged(panicked), logged(panicked)), (1, 1));
    let _ = all.does(&["start", "a"]);
    all.processes("qemu")[0].signal(Signal::KILL);
    gone();
    assert_eq!(all.glance("a"), "off");
    let _ = all.does(&["start", "a"]);
    assert_eq!((logged("VM ended by itself"), logged(panicked)), (1, 1));
    // What a command does is reported as that.
    let _ = all.does(&["kill", "a"]);
    assert_eq!((logged("VM ended by itself"), logged("VM killed")), (1, 1));
}

fn long() {
    let all = machines();
    all.boot("a", &[]);
    let console = all.state_dir("a").join("console.log");
    let length = || fs::metadata(&console).unwrap().len();
    let mut file = File::options().append(true).open(&console).unwrap();
    // One that was killed is started again by the next command that looks. Its lock goes a little
    // later than it is seen to be gone.
    let watcher = || {
        let mut all = all.processes("brisk").into_iter();
        all.find(|one| one.words.contains(&"bound-logs".into()))
    };
    let first = until("somebody watches the console", watcher);
    first.signal(Signal::KILL);
    until("somebody else does", || {
        assert_eq!(all.doing("a"), "running");
        watcher().filter(|one| one.pid != first.pid)
    });
    let line = format!("{}\n", "x".repeat(99));
    file.write_all(line.repeat(50_000).as_bytes()).unwrap();
    // For a moment the file has only a part of what it keeps.
    until("the beginning is gone, and the end is there", || {
        (2_000_000 - 100..3_000_000)
            .contains(&length())
            .then_some(())
    });
    // The guest's own lines follow, and its panic is found though the file was longer once.
    let _ = all.output("a", "echo '<0>the guest goes on' > /dev/kmsg");
    until("the guest's line is there", || {
        let text = all.does(&["console", "a"]).text();
        text.contains("the guest goes on").then_some(())
    });
    let crash = all.exec("a", "echo c > /proc/sysrq-trigger").spawn();
    until("QEMU has ended", || (all.count() == 0).then_some(()));
    let _ = crash.wait();
    let log = all.does(&["log", "a"]).text();
    assert!(log.contains("Kernel panic - not syncing"), "{log}");
    // Nothing of ours stays behind.
    until("all have ended", || {
        (all.count_of("brisk") == 0).then_some(())
    });
}

fn undefined() {
    let all = machines();
    all.boot("a", &[]);
    let definition = all.definition("a");
    fs::rename(&definition, definition.with_extension("away")).unwrap();
    let list = all
        .does(&["list"])
        .explains(&["a.toml is not there", "brisk vm kill"]);
    assert!(
        list.text().contains("running, no definition"),
        "{}",
        list.text()
    );
    for command in ["start", "suspend", "info"] {
        all.refuses(&[command, "a"], &["a.toml is not there", "put it back"]);
    }
    all.refuses(&["rm", "a"], &["a is running"]);
    let _ = all.does(&["kill", "a"]);
    assert_eq!(all.count(), 0);
    assert_eq!(all.glance("a"), "off, no definition");
    let _ = all.does(&["rm", "a"]);
    assert!(!all.state_dir("a").exists());
    assert!(!all.does(&["list"]).text().contains("no definition"));
}

fn undefined_suspended() {
    let all = machines();
    let image = all.dir().join("a.brisk");
    all.boot("a", &["--suspend-path", image.to_str().unwrap()]);
    let _ = all.output("a", "echo mine > /run/file");
    let _ = all.does(&["suspend", "a"]);
    let definition = all.definition("a");
    let away = definition.with_extension("away");
    fs::rename(&definition, &away).unwrap();
    assert_eq!(all.glance("a"), "suspended, no definition");
    all.refuses(&["rm", "a"], &["a is suspended"]);
    all.refuses(&["resume", "a"], &["a.toml is not there"]);
    fs::rename(&away, &definition).unwrap();
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", "cat /run/file"), "mine\n");
    let _ = all.does(&["suspend", "a"]);
    fs::remove_file(&definition).unwrap();
    let _ = all.does(&["discard", "a"]);
    assert!(!image.exists());
    let _ = all.does(&["rm", "a"]);
    assert!(!all.state_dir("a").exists());
}

fn named() {
    let all = machines();
    all.boot("a", &[]);
    let run = all.spawns("a", "echo up; busybox sleep 1000");
    let process = format!("(process {})", run.id());
    let suspended = all.does(&["suspend", "a"]);
    let _ = suspended.explains(&["ends sh -c echo up; busybox sleep 1000", &process, "--wait"]);
    let _ = run.wait().exited(120);
    let log = all.does(&["log", "a"]).text();
    assert!(log.contains("Command sh of process"), "{log}");
    // Its words may be secret.
    assert!(!log.contains("sleep"), "{log}");
}

fn waits() {
    let all = machines();
    all.boot("a", &[]);
    let run = all.spawns(
        "a",
        "echo up; until test -e /run/go; do busybox sleep 0.05; done; exit 7",
    );
    let mut suspend = all.vm(&["suspend", "a", "--wait"]).spawn();
    suspend.says("waiting for the end of sh -c echo up");
    assert_eq!(all.glance("a"), "running");
    // The first port is taken, and the others are held as soon as it is free.
    let _ = all.output("a", "echo > /run/go");
    let _ = run.wait().exited(7);
    let _ = suspend.wait().exited(0);
    assert_eq!(all.glance("a"), "suspended");
}

fn queued() {
    let all = machines();
    all.boot("a", &[]);
    let run = || {
        all.spawns(
            "a",
            "echo up; until test -e /run/go; do busybox sleep 0.05; done",
        )
    };
    let runs: Vec<_> = (0..4).map(|_| run()).collect();
    let mut fifth = all.exec("a", "echo > /run/go; echo fifth").spawn();
    fifth.read();
    fifth.says("waiting: a runs as many commands as it can at once: sh -c echo up");
    runs[2].signal(Signal::TERM);
    assert_eq!(fifth.wait().exited(0).text(), "fifth\n");
    for run in runs {
        let _ = run.wait();
    }
}

//! VMs whose files are others' or none, and whose QEMU does not answer: none is lost, and no command
//! waits for what does not come.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use brisk_testkit::{Machines, Mount, Signal, brisk_of, qemu_is_before, trials, until};
use libtest_mimic::Arguments;
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

fn main() {
    let tests: [(&str, fn()); 7] = [
        ("a_cache_of_others_keeps_no_machine_from_its_end", cache),
        ("a_machine_without_its_sockets_is_not_off", sockets),
        ("a_pipe_is_not_waited_for", pipes),
        ("a_log_is_not_written_through_a_link", links),
        ("what_is_known_of_disks_must_be_readable", standing),
        ("an_image_is_discarded_with_its_record", discarded),
        ("a_kill_keeps_what_a_silent_machine_is_in", silent),
    ];
    let all = trials(qemu_is_before(8, 2), tests);
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

fn pipe(path: &Path) {
    let _ = fs::remove_file(path);
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
}

/// Has a VM's QEMU execute a command without arguments.
fn qmp(all: &Machines, name: &str, command: &str) {
    let stream = UnixStream::connect(all.runtime_dir(name).join("qmp.sock")).unwrap();
    let mut lines = BufReader::new(&stream).lines().map(Result::unwrap);
    for command in ["qmp_capabilities", command] {
        writeln!(&stream, "{{\"execute\": \"{command}\", \"id\": 1}}").unwrap();
        lines.find(|line| line.contains("\"id\": 1")).unwrap();
    }
}

/// A shutdown needs none.
fn cache() {
    let all = machines();
    for (name, how) in [("a", "suspend"), ("b", "shutdown")] {
        all.boot(name, &["--autoshutdown", how]);
    }
    let open = all.dir().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    let down = all.vm(&["autostop"]).env("BRISK_CACHE_DIR", &open);
    let _ = down.exits(125).explains(&[
        "error: others can change what is in",
        "a: suspended in",
        "b: stopped in",
    ]);
    assert_eq!(all.count(), 0);
    let _ = all.does(&["resume", "a"]);
}

/// As by a program that removes old files.
fn sockets() {
    let all = machines();
    all.boot("a", &[]);
    fs::remove_file(all.runtime_dir("a").join("qmp.sock")).unwrap();
    assert_eq!(all.glance("a"), "busy");
    all.refuses(&["start", "a"], &["runs already"]);
    all.refuses(&["rm", "a"], &["busy"]);
    assert_eq!(all.count(), 1);
    let _ = all.does(&["kill", "a"]);
    assert_eq!(all.count(), 0);
    // Its number is lost, too.
    let _ = all.does(&["start", "a"]);
    for record in [
        all.runtime_dir("a").join("pid"),
        all.state_dir("a").join("process"),
    ] {
        fs::remove_file(record).unwrap();
    }
    let _ = all.does(&["stop", "a"]);
    assert_eq!(all.count(), 0);
}

fn pipes() {
    let all = machines();
    all.boot("a", &[]);
    let (state, runtime) = (all.state_dir("a"), all.runtime_dir("a"));
    for name in ["log", "working-set", "standing", "process"] {
        pipe(&state.join(name));
    }
    for name in [
        "base",
        "in-image",
        "disk-error",
        "image-unreadable",
        "console-start",
    ] {
        pipe(&runtime.join(name));
    }
    assert_eq!(all.doing("a"), "running");
    let _ = all.does(&["info", "a"]);
    all.refuses(&["log", "a"], &["it is not a regular file"]);
    all.refuses(&["suspend", "a"], &["standing", "it is not a regular file"]);
    fs::remove_file(state.join("standing")).unwrap();
    let _ = all.does(&["suspend", "a"]);
    pipe(&state.join("console.log"));
    all.refuses(&["resume", "a", "--eager"], &["console.log"]);
    all.refuses(&["resume", "a"], &["console.log"]);
    assert_eq!(all.doing("a"), "suspended");
    fs::remove_file(state.join("console.log")).unwrap();
    let _ = all.does(&["resume", "a"]);
    pipe(&state.join("lock"));
    pipe(&runtime.join("port0.lock"));
    all.refuses(&["exec", "a", "--", "true"], &["port0.lock"]);
    let _ = all.does(&["stop", "a"]);
    assert_eq!(all.count(), 0);
    pipe(&state.join("suspended"));
    all.refuses(&["start", "a"], &["lock", "it is not a regular file"]);
    fs::remove_file(state.join("lock")).unwrap();
    all.refuses(&["start", "a"], &["may be suspended"]);
    fs::remove_file(state.join("suspended")).unwrap();
    let _ = all.does(&["start", "a"]);
}

/// Whoever can change the files of a VM that root ends.
fn links() {
    let all = machines();
    all.boot("a", &["--autoshutdown", "suspend"]);
    let other = all.dir().join("other");
    fs::write(&other, "mine\n").unwrap();
    for name in ["log", "lock"] {
        let _ = fs::remove_file(all.state_dir("a").join(name));
        symlink(&other, all.state_dir("a").join(name)).unwrap();
    }
    let state = all.dir().join("state");
    fs::set_permissions(&state, Permissions::from_mode(0o777)).unwrap();
    let down = all.vm(&["autostop"]).exits(125);
    let _ = down.explains(&["a: it was not suspended, but stopped", "others can change"]);
    assert_eq!(all.count(), 0);
    assert_eq!(fs::read_to_string(&other).unwrap(), "mine\n");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // Records that others made name no process to end, and no file to remove.
    fs::set_permissions(&state, Permissions::from_mode(0o755)).unwrap();
    let _ = fs::remove_file(all.state_dir("a").join("lock"));
    let _ = all.does(&["start", "a"]);
    let plan = all.runtime_dir("a").join("plan.json");
    let mut text: Value = serde_json::from_str(&fs::read_to_string(&plan).unwrap()).unwrap();
    text["machine"]["memory"]["ram"] = json!({ "File": other });
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", stranger.id())).unwrap();
    let start = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .nth(19)
        .unwrap();
    let record = format!("{} {start}\n", stranger.id());
    let (pid, process) = (
        all.runtime_dir("a").join("pid"),
        all.state_dir("a").join("process"),
    );
    for (path, text) in [
        (&plan, text.to_string()),
        (&pid, record.clone()),
        (&process, record),
    ] {
        fs::write(path, text).unwrap();
        chown(path, Some(12345), None).unwrap();
    }
    let _ = all.does(&["kill", "a"]);
    assert_eq!(all.count(), 0);
    assert!(stranger.try_wait().unwrap().is_none());
    assert!(other.exists());
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

/// A guest that stands still goes on only if its disks are what they were.
fn standing() {
    let all = machines();
    all.boot("a", &[]);
    qmp(&all, "a", "stop");
    let record = all.state_dir("a").join("standing");
    fs::write(&record, "{").unwrap();
    let why = ["standing, which says what its disks were, cannot be read"];
    all.refuses(&["resume", "a"], &why);
    all.refuses(&["suspend", "a"], &why);
    assert_eq!(all.doing("a"), "paused");
    fs::remove_file(&record).unwrap();
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", "echo on"), "on\n");
}

fn discarded() {
    let all = machines();
    let state = Mount::failing(all.dir().join("state"), 400 << 20);
    let image = all.dir().join("a.brisk");
    all.boot("a", &["--suspend-path", image.to_str().unwrap()]);
    let _ = all.does(&["suspend", "a"]);
    state.fail();
    let why = ["cannot remove", "suspended", "Read-only file system"];
    all.refuses(&["discard", "a"], &why);
    assert_eq!(all.doing("a"), "suspended");
    let resumed = image.with_extension("brisk.resumed");
    fs::rename(&image, &resumed).unwrap();
    all.refuses(&["discard", "a"], &why);
    assert_eq!(all.doing("a"), "resume cut off");
    fs::rename(&resumed, all.dir().join("away")).unwrap();
    all.refuses(&["discard", "a"], &why);
    assert_eq!(all.doing("a"), "image missing");
}

/// The command that suspended it was killed, and its QEMU does not answer.
fn silent() {
    let all = machines();
    all.boot("a", &["--compression", "none"]);
    let fill = "mkdir /m && mount -t tmpfs none /m && dd if=/dev/urandom of=/m/x bs=1M count=30 \
                && echo mine > /run/file";
    let _ = all.output("a", fill);
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&["resume", "a", "--eager"]);
    let image = all.state_dir("a").join("a.brisk");
    assert!(image.with_extension("brisk.base-0").exists());
    // What changes is written so slowly that QEMU can be stopped meanwhile.
    let _ = all.output(
        "a",
        "dd if=/dev/urandom of=/m/x bs=1M count=10 conv=notrunc",
    );
    let _ = all.does(&["set", "a", "--bandwidth", "2M"]);
    let suspending = all.vm(&["suspend", "a"]).spawn();
    let io = format!("/proc/{}/io", suspending.id());
    until("it writes", || {
        let io = fs::read_to_string(&io).unwrap();
        let written = io.lines().find_map(|line| line.strip_prefix("wchar: "));
        let written: u64 = written.unwrap().parse().unwrap();
        (written > 1 << 20).then_some(())
    });
    let [qemu] = &all.processes("qemu")[..] else {
        panic!("one QEMU")
    };
    qemu.signal(Signal::STOP);
    let record = all.state_dir("a").join("suspended");
    until("it is noted", || record.exists().then_some(()));
    // Nor does its command, for now.
    suspending.signal(Signal::STOP);
    let text = format!(
        "process {0}, which is stopped (kill -CONT {0}",
        suspending.id()
    );
    until("it is stopped", || {
        let refused = all.vm(&["kill", "a"]).exits(125);
        refused.stderr.contains(&text).then_some(())
    });
    suspending.signal(Signal::KILL);
    let _ = suspending.wait();
    assert_eq!(all.glance("a"), "busy");
    let _ = all.does(&["kill", "a"]);
    assert_eq!(all.count(), 0);
    assert_eq!(all.doing("a"), "suspended");
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", "cat /run/file"), "mine\n");
}

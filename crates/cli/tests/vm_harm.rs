//! What a full disk, a limit or another user does to a VM does not lose it.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use brisk_testkit::{Machines, Mount, Signal, Taken, brisk_of, qemu_is_before, trials, until};
use libtest_mimic::Arguments;

fn main() {
    let tests: [(&str, fn()); 13] = [
        ("a_full_disk_keeps_no_machine_from_its_end", full),
        ("a_read_only_disk_keeps_no_machine_from_its_end", read_only),
        ("a_terminal_that_takes_nothing_stops_no_guest", stuck),
        ("a_key_that_is_lost_is_not_made_anew", lost_key),
        ("a_state_directory_that_is_not_mounted", not_mounted),
        ("a_state_directory_that_cannot_be_reached", unreachable),
        ("the_disks_of_a_resume_that_was_cut_off", cut_off),
        ("an_image_that_cannot_be_noted", not_noted),
        ("other_files_beside_definitions", other_files),
        ("a_process_of_an_earlier_boot", earlier_boot),
        ("a_name_that_is_too_long_to_be_resumed", long_name),
        ("a_limit_of_the_size_of_files", limit),
        ("a_lock_of_who_may_read_a_disk", locked),
    ];
    let all = trials(qemu_is_before(8, 2), tests);
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

fn create(all: &Machines, name: &str, words: &[&str]) {
    let _ = all.does(&[&["create", name, "--memory", "128M"], words].concat());
}

/// A disk, and the words of a VM that has it.
fn disk(all: &Machines) -> (PathBuf, String) {
    let path = all.dir().join("disk.raw");
    File::create_new(&path).unwrap().set_len(1 << 20).unwrap();
    let words = format!("{},format=raw", path.display());
    (path, words)
}

fn full() {
    let all = machines();
    let state = Mount::tmpfs(all.dir().join("state"), "size=200m");
    let elsewhere = all.dir().join("f.brisk");
    let words = [
        "--autoshutdown",
        "suspend",
        "--suspend-path",
        elsewhere.to_str().unwrap(),
    ];
    create(&all, "f", &words);
    create(&all, "g", &["--autoshutdown", "shutdown"]);
    for name in ["f", "g"] {
        let _ = all.does(&["start", name]);
        // As a command leaves it that came when it was full already.
        File::create(all.state_dir(name).join("lock")).unwrap();
    }
    state.fill("fill", 0);
    let _ = File::create(state.path().join("last")).and_then(|mut last| {
        use std::io::Write;
        last.write_all(&[1; 1 << 16])
    });
    let down = all.vm(&["autostop"]).exits(125);
    let _ = down.explains(&[
        "error: f: it was not suspended, but stopped: ",
        "No space left",
        "g: stopped in",
    ]);
    assert_eq!(["f", "g"].map(|name| all.doing(name)), ["off", "off"]);
    assert_eq!(all.count(), 0);
}

/// As ext4 becomes it by an error (`errors=remount-ro`).
fn read_only() {
    let all = machines();
    let state = Mount::failing(all.dir().join("state"), 400 << 20);
    let elsewhere = all.dir().join("images");
    fs::create_dir(&elsewhere).unwrap();
    let image = elsewhere.join("%{name}");
    let suspends = [
        "--autoshutdown",
        "suspend",
        "--suspend-path",
        image.to_str().unwrap(),
    ];
    let names = ["kill", "stop", "suspend", "shutdown"];
    for name in names {
        create(&all, name, &suspends);
        let _ = all.does(&["start", name]);
    }
    // Locked by its directory, where the lock was never made.
    fs::remove_file(all.state_dir("stop").join("lock")).unwrap();
    state.fail();
    let _ = all.does(&["kill", "kill"]);
    let _ = all.does(&["stop", "stop"]);
    // What cannot be recorded is found while the guest runs.
    all.refuses(&["suspend", "suspend"], &["Read-only file system"]);
    assert_eq!(all.output("suspend", "echo on"), "on\n");
    all.refuses(&["suspend", "stop"], &["does not run"]);
    let down = all.vm(&["autostop"]).exits(125);
    let _ = down.explains(&[
        "error: suspend: it was not suspended, but stopped: ",
        "error: shutdown: it was not suspended, but stopped: ",
        "Read-only file system",
    ]);
    assert_eq!(names.map(|name| all.doing(name)), ["off"; 4]);
    assert_eq!(all.count(), 0);
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    // Nothing can be started there, and that is said.
    all.refuses(&["start", "stop"], &["Read-only file system"]);
    assert_eq!(all.count(), 0);
}

/// As by an I/O error, or a server that is gone: VMs stop all the same.
fn unreachable() {
    let all = machines();
    let names = ["kill", "stop", "suspend"];
    for name in names {
        create(&all, name, &["--autoshutdown", "suspend"]);
        let _ = all.does(&["start", name]);
    }
    let state = all.dir().join("state/vm");
    fs::rename(&state, all.dir().join("away")).unwrap();
    symlink("vm", &state).unwrap();
    let _ = all.does(&["kill", "kill"]);
    let _ = all.does(&["stop", "stop"]);
    all.refuses(&["suspend", "suspend"], &["symbolic links"]);
    assert_eq!(all.output("suspend", "echo on"), "on\n");
    // A command that works on a VM still keeps others from it.
    let holder = File::open(all.runtime_dir("suspend")).unwrap();
    let alone = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    rustix::fs::flock(&holder, alone).unwrap();
    all.refuses(&["stop", "suspend"], &["another command"]);
    drop(holder);
    let down = all.vm(&["autostop"]).exits(125);
    let _ = down.explains(&["error: suspend: it was not suspended, but stopped: "]);
    assert_eq!(all.count(), 0);
}

/// A suspended VM is not booted anew where its state directory is missing.
fn not_mounted() {
    let all = machines();
    all.boot("a", &["--autoboot"]);
    let _ = all.output("a", "echo mine > /run/file");
    let _ = all.does(&["suspend", "a"]);
    let (state, away) = (all.dir().join("state"), all.dir().join("away"));
    fs::rename(&state, &away).unwrap();
    assert_eq!(all.doing("a"), "image missing");
    let why = ["its state directory", "is missing", "mount its file system"];
    for words in [&["start", "a"][..], &["resume", "a"], &["rm", "a"]] {
        all.refuses(words, &why);
    }
    let _ = all.vm(&["autostart"]).exits(125).explains(&why);
    assert!(!state.join("vm").exists());
    assert_eq!(all.count(), 0);
    // It is mounted.
    let _ = fs::remove_dir_all(&state);
    fs::rename(&away, &state).unwrap();
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", "cat /run/file"), "mine\n");
    let _ = all.does(&["stop", "a"]);
    // Then it is not suspended, and starts where nothing of it is left.
    fs::remove_dir_all(&state).unwrap();
    let _ = all.does(&["start", "a"]);
    let _ = all.does(&["suspend", "a"]);
    fs::remove_dir_all(&state).unwrap();
    let _ = all.does(&["discard", "a"]);
    assert_eq!(all.doing("a"), "off");
    let _ = all.does(&["start", "a"]);
}

/// Ctrl-S, a stalled connection, a pager: the guest does not wait for who looks on.
fn stuck() {
    let all = machines();
    create(&all, "a", &["--bandwidth", "20M", "--compression", "none"]);
    let _ = all.does(&["start", "a"]);
    let image = all.state_dir("a").join("a.brisk");
    let ends = |words: &[&str], what: &str, there: &dyn Fn() -> bool| {
        let (run, window) = all.vm(words).on_terminal(24, 80);
        window.takes(false);
        until(what, || there().then_some(()));
        // It has done its work, and may wait to say so; nothing else keeps it.
        run.signal(Signal::TERM);
        let _ = run.wait();
    };
    let is_suspended = || image.exists() && all.glance("a") == "suspended";
    ends(&["suspend", "a"], "it is suspended", &is_suspended);
    ends(&["resume", "a", "--clone", "b"], "the clone runs", &|| {
        all.definition("b").exists() && all.glance("b") == "running"
    });
    assert_eq!(all.output("b", "hostname"), "b\n");
    ends(&["resume", "a", "--eager"], "it runs", &|| {
        all.glance("a") == "running"
    });
    assert_eq!(all.output("a", "hostname"), "a\n");
    ends(&["suspend", "a"], "it is suspended again", &is_suspended);
    let key = all.dir().join("new.key");
    let image_of = |words: &[&str]| {
        let rekey = [&["rekey", image.to_str().unwrap()], words].concat();
        all.with(brisk_of!["image"]).args(rekey)
    };
    let other = format!("--for-host={}", key.display());
    let _ = image_of(&[&other]).exits(0);
    let before = fs::metadata(&image).unwrap().ino();
    let words = ["--host-key", key.to_str().unwrap(), "--for-host"];
    let (run, window) = image_of(&words).on_terminal(24, 80);
    window.takes(false);
    until("it has another key", || {
        (fs::metadata(&image).unwrap().ino() != before).then_some(())
    });
    run.signal(Signal::TERM);
    let _ = run.wait();
}

fn lost_key() {
    let all = machines();
    for name in ["a", "b"] {
        create(&all, name, &[]);
        let _ = all.does(&["start", name]);
    }
    let key = all.dir().join("state/suspend.key");
    let advice = ["made", "suspend.key", "back it up"];
    let _ = all.does(&["suspend", "a"]).explains(&advice);
    let (backup, image) = (
        key.with_extension("backup"),
        all.state_dir("a").join("a.brisk"),
    );
    fs::rename(&key, &backup).unwrap();
    let lost = ["suspend.key is not there", "(a)", "back from its backup"];
    all.refuses(&["suspend", "b"], &lost);
    assert_eq!(all.output("b", "echo on"), "on\n");
    let rekey = [
        "rekey",
        "--host-key",
        backup.to_str().unwrap(),
        "--for-host",
    ];
    let rekey = all.with(brisk_of!["image"]).args(rekey).arg(&image);
    let _ = rekey.exits(125).explains(&lost);
    // Nor while its image is somewhere else.
    let away = all.dir().join("away");
    fs::rename(&image, &away).unwrap();
    all.refuses(&["suspend", "b"], &lost);
    // Nor where the key is to be on a disk that is not mounted.
    symlink("/nonexistent/key", &key).unwrap();
    all.refuses(&["suspend", "b"], &["suspend.key"]);
    fs::remove_file(&key).unwrap();
    assert!(!key.exists());
    fs::rename(&away, &image).unwrap();
    fs::rename(&backup, &key).unwrap();
    let text = all.does(&["suspend", "b"]).stderr;
    assert!(!text.contains("made"), "{text}");
    for name in ["a", "b"] {
        let _ = all.does(&["resume", name]);
        assert_eq!(all.output(name, "hostname"), format!("{name}\n"));
    }
    // Nothing needs one that is lost now.
    fs::rename(&key, &backup).unwrap();
    for name in ["a", "b"] {
        until("it has all of its memory, and its image is gone", || {
            let files = fs::read_dir(all.state_dir(name)).unwrap();
            let mut names = files.map(|file| file.unwrap().file_name());
            let is_image = |file: OsString| {
                let name = file.to_string_lossy();
                name.ends_with(".brisk") || name.ends_with(".resumed")
            };
            (!names.any(is_image)).then_some(())
        });
    }
    let _ = all.does(&["suspend", "a"]).explains(&advice);
}

fn cut_off() {
    let all = machines();
    let (_, words) = disk(&all);
    for name in ["a", "b"] {
        create(&all, name, &["--disk", &words]);
    }
    let _ = all.does(&["start", "a"]);
    let _ = all.does(&["suspend", "a"]);
    all.refuses(&["start", "b"], &["disk.raw", "VM a"]);
    // As a power cut leaves it, directly before the guest runs.
    let image = all.state_dir("a").join("a.brisk");
    fs::rename(&image, image.with_extension("brisk.resumed")).unwrap();
    assert_eq!(all.doing("a"), "resume cut off");
    all.refuses(&["start", "b"], &["disk.raw", "VM a"]);
    let _ = all.does(&["resume", "a", "--again"]);
    let _ = all.does(&["stop", "a"]);
    let _ = all.does(&["start", "b"]);
}

fn not_noted() {
    let all = machines();
    let (_, words) = disk(&all);
    for name in ["a", "b"] {
        create(&all, name, &["--disk", &words, "--autoshutdown", "suspend"]);
    }
    let _ = all.does(&["start", "a"]);
    // It is found before the guest stands still.
    let blocked = all.state_dir("a").join("suspended.new/x");
    fs::create_dir_all(&blocked).unwrap();
    all.refuses(&["suspend", "a"], &["suspended.new"]);
    assert_eq!(all.output("a", "echo on"), "on\n");
    assert!(!all.state_dir("a").join("a.brisk").exists());
    fs::remove_dir_all(blocked.parent().unwrap()).unwrap();
    let blocked = all.state_dir("a").join("suspended");
    fs::create_dir_all(blocked.join("x")).unwrap();
    all.refuses(
        &["suspend", "a"],
        &["is suspended to", "no other guest is kept from its disks"],
    );
    fs::remove_dir_all(&blocked).unwrap();
    let _ = all.does(&["resume", "a"]);
    // One that goes down with the host comes back with it.
    fs::create_dir_all(blocked.join("x")).unwrap();
    let down = all.vm(&["autostop"]).exits(125);
    let _ = down.explains(&["is suspended to", "could not be noted"]);
    fs::remove_dir_all(&blocked).unwrap();
    assert_eq!(all.doing("a"), "suspended");
    let _ = all.does(&["autostart"]).explains(&["a: resumed in"]);
    // What an earlier one prepared is not taken for it.
    let _ = all.does(&["suspend", "a"]);
    assert!(!all.state_dir("a").join("suspended.new").exists());
    all.refuses(&["start", "b"], &["disk.raw", "VM a"]);
}

fn other_files() {
    let all = machines();
    create(&all, "a", &["--autoboot"]);
    let beside = |name: &str| all.definition(name);
    // The lock of an editor, and a file that somebody has copied.
    symlink("user@host.1:2", beside(".#a")).unwrap();
    fs::write(beside("a (copy)"), "autoboot = true\n").unwrap();
    let _ = all.does(&["autostart"]).explains(&["a: started in"]);
    let _ = all.does(&["autostop"]).explains(&["a: stopped in"]);
    let list = all.does(&["list"]).explains(&["a (copy)"]);
    assert!(!list.stderr.contains(".#a"), "{}", list.stderr);
    // A link that somebody turned round.
    symlink("z.toml", beside("z")).unwrap();
    let hint = ["z.toml", "a link there leads to itself"];
    all.refuses(&["rm", "z"], &hint);
}

fn earlier_boot() {
    let all = machines();
    create(&all, "a", &[]);
    let _ = all.does(&["start", "a"]);
    let record = all.state_dir("a").join("process");
    let text = fs::read_to_string(&record).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert!(text.contains(boot.trim()), "{text}");
    let _ = all.does(&["stop", "a"]);
    let mut other = Command::new("sleep")
        .arg("600")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", other.id())).unwrap();
    let start = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19);
    let start = start.unwrap();
    fs::write(&record, format!("{} {start} another-boot\n", other.id())).unwrap();
    assert_eq!(all.doing("a"), "off");
    let _ = all.vm(&["kill", "a"]).output();
    assert!(other.try_wait().unwrap().is_none());
    let _ = all.does(&["start", "a"]);
    other.kill().unwrap();
    other.wait().unwrap();
}

fn long_name() {
    let all = machines();
    let path = all.dir().join("x".repeat(240));
    create(&all, "a", &["--suspend-path", path.to_str().unwrap()]);
    let _ = all.does(&["start", "a"]);
    all.refuses(
        &["suspend", "a"],
        &["is longer than 223 bytes", "--suspend-path"],
    );
    assert_eq!(all.output("a", "echo on"), "on\n");
}

fn limit() {
    let all = machines();
    all.boot("a", &["--compression", "none"]);
    let fill = "mkdir /m && mount -t tmpfs none /m && dd if=/dev/urandom of=/m/x bs=1M count=30";
    let _ = all.output("a", fill);
    // Of 1024 bytes.
    let limited = all.vm(&["suspend", "a"]).in_shell("ulimit -f 4000; ", "");
    let _ = limited.exits(125).explains(&["File too large"]);
    assert_eq!(all.doing("a"), "running");
    assert_eq!(all.output("a", "echo on"), "on\n");
}

fn locked() {
    let all = machines();
    let (path, words) = disk(&all);
    all.boot("a", &["--disk", &words]);
    let reader = Taken::by_a_reader(&path);
    all.refuses(
        &["suspend", "a"],
        &["another process has a lock on", "disk.raw"],
    );
    assert_eq!(all.output("a", "echo on"), "on\n");
    drop(reader);
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&["resume", "a"]);
    assert!(Path::new(&path).exists());
}

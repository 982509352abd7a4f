//! What a full disk, a limit or another user does to a VM does not lose it.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use brisk_testkit::{Machines, Mount, Taken, brisk_of, qemu_is_before, trials};
use libtest_mimic::Arguments;

fn main() {
    let tests: [(&str, fn()); 8] = [
        ("a_full_disk_keeps_no_machine_from_its_end", full),
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
    assert_eq!(all.doing("a"), "suspended");
    fs::remove_dir_all(&blocked).unwrap();
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

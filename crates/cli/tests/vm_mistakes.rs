//! What a mistake, a killed command or a stranger leaves does not lose a VM, nor has it run
//! twice.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use brisk_testkit::{
    Machines, Signal, brisk_of, capture, ext4, qemu_is_before, tool, tree, trial, until,
};
use libtest_mimic::Arguments;

fn main() {
    let old = || qemu_is_before(8, 2);
    let none = || None::<String>;
    let trials = vec![
        trial("a_disk_of_a_suspend_that_was_killed", old(), killed_suspend),
        trial(
            "a_machine_that_was_started_after_a_killed_suspend",
            old(),
            ended_and_started,
        ),
        trial("a_disk_that_changed_after_a_killed_suspend", old(), changed),
        trial(
            "a_definition_that_is_gone_is_not_made_anew",
            old(),
            made_anew,
        ),
        trial("a_backing_file_of_a_suspended_machine", old(), backing),
        trial("a_stop_right_after_the_start", none(), early_stop),
        trial("what_cannot_boot_is_not_defined", none(), unbootable),
        trial("a_uuid_that_came_after_the_suspend", old(), uuid_after),
        trial("a_runtime_directory_that_is_gone", none(), no_runtime),
        trial(
            "a_header_with_another_file_and_the_old_time",
            old(),
            other_file,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

fn unbootable() {
    let all = machines();
    let text = all.dir().join("text");
    fs::write(&text, "no image\n").unwrap();
    let text = text.to_str().unwrap();
    let share = format!("{text}:/mnt");
    for (words, reason) in [
        (["--root", text], "not a root"),
        (["--kernel", text], "not a kernel but a text file"),
        (["--disk", "/nonexistent"], "does not exist"),
        (["--share", &share], "cannot share"),
    ] {
        all.refuses(&[&["create", "a"], &words[..]].concat(), &[reason]);
        assert!(!all.definition("a").exists(), "{words:?}");
    }
    let disk = disk(&all);
    let words = format!("{},format=raw", disk.display());
    let _ = all.does(&["create", "a", "--disk", &words]);
}

fn disk(all: &Machines) -> PathBuf {
    let path = all.dir().join("disk.raw");
    File::create_new(&path).unwrap().set_len(1 << 20).unwrap();
    path
}

/// A VM `a` whose suspend was killed when its guest stood still, and its disk.
fn stands_still(all: &Machines) -> PathBuf {
    let disk = disk(all);
    let format = format!("{},format=raw", disk.display());
    all.boot("a", &["--disk", &format, "--compression", "none"]);
    // So slowly that it is not done before it is killed.
    let _ = all.does(&["set", "a", "--bandwidth", "1M"]);
    let suspend = all.vm(&["suspend", "a"]).spawn();
    let record = all.state_dir("a").join("standing");
    until("QEMU has written the state of its devices", || {
        let text = fs::read_to_string(&record).ok()?;
        text.contains("\"identities\":[{").then_some(())
    });
    let image = all.state_dir("a");
    until("the image is being written", || {
        let log = fs::read_to_string(image.join("log")).ok()?;
        log.contains("VM suspending").then_some(())
    });
    suspend.signal(Signal::KILL);
    let _ = suspend.wait();
    disk
}

fn killed_suspend() {
    let all = machines();
    let disk = stands_still(&all);
    assert_eq!(all.doing("a"), "paused");
    let format = format!("{},format=raw", disk.display());
    let _ = all.does(&["create", "b", "--memory", "128M", "--disk", &format]);
    all.refuses(&["start", "b"], &["disk.raw", "VM a"]);
    // It goes on, and the record is gone.
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", "echo on"), "on\n");
    assert!(!all.state_dir("a").join("standing").exists());
    let _ = all.does(&["stop", "a"]);
    let _ = all.does(&["start", "b"]);
}

/// The record of one QEMU does not count for the next.
fn ended_and_started() {
    let all = machines();
    let _ = stands_still(&all);
    let _ = all.does(&["kill", "a"]);
    assert!(!all.state_dir("a").join("standing").exists());
    let _ = all.does(&["set", "a", "--bandwidth", "none"]);
    let _ = all.does(&["start", "a"]);
    let _ = all.output("a", "echo other > /dev/vda; sync");
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&["resume", "a"]);
}

fn changed() {
    let all = machines();
    let disk = stands_still(&all);
    fs::write(&disk, vec![1; 1 << 20]).unwrap();
    let texts = ["stands still", "disk.raw", "has changed", "--accept-disk"];
    all.refuses(&["resume", "a"], &texts);
    all.refuses(&["suspend", "a"], &texts);
    assert_eq!(all.doing("a"), "paused");
    let _ = all.does(&["resume", "a", "--accept-disk", disk.to_str().unwrap()]);
    assert_eq!(all.output("a", "echo on"), "on\n");
}

fn made_anew() {
    let all = machines();
    all.boot("a", &[]);
    let _ = all.output("a", "echo mine > /run/file");
    let _ = all.does(&["suspend", "a"]);
    let definition = all.definition("a");
    let away = all.dir().join("away");
    fs::rename(&definition, &away).unwrap();
    all.refuses(&["create", "a"], &["definition is gone", "brisk vm rm a"]);
    assert!(!definition.exists());
    fs::rename(&away, &definition).unwrap();
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", "cat /run/file"), "mine\n");
}

fn backing() {
    let all = machines();
    let base = disk(&all);
    let image = all.dir().join("top.qcow2");
    let [base, top] = [base, image].map(|path| path.to_str().unwrap().to_owned());
    let words = [
        "create", "-q", "-f", "qcow2", "-b", &base, "-F", "raw", &top,
    ];
    capture(&tool("qemu-img"), &words);
    all.boot("a", &["--disk", &top]);
    let _ = all.does(&["suspend", "a"]);
    let format = format!("{base},format=raw");
    let _ = all.does(&["create", "b", "--memory", "128M", "--disk", &format]);
    all.refuses(&["start", "b"], &["disk.raw", "VM a"]);
    let _ = all.does(&["resume", "a"]);
}

/// A PID 1 that heeds the request only some seconds after it has begun.
fn early_stop() {
    let all = machines();
    let root = all.dir().join("root");
    tree(&root);
    let init = "#!/bin/sh\ntrap '' INT\nsleep 4\ntrap 'busybox reboot -f' INT\n\
                while :; do sleep 1 & wait; done\n";
    fs::create_dir(root.join("sbin")).unwrap();
    fs::write(root.join("sbin/init"), init).unwrap();
    fs::set_permissions(root.join("sbin/init"), PermissionsExt::from_mode(0o755)).unwrap();
    let image = all.dir().join("image");
    ext4(&root, &image);
    let words = ["--root", image.to_str().unwrap(), "--init", "/sbin/init"];
    all.boot("a", &words);
    let _ = all.does(&["stop", "a"]);
    assert_eq!(all.doing("a"), "off");
}

fn uuid_after() {
    let all = machines();
    let image = all.dir().join("image");
    let _ = all.does(&[
        "create",
        "a",
        "--memory",
        "128M",
        "--suspend-path",
        image.to_str().unwrap(),
    ]);
    let definition = all.definition("a");
    let text = fs::read_to_string(&definition).unwrap();
    let without: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with("uuid"))
        .collect();
    fs::write(&definition, without.join("\n")).unwrap();
    let _ = all.does(&["start", "a"]);
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&["set", "a", "--cpus", "1"]);
    let away = all.dir().join("away");
    fs::rename(&image, &away).unwrap();
    assert_eq!(all.doing("a"), "image missing");
    all.refuses(&["rm", "a"], &["image is not there"]);
    fs::rename(&away, &image).unwrap();
    let _ = all.does(&["resume", "a"]);
}

fn no_runtime() {
    let all = machines();
    all.boot("a", &[]);
    let qemu = all.count();
    fs::remove_dir_all(all.memory().join("run")).unwrap();
    assert_eq!(all.glance("a"), "busy");
    all.refuses(&["start", "a"], &["a runs already"]);
    all.refuses(&["rm", "a"], &["a is busy"]);
    assert_eq!(all.count(), qemu);
    let _ = all.does(&["kill", "a"]);
    assert_eq!(all.count(), 0);
    let _ = all.does(&["start", "a"]);
    assert_eq!(all.output("a", "echo on"), "on\n");
}

fn other_file() {
    let all = machines();
    let dir = all.dir();
    let [raw, base, private] = ["top.raw", "base.raw", "private.raw"].map(|name| dir.join(name));
    for path in [&raw, &base, &private] {
        File::create_new(path).unwrap().set_len(1 << 20).unwrap();
    }
    let image = dir.join("disk.qcow2");
    let make = |options: &[&str], path: &Path| {
        let words = ["create", "-q", "-f", "qcow2"];
        let last = [path.to_str().unwrap(), "1M"];
        capture(&tool("qemu-img"), &[&words[..], options, &last].concat());
        // Of one length.
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(1 << 20)
            .unwrap();
    };
    make(&["-b", base.to_str().unwrap(), "-F", "raw"], &image);
    all.boot("a", &["--disk", image.to_str().unwrap()]);
    let _ = all.does(&["suspend", "a"]);
    let time = fs::metadata(&image).unwrap().modified().unwrap();
    let data = format!("data_file={},data_file_raw=on", private.display());
    let other = dir.join("other.qcow2");
    make(&["-o", &data], &other);
    let file = File::options().write(true).open(&image).unwrap();
    std::io::copy(&mut File::open(&other).unwrap(), &mut &file).unwrap();
    file.set_modified(time).unwrap();
    drop(file);
    all.refuses(&["resume", "a"], &["disk.qcow2"]);
    assert_eq!((all.doing("a").as_str(), all.count()), ("suspended", 0));
}

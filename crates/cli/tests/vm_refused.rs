//! A resume that is refused: the VM stays suspended, and is resumed later.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use brisk_testkit::{
    Checked, Finished, Loop, Machines, Mount, Refusal, Signal, Taken, apart, brisk, brisk_of,
    capture, lacks, qemu_is_before, refuse, tool, trial,
};
use libtest_mimic::Arguments;

fn main() {
    let old = || qemu_is_before(8, 2);
    let trials = vec![
        trial("a_disk_that_another_process_has_locked", old(), locked),
        trial(
            "a_disk_that_changes_while_memory_is_loaded",
            old(),
            changing,
        ),
        trial("a_backing_file_that_has_changed", old(), backing),
        trial("a_cpu_that_lacks_what_it_had", old(), fewer_features),
        trial("a_disk_that_is_known_to_be_right", old(), accepted),
        trial(
            "a_file_system_with_another_device_number",
            old().or_else(|| lacks("CAP_SYS_ADMIN", 21)),
            mounted_again,
        ),
        trial("a_resume_that_was_cut_off", old(), cut_off),
        trial("a_disk_of_a_suspended_machine", old(), reserved),
        trial(
            "a_disk_of_a_machine_that_is_being_suspended",
            old(),
            suspending,
        ),
        trial("an_image_at_the_same_place", old(), same_place),
        trial("an_image_is_discarded_beyond_a_quota", old(), quota),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

/// Where renaming takes room that is not there, as on btrfs, a removal still makes some.
fn quota() {
    let all = machines();
    all.boot("a", &[]);
    let _ = all.does(&["suspend", "a"]);
    let image = all.state_dir("a").join("a.brisk");
    apart(|| {
        refuse(&[Refusal::Renames]);
        all.refuses(&["resume", "a"], &["cannot rename", "free some space"]);
        assert!(image.exists());
        assert_eq!(all.doing("a"), "suspended");
        let _ = all.does(&["discard", "a"]);
    });
    assert!(!image.exists());
    assert_eq!(all.doing("a"), "off");
    assert!(!all.state_dir("a").join("suspended").exists());
}

/// An empty disk.
fn disk(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    File::create_new(&path).unwrap().set_len(1 << 20).unwrap();
    path
}

/// A VM `a` with a disk that it writes to, which is suspended, and the disk.
fn suspended(all: &Machines, words: &[&str]) -> PathBuf {
    let disk = disk(all.dir(), "disk");
    all.boot("a", &[&["--disk", disk.to_str().unwrap()], words].concat());
    let _ = all.output("a", "echo mine > /run/file");
    let _ = all.does(&["suspend", "a"]);
    disk
}

/// It runs, and is the one that was suspended.
#[track_caller]
fn is_well(all: &Machines) {
    assert_eq!((all.doing("a").as_str(), all.count()), ("running", 1));
    assert_eq!(all.output("a", "cat /run/file"), "mine\n");
}

const RESUMES: [&[&str]; 3] = [
    &["resume", "a"],
    &["resume", "a", "--eager"],
    &["autostart"],
];

fn locked() {
    let all = machines();
    let disk = suspended(&all, &["--autoboot"]);
    let image = all.state_dir("a").join("a.brisk");
    for resume in RESUMES {
        let taken = Taken::new(&disk);
        all.refuses(resume, &["Failed to", "lock", "has one of its disks"]);
        assert_eq!((all.glance("a").as_str(), all.count()), ("suspended", 0));
        assert!(image.exists());
        drop(taken);
        let _ = all.does(resume);
        is_well(&all);
        let _ = all.does(&["suspend", "a"]);
    }
}

/// A QEMU in a directory of its own that does something just before it starts, if it is asked to by
/// a file of that name.
fn meddling(all: &Machines, script: &str) -> (String, PathBuf) {
    let dir = all.dir().join("bin");
    fs::create_dir(&dir).unwrap();
    let (program, now) = (dir.join("qemu-system-x86_64"), dir.join("now"));
    let qemu = tool("qemu-system-x86_64");
    let text = format!(
        "#!/bin/sh\nif [ -e {} ]; then {script}; fi\nexec {} \"$@\"\n",
        now.display(),
        qemu.display()
    );
    brisk_testkit::script(&program, &text);
    let path = std::env::var("PATH").unwrap();
    (format!("{}:{path}", dir.display()), now)
}

fn changing() {
    let all = machines();
    let disk = disk(all.dir(), "disk");
    // QEMU is not root.
    fs::set_permissions(&disk, fs::Permissions::from_mode(0o666)).unwrap();
    let (path, now) = meddling(&all, &format!("echo more >> {}", disk.display()));
    let does = |words: &[&str]| all.vm(words).env("PATH", &path).output();
    let words = ["create", "a", "--memory", "128M", "--disk"];
    let _ = does(&[&words[..], &[disk.to_str().unwrap()]].concat()).exited(0);
    let _ = does(&["start", "a"]).exited(0);
    let _ = all.output("a", "echo mine > /run/file");
    for resume in &RESUMES[..2] {
        let _ = does(&["suspend", "a"]).exited(0);
        fs::write(&now, "").unwrap();
        let text = [disk.to_str().unwrap(), "has changed since"];
        let _ = does(resume).exited(125).explains(&text);
        assert_eq!((all.glance("a").as_str(), all.count()), ("suspended", 0));
        fs::remove_file(&now).unwrap();
        let accept = ["resume", "a", "--accept-disk", text[0]];
        let _ = does(&accept).exited(0);
        is_well(&all);
    }
}

/// In place of another microcode: a QEMU whose CPU has no SSE4.2, CPUID.01H:ECX[20].
const WITHOUT_SSE4_2: &str = "for word do shift; [ \"$last\" != -cpu ] || word=$word,-sse4.2; \
                              last=$word; set -- \"$@\" \"$word\"; done";

fn fewer_features() {
    let all = machines();
    let (path, now) = meddling(&all, WITHOUT_SSE4_2);
    let does = |words: &[&str]| all.vm(words).env("PATH", &path).output();
    let _ = does(&["create", "a", "--memory", "128M", "--autoboot"]).exited(0);
    let _ = does(&["start", "a"]).exited(0);
    let _ = all.output("a", "echo mine > /run/file");
    let _ = does(&["suspend", "a"]).exited(0);
    fs::write(&now, "").unwrap();
    for resume in RESUMES {
        let texts = ["CPUID.01H:ECX[20]", "--accept-cpu"];
        let _ = does(resume).exited(125).explains(&texts);
        assert_eq!((all.glance("a").as_str(), all.count()), ("suspended", 0));
    }
    let _ = does(&["resume", "a", "--accept-cpu"]).exited(0);
    is_well(&all);
    // Those are the features that it has now, and more are no loss.
    let _ = does(&["suspend", "a"]).exited(0);
    let _ = does(&["resume", "a"]).exited(0);
    let _ = does(&["suspend", "a"]).exited(0);
    fs::remove_file(&now).unwrap();
    let _ = does(&["resume", "a"]).exited(0);
    is_well(&all);
}

fn backing() {
    let all = machines();
    let base = disk(all.dir(), "base.raw");
    let top = all.dir().join("top.qcow2");
    let make = ["create", "-q", "-f", "qcow2", "-F", "raw", "-b", "base.raw"];
    capture(
        &tool("qemu-img"),
        &[&make[..], &[top.to_str().unwrap()]].concat(),
    );
    all.boot("a", &["--disk", top.to_str().unwrap()]);
    let _ = all.output("a", "echo mine > /run/file");
    let _ = all.does(&["suspend", "a"]);
    let modified = fs::metadata(&base).unwrap().modified().unwrap();
    let changed = File::options().append(true).open(&base).unwrap();
    changed.set_modified(std::time::UNIX_EPOCH).unwrap();
    for resume in &RESUMES[..2] {
        all.refuses(resume, &[base.to_str().unwrap(), "has changed since"]);
    }
    changed.set_modified(modified).unwrap();
    let _ = all.does(&["resume", "a"]);
    is_well(&all);
}

fn accepted() {
    let all = machines();
    let disk = suspended(&all, &[]);
    let text = disk.to_str().unwrap();
    // As if it had been restored from a backup.
    fs::copy(&disk, disk.with_extension("new")).unwrap();
    fs::rename(disk.with_extension("new"), &disk).unwrap();
    let texts = [text, "has changed since", "--accept-disk"];
    all.refuses(&["resume", "a"], &texts);
    let misspelt = ["resume", "a", "--accept-disk", "/images/other"];
    all.refuses(&misspelt, &["has no disk /images/other", text]);
    let _ = all.does(&["resume", "a", "--accept-disk", text]);
    is_well(&all);
    let log = all.does(&["log", "a"]).text();
    assert!(log.contains(&format!("Disk {text} is taken for what it was")));
}

/// As after this host was restarted.
fn mounted_again() {
    let all = machines();
    let (image, at) = (all.dir().join("image"), all.dir().join("mounted"));
    File::create(&image).unwrap().set_len(16 << 20).unwrap();
    capture(&tool("mkfs.ext4"), &["-q", image.to_str().unwrap()]);
    let mount = |device: &Loop| {
        let _ = fs::remove_dir(&at);
        Mount::of(at.clone(), device.name())
    };
    let device = |path: &Path| std::os::unix::fs::MetadataExt::dev(&fs::metadata(path).unwrap());
    let (first, second) = (Loop::new(&image), Loop::new(&disk(all.dir(), "other")));
    let mounted = mount(&first);
    let disk = disk(mounted.path(), "disk");
    let before = device(&disk);
    all.boot("a", &["--disk", disk.to_str().unwrap()]);
    let _ = all.output("a", "echo mine > /run/file");
    let _ = all.does(&["suspend", "a"]);
    drop((mounted, first));
    // The first one's number is not free.
    let third = Loop::new(&all.dir().join("other"));
    let fourth = Loop::new(&image);
    let mounted = mount(&fourth);
    assert_ne!(device(&disk), before);
    let _ = all.does(&["resume", "a"]);
    is_well(&all);
    let _ = all.does(&["kill", "a"]);
    drop((mounted, fourth, third, second));
}

/// By a power cut, after the image was marked and before the guest ran.
fn cut_off() {
    let all = machines();
    let disk = suspended(&all, &["--autoboot"]);
    let image = all.state_dir("a").join("a.brisk");
    let used = image.with_extension("brisk.resumed");
    fs::rename(&image, &used).unwrap();
    assert_eq!(all.glance("a"), "resume cut off");
    for command in [&["start", "a"][..], &["resume", "a"], &["autostart"]] {
        let texts = ["was cut off", "brisk vm resume --again", "brisk vm discard"];
        all.refuses(command, &texts);
    }
    all.refuses(&["rm", "a"], &["brisk vm discard"]);
    assert!(used.exists());
    // A guest that has run has written to its disk.
    let modified = fs::metadata(&disk).unwrap().modified().unwrap();
    let file = File::options().append(true).open(&disk).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    all.refuses(&["resume", "a", "--again"], &["has changed since"]);
    assert!(used.exists() && !image.exists());
    file.set_modified(modified).unwrap();
    let _ = all.does(&["resume", "a", "--again"]);
    is_well(&all);
    // As long as QEMU has not said that it runs, it is known that it is to: also on a host to which the
    // image was brought.
    let record = all.state_dir("a").join("suspended");
    assert!(!record.exists());
    let _ = all.does(&["suspend", "a"]);
    let recorded = fs::read(&record).unwrap();
    // It had run when the power was cut, which came before its image was removed.
    fs::rename(&image, &used).unwrap();
    fs::remove_file(&record).unwrap();
    assert_eq!(all.glance("a"), "off");
    all.refuses(
        &["resume", "a", "--again"],
        &["has run since it was resumed", "brisk vm start"],
    );
    fs::write(&record, recorded).unwrap();
    let _ = all.does(&["resume", "a", "--again"]);
    is_well(&all);
    let _ = all.does(&["suspend", "a"]);
    fs::rename(&image, &used).unwrap();
    let _ = all.does(&["discard", "a"]);
    assert!(!used.exists());
    assert_eq!(all.glance("a"), "off");
    let _ = all.does(&["start", "a"]);
}

fn reserved() {
    let all = machines();
    let disk = suspended(&all, &[]);
    let path = disk.to_str().unwrap();
    let _ = all.does(&["create", "b", "--memory", "128M", "--disk", path]);
    let texts = [path, "VM a, which is suspended", "brisk vm discard"];
    all.refuses(&["start", "b"], &texts);
    let run = |disk: &str| -> Finished {
        brisk!["--root", "none", "--memory", "128M", "--disk", disk]
            .env("BRISK_STATE_DIR", all.dir().join("state"))
            .command(["true"])
            .output()
    };
    let _ = run(path).exited(125).explains(&texts);
    let _ = run(&format!("{path}:ro")).exited(0);
    let _ = all.does(&["resume", "a"]);
    is_well(&all);
    let _ = all.does(&["stop", "a"]);
    let _ = all.does(&["start", "b"]);
    let _ = all.does(&["kill", "b"]);
}

/// From when QEMU has let go of its locks until the VM is in its image.
fn suspending() {
    let all = machines();
    let disk = disk(all.dir(), "disk");
    let path = disk.to_str().unwrap();
    // At such a rate it would never end.
    let guest = Checked::new(all, &["--disk", path, "--bandwidth", "1K"]);
    let suspend = guest.suspends();
    let _ = guest
        .all
        .does(&["create", "b", "--memory", "128M", "--disk", path]);
    guest.all.refuses(&["start", "b"], &[path, "VM a,"]);
    // One that does not know of this VM's directory is kept from it by the lock.
    for _ in 0..3 {
        let run = brisk!["--root", "none", "--memory", "128M", "--disk", path].command(["true"]);
        let _ = run.exits(120).explains(&["lock"]);
    }
    suspend.signal(Signal::INT);
    let _ = suspend.wait().exited(130).explains(&["the VM goes on"]);
    assert_eq!(guest.all.doing("a"), "running");
    let _ = guest.all.does(&["set", "a", "--bandwidth", "none"]);
    let _ = guest.all.does(&["suspend", "a"]);
    let _ = guest.all.does(&["discard", "a"]);
    let _ = guest.all.does(&["start", "b"]);
}

/// Of two definitions with one path, the one has an image there, and the other nothing to remove.
fn same_place() {
    let all = machines();
    let image = all.dir().join("same.brisk");
    let place = ["--suspend-path", image.to_str().unwrap()];
    all.boot("a", &[&place[..], &["--compression", "none"]].concat());
    let _ = all.output("a", "echo mine > /run/file");
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&["resume", "a", "--eager"]);
    let _ = all.does(&["suspend", "a"]);
    let base = image.with_extension("brisk.base-0");
    assert!(base.exists(), "its image is based on another one");
    let made = all.does(&[&["create", "b", "--memory", "128M"], &place[..]].concat());
    let _ = made.explains(&["a has the same image", "same.brisk"]);
    let kept = || assert!(image.exists() && base.exists());
    let _ = all.does(&["start", "b"]);
    kept();
    all.refuses(&["suspend", "b"], &["exists already"]);
    let _ = all.does(&["stop", "b"]);
    kept();
    // Also if its resume was cut off.
    let used = image.with_extension("brisk.resumed");
    fs::rename(&image, &used).unwrap();
    assert_eq!(
        (all.glance("a").as_str(), all.glance("b").as_str()),
        ("resume cut off", "off")
    );
    let _ = all.does(&["start", "b"]);
    let _ = all.does(&["suspend", "b"]);
    all.refuses(&["resume", "b"], &["same.brisk.resumed exists already"]);
    all.refuses(
        &["resume", "b", "--eager"],
        &["same.brisk.resumed exists already"],
    );
    fs::rename(&used, image.with_extension("away")).unwrap();
    let _ = all.does(&["resume", "b"]);
    let _ = all.does(&["kill", "b"]);
    fs::rename(image.with_extension("away"), &image).unwrap();
    kept();
    let _ = all.does(&["rm", "b"]);
    kept();
    // A base of another VM is in the way of nobody.
    fs::copy(&base, image.with_extension("brisk.base-1")).unwrap();
    let _ = all.does(&["resume", "a", "--eager"]);
    is_well(&all);
}

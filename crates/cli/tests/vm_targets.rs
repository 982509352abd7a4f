//! Persistent VMs: the file system of an image is full, fails, or is removed.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use brisk_testkit::{
    Breaking, Checked, Machines, Mount, brisk_of, capture, ext4, qemu_is_before, tool, tree, trial,
    until,
};
use libtest_mimic::Arguments;
use rustix::fs::Advice;

fn main() {
    let user = capture(&tool("id"), &["-u"]).trim() != "0";
    let no_mounts = qemu_is_before(8, 2).or_else(|| user.then(|| "only root mounts".to_owned()));
    let no_loops = no_mounts.clone().or_else(|| {
        let none = !Path::new("/dev/loop-control").exists();
        none.then(|| "no loop devices".to_owned())
    });
    let trials = vec![
        trial("too_small_or_read_only", no_mounts.clone(), refusing),
        trial("full_while_it_is_written", no_mounts.clone(), filled),
        trial(
            "full_with_what_changed",
            no_mounts.clone(),
            filled_by_changes,
        ),
        trial("removed_while_it_is_written", no_mounts, removed),
        trial("a_disk_that_breaks", no_loops.clone(), broken),
        trial(
            "an_image_on_a_disk_that_breaks",
            no_loops.clone(),
            broken_image,
        ),
        trial(
            "an_image_on_a_disk_that_breaks_while_the_guest_runs",
            no_loops.clone().or_else(no_late_memory),
            broken_under_the_guest,
        ),
        trial(
            "an_image_on_a_disk_that_breaks_before_the_guest_runs",
            no_loops.clone().or_else(no_late_memory),
            broken_before_the_guest_runs,
        ),
        trial(
            "a_disk_that_is_full_while_a_clone_gets_its_own",
            no_loops.clone(),
            full_for_a_clone,
        ),
        trial(
            "a_disk_that_breaks_while_a_clone_gets_its_own",
            no_loops.clone(),
            broken_for_a_clone,
        ),
        trial(
            "a_clone_shares_blocks_where_the_file_system_can",
            no_loops.or_else(no_btrfs),
            shared_with_a_clone,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Why memory cannot come while the guest runs.
fn no_late_memory() -> Option<String> {
    let none = !Path::new("/dev/userfaultfd").exists();
    let none = none.then(|| "no /dev/userfaultfd".to_owned());
    qemu_is_before(10, 0).or(none)
}

/// A guest whose images go to a directory.
fn guest(words: &[&str]) -> Checked {
    let all = Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"));
    Checked::new(all, &[&["--compression", "none"], words].concat())
}

/// Its images go to this directory from now on.
fn goes_to(guest: &Checked, dir: &Path) {
    let path = dir.join("%{name}.brisk");
    let path = path.to_str().unwrap();
    let _ = guest.all.does(&["set", "a", "--suspend-path", path]);
}

/// It has begun to write to a file system that had this much room before.
fn is_writing(mount: &Mount, free: u64) {
    until("the image is being written", || {
        (mount.free() + (1 << 20) < free).then_some(())
    });
}

/// Suspends and resumes it.
fn there_and_back(guest: &mut Checked) {
    let _ = guest.all.does(&["suspend", "a"]);
    assert_eq!(guest.all.doing("a"), "suspended");
    let _ = guest.all.does(&["resume", "--eager", "a"]);
    guest.is_well();
}

fn refusing() {
    let mut guest = guest(&[]);
    let small = Mount::tmpfs(guest.all.dir().join("small"), "size=8m");
    goes_to(&guest, small.path());
    guest
        .all
        .refuses(&["suspend", "a"], &["small has 8 MB free"]);
    guest.is_well();
    assert!(small.names().is_empty());
    let target = small.path().to_str().unwrap();
    capture(&tool("mount"), &["-o", "remount,ro", target]);
    guest
        .all
        .refuses(&["suspend", "a"], &["a.brisk", "Read-only"]);
    guest.is_well();
    goes_to(&guest, &guest.all.dir().join("nowhere"));
    guest.all.refuses(&["suspend", "a"], &["nowhere"]);
    guest.is_well();
}

/// The estimate says that it fits, and then somebody else takes the room.
fn filled() {
    // That leaves somebody else half a minute.
    let mut guest = guest(&["--bandwidth", "2M"]);
    let disk = Mount::tmpfs(guest.all.dir().join("disk"), "size=160m");
    goes_to(&guest, disk.path());
    let free = disk.free();
    let suspend = guest.suspends();
    is_writing(&disk, free);
    disk.fill("precious", 0);
    let image = disk.path().join("a.brisk");
    let ended = suspend.wait().exited(125);
    let texts = [image.to_str().unwrap(), "No space left", "free some space"];
    let _ = ended.explains(&texts);
    guest.is_well();
    assert_eq!(disk.names(), ["precious"]);
    fs::remove_file(disk.path().join("precious")).unwrap();
    let _ = guest.all.does(&["set", "a", "--bandwidth", "none"]);
    there_and_back(&mut guest);
}

/// What has changed since the last image is not estimated.
fn filled_by_changes() {
    let mut guest = guest(&[]);
    let disk = Mount::tmpfs(guest.all.dir().join("disk"), "size=160m");
    goes_to(&guest, disk.path());
    there_and_back(&mut guest);
    let more = "busybox dd if=/dev/urandom of=/run/more bs=1M count=20 2>/dev/null";
    let _ = guest.all.output("a", more);
    disk.fill("precious", 6 << 20);
    let image = disk.path().join("a.brisk");
    let texts = [image.to_str().unwrap(), "No space left", "free some space"];
    guest.all.refuses(&["suspend", "a"], &texts);
    guest.is_well();
    // What it is based on stays: the next one may be, too.
    assert_eq!(disk.names(), ["a.brisk.base-0", "precious"]);
    fs::remove_file(disk.path().join("precious")).unwrap();
    there_and_back(&mut guest);
}

fn removed() {
    let mut guest = guest(&["--bandwidth", "8M"]);
    let disk = Mount::tmpfs(guest.all.dir().join("disk"), "size=160m");
    let dir = disk.path().join("dir");
    fs::create_dir(&dir).unwrap();
    goes_to(&guest, &dir);
    let free = disk.free();
    let suspend = guest.suspends();
    is_writing(&disk, free);
    // As `rm -r` does, with whatever is in it.
    fs::remove_dir_all(&dir).unwrap();
    let image = dir.join("a.brisk");
    let ended = suspend.wait().exited(125);
    let _ = ended.explains(&[image.to_str().unwrap(), "No such file or directory"]);
    guest.is_well();
    assert!(disk.names().is_empty());
    assert_eq!(disk.free(), free);
    fs::create_dir(&dir).unwrap();
    let _ = guest.all.does(&["set", "a", "--bandwidth", "none"]);
    there_and_back(&mut guest);
}

fn broken() {
    let mut guest = guest(&["--bandwidth", "8M"]);
    let disk = Breaking::new(guest.all.dir().join("disk"), 256 << 20);
    goes_to(&guest, disk.mount.path());
    let free = disk.mount.free();
    let suspend = guest.suspends();
    is_writing(&disk.mount, free);
    disk.refuse_writes();
    let image = disk.mount.path().join("a.brisk");
    let ended = suspend.wait().exited(125);
    let _ = ended.explains(&[image.to_str().unwrap(), "Input/output error"]);
    guest.is_well();
    assert_eq!(disk.mount.names(), ["lost+found"]);
    let whole = guest.all.dir().join("whole");
    fs::create_dir(&whole).unwrap();
    goes_to(&guest, &whole);
    let _ = guest.all.does(&["set", "a", "--bandwidth", "none"]);
    there_and_back(&mut guest);
}

fn broken_image() {
    let mut guest = guest(&[]);
    let disk = Breaking::new(guest.all.dir().join("disk"), 256 << 20);
    goes_to(&guest, disk.mount.path());
    let _ = guest.all.does(&["suspend", "a"]);
    let image = disk.mount.path().join("a.brisk");
    let file = fs::File::open(&image).unwrap();
    // The host has it in memory still.
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    drop(file);
    let cut = disk.cut(24 << 20);
    let texts = [image.to_str().unwrap(), "Input/output error"];
    guest.all.refuses(&["resume", "--eager", "a"], &texts);
    assert_eq!(guest.all.doing("a"), "suspended");
    assert_eq!(guest.all.count(), 0);
    drop(cut);
    let _ = guest.all.does(&["resume", "--eager", "a"]);
    guest.is_well();
}

/// Has this host have in memory of a file what is not in this part of it.
fn forget(path: &Path, part: Range<u64>) {
    let file = fs::File::open(path).unwrap();
    let length = file.metadata().unwrap().len();
    file.sync_all().unwrap();
    let advise = |advice| rustix::fs::fadvise(&file, 0, None, advice).unwrap();
    advise(Advice::DontNeed);
    // Nothing but what is asked for.
    advise(Advice::Random);
    for kept in [0..part.start, part.end..length] {
        let size = (kept.end - kept.start) as usize;
        file.read_exact_at(&mut vec![0; size], kept.start).unwrap();
    }
}

fn broken_under_the_guest() {
    let mut guest = guest(&[]);
    // Most of the image, so that there is something to wait for.
    let fill = "busybox dd if=/dev/urandom of=/run/x bs=1M count=24 2>/dev/null; \
                busybox md5sum /run/x";
    let sum = guest.all.output("a", fill);
    let disk = Breaking::new(guest.all.dir().join("disk"), 256 << 20);
    goes_to(&guest, disk.mount.path());
    let _ = guest.all.does(&["suspend", "a"]);
    let image = disk.mount.path().join("a.brisk");
    // In the middle of it is the file, which the guest does not ask for by itself.
    let middle = fs::metadata(&image).unwrap().len() / 2;
    forget(&image, middle..middle + (1 << 20));
    let cut = disk.cut(24 << 20);
    let _ = guest.all.does(&["resume", "a"]);
    let stands = "VM stands still until its image can be read again: ";
    let log = || guest.all.does(&["log", "a"]).text();
    let line = until("the log says that it stands still", || {
        let log = log();
        let line = log.lines().find(|line| line.contains(stands));
        line.map(str::to_owned)
    });
    assert!(line.contains(image.to_str().unwrap()), "{line}");
    assert!(line.contains("Input/output error"), "{line}");
    // However often it is asked: QEMU has room for few who wait.
    for _ in 0..4 {
        let _ = guest.all.glance("a");
    }
    until("the guest stands still", || {
        ["paused", "busy"]
            .contains(&&*guest.all.glance("a"))
            .then_some(())
    });
    drop(cut);
    until("the guest has all of its memory", || {
        log().contains("VM has all of its memory").then_some(())
    });
    until("the guest goes on", || {
        (guest.all.doing("a") == "running").then_some(())
    });
    let all = log();
    assert!(
        all.contains("The image can be read again, VM goes on"),
        "{all}"
    );
    guest.is_well();
    assert_eq!(guest.all.output("a", "busybox md5sum /run/x"), sum);
}

/// All but what says where things are: QEMU cannot have its devices, which have memory of the guest.
fn broken_before_the_guest_runs() {
    let mut guest = guest(&[]);
    let disk = Breaking::new(guest.all.dir().join("disk"), 256 << 20);
    goes_to(&guest, disk.mount.path());
    let _ = guest.all.does(&["suspend", "a"]);
    let image = disk.mount.path().join("a.brisk");
    let length = fs::metadata(&image).unwrap().len();
    forget(&image, 1 << 20..length - (4 << 20));
    let cut = disk.cut(16 << 20);
    let texts = ["was not resumed: its image cannot be read"];
    guest.all.refuses(&["resume", "a"], &texts);
    let log = guest.all.does(&["log", "a"]).text();
    assert!(log.contains("Input/output error"), "{log}");
    assert_eq!(
        (guest.all.doing("a").as_str(), guest.all.count()),
        ("suspended", 0)
    );
    drop(cut);
    let _ = guest.all.does(&["resume", "a"]);
    guest.is_well();
}

/// The disk of a guest, with a tail of so many bytes, of which little is data, but everywhere.
fn scattered(all: &Machines, tail: u64) -> PathBuf {
    let (dir, image) = (all.dir().join("tree"), all.dir().join("image"));
    tree(&dir);
    ext4(&dir, &image);
    let file = fs::File::options().write(true).open(&image).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length + tail).unwrap();
    for at in (length..length + tail).step_by(1 << 16) {
        file.write_all_at(&[1; 4096], at).unwrap();
    }
    image
}

/// Nothing is left of a clone that did not become one.
#[track_caller]
fn no_clone(all: &Machines, texts: &[&str]) {
    all.refuses(&["resume", "a", "--clone", "b"], texts);
    assert!(!all.definition("b").exists() && !all.state_dir("b").exists());
    assert_eq!((all.doing("a").as_str(), all.count()), ("suspended", 0));
}

/// It seems to fit, and does not.
fn full_for_a_clone() {
    let all = Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"));
    let image = scattered(&all, 512 << 20);
    let state = Mount::coarse(all.dir().join("state"), 320 << 20);
    let root = image.to_str().unwrap();
    let words = ["--root", root, "--rw", "--compression", "lz4"];
    let mut guest = Checked::new(all, &words);
    let _ = guest.all.does(&["suspend", "a"]);
    let own = guest.all.state_dir("b").join("disk0");
    let texts = [own.to_str().unwrap(), "No space left", "free some space"];
    no_clone(&guest.all, &texts);
    state.fill("precious", 8 << 20);
    no_clone(&guest.all, &["MB free, and the clone's own disk needs"]);
    fs::remove_file(state.path().join("precious")).unwrap();
    let _ = guest.all.does(&["resume", "--eager", "a"]);
    guest.is_well();
}

fn broken_for_a_clone() {
    let all = Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"));
    let whole = scattered(&all, 0);
    let disk = Breaking::new(all.dir().join("disk"), 256 << 20);
    let image = disk.mount.path().join("image");
    fs::write(&image, fs::read(whole).unwrap()).unwrap();
    let root = image.to_str().unwrap();
    let words = ["--root", root, "--rw", "--compression", "lz4"];
    let mut guest = Checked::new(all, &words);
    let _ = guest.all.does(&["suspend", "a"]);
    let length = fs::metadata(&image).unwrap().len();
    forget(&image, 1 << 20..length);
    let cut = disk.cut(24 << 20);
    no_clone(&guest.all, &[root, "Input/output error"]);
    drop(cut);
    let _ = guest.all.does(&["resume", "a", "--clone", "b"]);
    assert_eq!(
        guest.all.output("b", "cat /etc/origin"),
        "the test's tree\n"
    );
    let _ = guest.all.does(&["kill", "b"]);
    let _ = guest.all.does(&["resume", "--eager", "a"]);
    guest.is_well();
}

/// Why there is no file system on which files share blocks, if there is none.
fn no_btrfs() -> Option<String> {
    // Where it is a module it is listed only when it is in.
    let _ = Command::new("modprobe").args(["-q", "btrfs"]).status();
    let known = fs::read_to_string("/proc/filesystems").unwrap();
    let none = !known.lines().any(|line| line.ends_with("\tbtrfs"));
    none.then(|| "this kernel has no btrfs".to_owned())
}

fn shared_with_a_clone() {
    let all = Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"));
    let state = Mount::sharing(all.dir().join("state"), 512 << 20);
    let image = state.path().join("image");
    // Of bytes, so that it has something to share.
    let small = scattered(&all, 0);
    fs::copy(&small, &image).unwrap();
    let data = File::options().write(true).open(&image).unwrap();
    let length = data.metadata().unwrap().len();
    data.write_all_at(&vec![7; 64 << 20], length).unwrap();
    data.sync_all().unwrap();
    let root = image.to_str().unwrap();
    let words = ["--root", root, "--rw", "--compression", "lz4"];
    let mut guest = Checked::new(all, &words);
    let _ = guest.all.does(&["suspend", "a"]);
    let _ = guest.all.does(&["resume", "a", "--clone", "b"]);
    let own = guest.all.state_dir("b").join("disk0.raw");
    assert_eq!(fs::metadata(&own).unwrap().len(), length + (64 << 20));
    // The last extents are those nobody has written since.
    let list = capture(&tool("filefrag"), &["-v", own.to_str().unwrap()]);
    let extents = list.lines().rfind(|line| line.contains(".."));
    assert!(extents.unwrap().contains("shared"), "{list}");
    assert_eq!(
        guest.all.output("b", "cat /etc/origin"),
        "the test's tree\n"
    );
    let _ = guest.all.output("b", "echo b > /etc/origin; sync");
    let _ = guest.all.does(&["stop", "b"]);
    let _ = guest.all.does(&["resume", "--eager", "a"]);
    assert_eq!(
        guest.all.output("a", "cat /etc/origin"),
        "the test's tree\n"
    );
    guest.is_well();
}

//! Machines that stay: where an image goes is full, breaks, or is taken away.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::Path;

use brisk_testkit::{
    Breaking, Checked, Machines, Mount, brisk_of, capture, qemu_is_before, tool, trial, until,
};
use libtest_mimic::Arguments;

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
        trial("an_image_on_a_disk_that_breaks", no_loops, broken_image),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
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
    let mut guest = guest(&["--bandwidth", "8M"]);
    let disk = Mount::tmpfs(guest.all.dir().join("disk"), "size=160m");
    goes_to(&guest, disk.path());
    let free = disk.free();
    let suspend = guest.suspends();
    is_writing(&disk, free);
    disk.fill("precious", 0);
    let image = disk.path().join("a.brisk");
    let ended = suspend.wait().exited(125);
    let texts = [image.to_str().unwrap(), "No space left", "free some space"];
    let _ = ended.said(&texts);
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
    let _ = guest.all.tells("a", more);
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
    let _ = ended.said(&[image.to_str().unwrap(), "No such file or directory"]);
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
    let _ = ended.said(&[image.to_str().unwrap(), "Input/output error"]);
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
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
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

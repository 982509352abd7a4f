//! Persistent VMs: clones of one image.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::SystemTime;

use brisk_testkit::{
    Machines, Mount, Signal, brisk_of, capture, ext4, qcow2, qemu_is_before, tool, tree, trials,
    until,
};
use libtest_mimic::Arguments;

fn main() {
    let old = qemu_is_before(8, 2);
    let tests: [(&str, fn()); 9] = [
        ("clones_are_machines_of_their_own", clones),
        ("clones_have_cards_of_their_own", cards),
        ("clones_have_disks_of_their_own", || disks(false)),
        ("clones_have_qcow2_images_of_their_own", || disks(true)),
        ("clones_of_what_will_write_have_disks_of_their_own", later),
        ("a_clone_over_a_machine_whose_definition_is_away", away),
        ("a_clone_that_cannot_be_defined_leaves_nothing", no_room),
        ("what_cannot_be_cloned_is_refused", refused),
        ("a_clone_that_is_not_complete_is_none", incomplete),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials(old, tests)).exit();
}

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

/// The words of each name, which must all be different.
fn different(words: impl IntoIterator<Item = String>) {
    let mut all: Vec<_> = words.into_iter().collect();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count, "{all:?}");
}

/// Random blocks of a guest. Each block follows from the key before it: guests with one key have
/// most blocks in common, even if one guest has drawn some more before.
fn draws(all: &Machines, name: &str) -> HashSet<Vec<u8>> {
    let draw = all.exec(name, "exec dd if=/dev/urandom bs=32 count=500 2>/dev/null");
    let drawn = draw.exits(0).stdout;
    assert_eq!(drawn.len(), 500 * 32);
    drawn.chunks(32).map(<[u8]>::to_vec).collect()
}

fn clones() {
    let all = machines();
    all.boot("a", &["--compression", "lz4"]);
    let fill = "dd if=/dev/urandom of=/run/x bs=1M count=20 2>/dev/null; busybox md5sum /run/x";
    let sum = all.output("a", fill);
    // A young kernel takes another key every second or two, which would hide that clones have the
    // same one; an older one does so when half as long as it runs has passed.
    let age = "until test $(busybox cut -d. -f1 /proc/uptime) -ge 12; do busybox sleep 0.1; done";
    let _ = all.output("a", age);
    let _ = all.does(&["suspend", "a"]);
    let image = all.state_dir("a").join("a.brisk");
    let before = fs::read(&image).unwrap();
    let resume = |name| all.does(&["resume", "a", "--clone", name]);
    thread::scope(|scope| {
        for name in ["b", "c"] {
            scope.spawn(move || resume(name).explains(&[&format!("{name} runs after")]));
        }
    });
    assert_eq!(all.count(), 2);
    let drawn = ["b", "c"].map(|name| draws(&all, name));
    assert!(drawn[0].is_disjoint(&drawn[1]));
    assert!(fs::read(&image).unwrap() == before);
    let doing = ["a", "b", "c"].map(|name| all.doing(name));
    assert_eq!(doing, ["suspended", "running", "running"]);
    let check = "busybox md5sum /run/x";
    for name in ["b", "c"] {
        assert_eq!(all.output(name, check), sum);
        assert_eq!(all.output(name, "hostname"), format!("{name}\n"));
        let _ = all.output(name, &format!("echo {name} > /run/name"));
    }
    // Nothing that one does is seen by another, and a clone is suspended as any VM is.
    let _ = all.does(&["suspend", "b"]);
    let _ = all.does(&["resume", "--eager", "a"]);
    let first = draws(&all, "a");
    assert!(drawn.iter().all(|drawn| drawn.is_disjoint(&first)));
    let _ = all.does(&["resume", "b"]);
    let names = "hostname; cat /run/name 2>/dev/null; :";
    assert_eq!(all.output("a", names), "a\n");
    assert_eq!(all.output("b", names), "b\nb\n");
    assert_eq!(all.output("c", names), "c\nc\n");
    let sums = ["a", "b", "c"].map(|name| all.output(name, check));
    assert_eq!(sums, [sum.as_str(); 3]);
    let uuid = |name| {
        let text = fs::read_to_string(all.definition(name)).unwrap();
        text.lines().next().unwrap().to_owned()
    };
    different(["a", "b", "c"].map(uuid));
    // It does not need what it came from.
    let _ = all.does(&["stop", "a"]);
    let _ = all.does(&["rm", "a"]);
    let _ = all.does(&["suspend", "c"]);
    let _ = all.does(&["resume", "c", "--clone", "a"]);
    assert_eq!(all.output("a", "cat /run/name; hostname"), "c\na\n");
    let log = all.does(&["log", "a"]).text();
    assert!(log.contains("as a clone, from"), "{log}");
}

fn cards() {
    let all = machines();
    all.boot("a", &["--net", "user", "--compression", "lz4"]);
    let address = "cat /sys/class/net/eth0/address";
    let first = all.output("a", address);
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&["resume", "a", "--clone", "b"]);
    // A clone of a clone.
    let _ = all.does(&["suspend", "b"]);
    let _ = all.does(&["resume", "b", "--clone", "c"]);
    let _ = all.does(&["resume", "b"]);
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", address), first);
    different(["a", "b", "c"].map(|name| all.output(name, address)));
    // 10.0.2.2 answers, so the device knows the address, too.
    let reach = "busybox ping -c 1 -W 5 10.0.2.2 > /dev/null && echo reached";
    for name in ["a", "b", "c"] {
        assert_eq!(all.output(name, reach), "reached\n", "{name}");
    }
}

/// A root to be written to, in a directory of its own.
fn root(all: &Machines) -> PathBuf {
    let (dir, image) = (all.dir().join("tree"), all.dir().join("roots/image"));
    tree(&dir);
    fs::create_dir(image.parent().unwrap()).unwrap();
    ext4(&dir, &image);
    image
}

/// The file system of an image whose VM is off is whole.
#[track_caller]
fn is_clean(image: &Path, all: &Machines) {
    let raw = all.dir().join("raw");
    let names = [image, &raw].map(|path| path.to_str().unwrap());
    capture(
        &tool("qemu-img"),
        &[&["convert", "-O", "raw"], &names[..]].concat(),
    );
    // It fails where anything is to be mended, the journal but.
    capture(&tool("e2fsck"), &["-f", "-n", names[1]]);
    fs::remove_file(raw).unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    let list = fs::read_dir(dir).unwrap();
    let names = list.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.collect()
}

fn disks(as_qcow2: bool) {
    let all = machines();
    let mut image = root(&all);
    if as_qcow2 {
        let raw = image.clone();
        image = image.with_extension("qcow2");
        qcow2(&raw, &image);
        fs::remove_file(raw).unwrap();
    }
    let path = image.to_str().unwrap();
    all.boot("a", &["--root", path, "--rw", "--compression", "lz4"]);
    // What is written is in the guest's memory only, and both will write it.
    let write = |size| {
        format!(
            "cat /proc/uptime >> /srv/times; hostname >> /srv/names; \
             busybox dd if=/dev/urandom of=/srv/data bs=1M count={size} 2>/dev/null; \
             busybox md5sum /srv/data"
        )
    };
    let _ = all.output("a", &write(2));
    let _ = all.does(&["suspend", "a"]);
    let before = fs::read(&image).unwrap();
    let _ = all.does(&["resume", "a", "--clone", "b"]);
    let _ = all.does(&["resume", "a", "--clone", "c"]);
    let all_of = ["a", "b", "c"];
    for name in ["b", "c"] {
        let _ = all.output(name, &write(3));
    }
    let _ = all.does(&["suspend", "b"]);
    assert!(fs::read(&image).unwrap() == before);
    let _ = all.does(&["resume", "a"]);
    let _ = all.does(&["resume", "b"]);
    let sums = all_of.map(|name| all.output(name, &write(4)));
    let read = "cat /srv/names; busybox md5sum /srv/data";
    let names_of = |name: &str| match name {
        "a" => "a\na\n".to_owned(),
        _ => format!("a\n{name}\n{name}\n"),
    };
    for (name, sum) in all_of.iter().zip(&sums) {
        assert_eq!(all.output(name, read), format!("{}{sum}", names_of(name)));
        let _ = all.does(&["stop", name]);
    }
    let end = if as_qcow2 { "qcow2" } else { "raw" };
    let own = |name| all.state_dir(name).join(format!("disk0.{end}"));
    for disk in [image.clone(), own("b"), own("c")] {
        is_clean(&disk, &all);
    }
    // Each starts anew from its own, and is bound to it when it is suspended.
    for (name, sum) in all_of.iter().zip(&sums) {
        let _ = all.does(&["start", name]);
        assert_eq!(all.output(name, read), format!("{}{sum}", names_of(name)));
    }
    let _ = all.does(&["suspend", "b"]);
    let disk = own("b");
    let text = disk.to_str().unwrap();
    let changed = fs::File::options().append(true).open(&disk).unwrap();
    changed.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    all.refuses(&["resume", "b"], &[text, "has changed since"]);
    all.refuses(
        &["resume", "b", "--clone", "d"],
        &[text, "has changed since"],
    );
    assert!(!all.definition("d").exists() && !all.state_dir("d").exists());
    let _ = all.does(&["discard", "b"]);
    let _ = all.does(&["rm", "b"]);
    assert!(!all.state_dir("b").exists());
    assert_eq!(names(image.parent().unwrap()).len(), 1);
    assert_eq!(all.output("a", "hostname"), "a\n");
    assert_eq!(all.output("c", "hostname"), "c\n");
}

/// It only reads its root, and will write to it when it is started anew; or the other way round.
fn later() {
    let all = machines();
    let image = root(&all);
    let path = image.to_str().unwrap();
    all.boot("a", &["--root", path, "--compression", "lz4"]);
    let _ = all.output("a", "echo mine > /srv/file");
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&["set", "a", "--rw"]);
    let _ = all.does(&["resume", "a", "--clone", "b"]);
    assert_eq!(all.output("b", "cat /srv/file"), "mine\n");
    let info = all.does(&["info", "b"]).text();
    let own = all.state_dir("b").join("disk0.raw");
    let line = format!("root = {:?}", own.to_str().unwrap());
    assert!(info.contains(&line), "{info}");
    // Another disk than that.
    let other = image.with_extension("other");
    fs::copy(&image, &other).unwrap();
    let _ = all.does(&["set", "a", "--root", other.to_str().unwrap()]);
    let texts = [other.to_str().unwrap(), "a clone would write to it, too"];
    all.refuses(&["resume", "a", "--clone", "c"], &texts);
    let _ = all.does(&["set", "a", "--rw=false", "--root", path]);
    let _ = all.does(&["discard", "a"]);
    let _ = all.does(&["set", "a", "--rw"]);
    let _ = all.does(&["start", "a"]);
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&["set", "a", "--rw=false"]);
    let _ = all.does(&["resume", "a", "--clone", "c"]);
    let _ = all.output("c", "echo other > /srv/file");
    let _ = all.does(&["stop", "c"]);
    is_clean(&all.state_dir("c").join("disk0.raw"), &all);
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", "test -e /srv/file || echo none"), "none\n");
}

/// Files of a VM whose definition is away are neither taken over nor removed.
fn away() {
    let all = machines();
    all.boot("a", &["--compression", "lz4"]);
    let _ = all.does(&["suspend", "a"]);
    let (state, runtime) = (all.state_dir("b"), all.runtime_dir("b"));
    let disk = state.join("disk0.raw");
    let there = ["the definition of b", "brisk vm rm"];
    let clone = ["resume", "a", "--clone", "b"];
    fs::create_dir(&state).unwrap();
    fs::write(&disk, "its only disk").unwrap();
    all.refuses(&clone, &there);
    all.refuses(&["create", "b"], &there);
    assert_eq!(fs::read_to_string(&disk).unwrap(), "its only disk");
    fs::remove_dir_all(&state).unwrap();
    fs::create_dir_all(&runtime).unwrap();
    all.refuses(&clone, &there);
    assert!(runtime.exists());
    let _ = all.does(&["rm", "b"]);
    // A definition that nobody can read is one, too.
    symlink("/nonexistent", all.definition("b")).unwrap();
    all.refuses(&clone, &["there is a VM b"]);
    fs::remove_file(all.definition("b")).unwrap();
    assert!(!state.exists() && !runtime.exists());
    let _ = all.does(&clone);
    assert_eq!(all.output("b", "hostname"), "b\n");
}

/// A clone that cannot be defined leaves nothing of itself.
fn no_room() {
    let all = machines();
    let config = Mount::tmpfs(all.dir().join("config"), "size=64k");
    all.boot("a", &["--compression", "lz4"]);
    let _ = all.does(&["suspend", "a"]);
    config.fill("fill", 0);
    let mut last = File::create(config.path().join("last")).unwrap();
    while last.write_all(&[1]).is_ok() {}
    let clone = ["resume", "a", "--clone", "b"];
    all.refuses(&clone, &["b.toml", "No space left"]);
    assert!(!all.state_dir("b").exists() && !all.runtime_dir("b").exists());
    drop(last);
    for name in ["fill", "last"] {
        fs::remove_file(config.path().join(name)).unwrap();
    }
    let _ = all.does(&["create", "b"]);
    let _ = all.does(&["rm", "b"]);
    let _ = all.does(&clone);
}

fn refused() {
    let all = machines();
    let image = root(&all);
    let root = image.to_str().unwrap();
    let over = image.with_extension("qcow2");
    let create = ["create", "-q", "-f", "qcow2", "-F", "raw", "-b", "image"];
    capture(
        &tool("qemu-img"),
        &[&create[..], &[over.to_str().unwrap()]].concat(),
    );
    let path = over.to_str().unwrap();
    all.boot("a", &["--root", path, "--rw", "--compression", "lz4"]);
    let clone = |texts: &[&str]| {
        all.refuses(&["resume", "a", "--clone", "b"], texts);
        assert!(!all.definition("b").exists() && !all.state_dir("b").exists());
    };
    clone(&["a is not suspended"]);
    let _ = all.does(&["suspend", "a"]);
    clone(&[path, "which needs", "roots/image:", "qemu-img convert"]);
    let _ = all.does(&["discard", "a"]);
    clone(&["a is not suspended"]);
    let _ = all.does(&["set", "a", "--rw=false", "--root", root]);
    // A root that is only read is fine.
    let _ = all.does(&["start", "a"]);
    let _ = all.output("a", "echo mine > /srv/file");
    let _ = all.does(&["suspend", "a"]);
    all.refuses(&["resume", "a", "--clone", "a"], &["there is a VM a"]);
    all.refuses(&["resume", "a", "--clone", "/x"], &["cannot name"]);
    all.refuses(&["resume", "x", "--clone", "b"], &["no VM x"]);
    let saved = all.state_dir("a").join("a.brisk");
    let bytes = fs::read(&saved).unwrap();
    let mut damaged = bytes.clone();
    let middle = bytes.len() / 2;
    damaged[middle] ^= 1;
    fs::write(&saved, damaged).unwrap();
    clone(&[saved.to_str().unwrap(), "damaged"]);
    fs::write(&saved, &bytes).unwrap();
    // Both would have the same image.
    let away = all.dir().join("image.brisk");
    let path = away.to_str().unwrap();
    fs::rename(&saved, &away).unwrap();
    let _ = all.does(&["set", "a", "--suspend-path", path]);
    let _ = all.does(&["resume", "a", "--clone", "b"]);
    let info = all.does(&["info", "b"]).text();
    assert!(!info.contains(path), "{info}");
    all.refuses(&["resume", "a", "--clone", "b"], &["there is a VM b"]);
    assert_eq!(all.output("b", "cat /srv/file"), "mine\n");
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", "cat /srv/file"), "mine\n");
}

fn incomplete() {
    let all = machines();
    let image = root(&all);
    let path = image.to_str().unwrap();
    all.boot("a", &["--root", path, "--rw", "--compression", "lz4"]);
    let _ = all.does(&["suspend", "a"]);
    // Interrupted in time, it leaves nothing.
    let run = all.vm(&["resume", "a", "--clone", "b"]).spawn();
    until("the clone is defined", || {
        all.definition("b").exists().then_some(())
    });
    run.signal(Signal::INT);
    match run.wait().status.code() {
        Some(130) => assert!(!all.definition("b").exists() && !all.state_dir("b").exists()),
        code => {
            assert_eq!(code, Some(0));
            let _ = all.does(&["kill", "b"]);
            let _ = all.does(&["rm", "b"]);
        }
    }
    assert_eq!(all.count(), 0);
    // As one leaves it that is killed before the guest knows who it is.
    let _ = all.does(&["resume", "a", "--clone", "b"]);
    let plan = all.memory().join("run/vm/b/plan.json");
    let text = fs::read_to_string(&plan).unwrap();
    let nameless = text.replace("\"nameless\":false", "\"nameless\":true");
    assert_ne!(nameless, text);
    fs::write(&plan, nameless).unwrap();
    let texts = [
        "b is a clone that does not know yet who it is",
        "brisk vm kill",
    ];
    all.refuses(&["exec", "b", "--", "true"], &texts);
    all.refuses(&["suspend", "b"], &["b does not run"]);
    assert_eq!((all.doing("b").as_str(), all.count()), ("off", 0));
    let _ = all.does(&["start", "b"]);
    assert_eq!(all.output("b", "hostname"), "b\n");
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", "hostname"), "a\n");
}

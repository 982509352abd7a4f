//! Images: their VM, their place, and their recipients.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use brisk_testkit::{Finished, Machines, Mount, Signal, brisk_of, qemu_is_before, trials, until};
use libtest_mimic::Arguments;

fn main() {
    let tests: [(_, fn()); 11] = [
        ("another_machines_image_is_left_alone", foreign),
        (
            "an_older_image_of_a_machine_is_not_taken_for_its_own",
            older,
        ),
        ("no_image_counts_for_a_machine_that_stands_still", alive),
        (
            "no_record_of_before_ends_a_machine_that_stands_still",
            older_record,
        ),
        (
            "a_record_that_cannot_be_read_is_no_record_of_nothing",
            unreadable_record,
        ),
        (
            "a_definition_without_its_uuid_keeps_its_image",
            without_uuid,
        ),
        (
            "base_images_are_removed_with_their_own_machine_alone",
            bases,
        ),
        ("a_link_to_an_image_stays_a_link", linked),
        ("an_image_that_is_gone_is_missed", missing),
        ("what_was_killed_while_it_booted_is_not_running", killed),
        ("who_opens_an_image_opens_what_it_is_based_on", locked),
    ];
    let trials = trials(qemu_is_before(8, 2), tests);
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

fn foreign() {
    let all = machines();
    let image = all.dir().join("same.brisk");
    let place = ["--suspend-path", image.to_str().unwrap()];
    all.boot("a", &place);
    let _ = all.output("a", "echo mine > /run/file");
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&[&["create", "b"], &place[..]].concat());
    assert_eq!(all.doing("b"), "off");
    all.refuses(&["kill", "b"], &["does not run"]);
    all.refuses(&["discard", "b"], &["is not suspended"]);
    all.refuses(&["resume", "b"], &["it holds the VM a"]);
    // One that is made anew with its name is another one.
    let kept = fs::read(all.definition("a")).unwrap();
    fs::remove_file(all.definition("a")).unwrap();
    let _ = all.does(&[&["create", "c"], &place[..]].concat());
    fs::rename(all.definition("c"), all.definition("a")).unwrap();
    assert_eq!(all.doing("a"), "off");
    all.refuses(&["discard", "a"], &["is not suspended"]);
    fs::write(all.definition("a"), kept).unwrap();
    // Nor is it known where neither its record nor a key is there.
    let noted = all.state_dir("a").join("suspended");
    let key = all.dir().join("state/suspend.key");
    let away = key.with_extension("away");
    fs::remove_file(noted).unwrap();
    fs::rename(&key, &away).unwrap();
    all.refuses(&["discard", "a"], &["may not be the VM in", place[1]]);
    fs::rename(&away, &key).unwrap();
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", "cat /run/file"), "mine\n");
}

/// A suspended VM `a`, the image of an earlier suspend, and that of the last one, which lies
/// elsewhere.
fn two_suspends(all: &Machines, words: &[&str]) -> (PathBuf, PathBuf, PathBuf) {
    all.boot("a", words);
    let image = all.state_dir("a").join("a.brisk");
    let [backup, away] = ["backup", "away"].map(|name| all.dir().join(name));
    let _ = all.output("a", "echo one > /run/file");
    let _ = all.does(&["suspend", "a"]);
    fs::copy(&image, &backup).unwrap();
    let _ = all.does(&["resume", "a"]);
    let _ = all.output("a", "echo two > /run/file");
    let _ = all.does(&["suspend", "a"]);
    fs::rename(&image, &away).unwrap();
    (image, backup, away)
}

fn older() {
    let all = machines();
    let (image, backup, away) = two_suspends(&all, &["--autoboot"]);
    fs::copy(&backup, &image).unwrap();
    let state = [
        "is suspended to",
        "a.brisk is not the image of that suspend",
    ];
    assert_eq!(all.glance("a"), "image missing");
    for words in [
        &["resume", "a"][..],
        &["resume", "a", "--eager"],
        &["resume", "a", "--again"],
        &["discard", "a"],
        &["start", "a"],
        &["autostart"],
    ] {
        all.refuses(words, &state);
    }
    all.refuses(&["resume", "a", "--clone", "b"], &["a is not suspended"]);
    all.refuses(&["rm", "a"], &["is not there"]);
    assert_eq!(all.count(), 0);
    assert!(!all.state_dir("b").exists());
    // As a resume leaves it that was killed.
    let resuming = image.with_extension("brisk.resuming");
    fs::rename(&image, &resuming).unwrap();
    all.refuses(&["resume", "a"], &state);
    all.refuses(&["discard", "a"], &state);
    assert_eq!(fs::read(&resuming).unwrap(), fs::read(&backup).unwrap());
    // Nor is it the one that was moved.
    fs::rename(&resuming, &image).unwrap();
    let place = backup.to_str().unwrap();
    all.refuses(
        &["set", "a", "--suspend-path", place],
        &["is suspended to", "not there", "is not that image"],
    );
    fs::rename(&away, &image).unwrap();
    let _ = all.does(&["autostart"]);
    assert_eq!(all.output("a", "cat /run/file"), "two\n");
}

/// A VM whose disk is full stands still, and has run since it was resumed.
fn alive() {
    let all = machines();
    let small = Mount::tmpfs(all.dir().join("small"), "size=4m");
    let disk = small.path().join("disk.raw");
    File::create_new(&disk).unwrap().set_len(8 << 20).unwrap();
    let words = format!("{},format=raw", disk.display());
    all.boot("a", &["--disk", &words]);
    let image = all.state_dir("a").join("a.brisk");
    let backup = all.dir().join("backup");
    let _ = all.does(&["suspend", "a"]);
    fs::copy(&image, &backup).unwrap();
    let _ = all.does(&["resume", "a"]);
    let _ = all.output("a", "echo alive > /run/file");
    small.fill("fill", 0);
    let write = "echo up; dd if=/dev/zero of=/dev/vda bs=1M count=4 && sync";
    let writing = all.spawns("a", write);
    until("QEMU stops it", || {
        (all.doing("a") == "paused").then_some(())
    });
    let qemu = all.processes("qemu").len();
    fs::copy(&backup, &image).unwrap();
    assert_eq!(all.doing("a"), "paused");
    let reason = format!("no space is left for its disk {}", disk.display());
    for text in ["info", "log"].map(|word| all.does(&[word, "a"]).text()) {
        assert!(text.contains(&reason), "{text}");
    }
    let info = all.does(&["info", "a", "--format", "json"]).text();
    assert!(info.contains(&reason), "{info}");
    all.refuses(&["discard", "a"], &["is not suspended, but paused"]);
    all.refuses(&["resume", "a", "--clone", "b"], &["a is not suspended"]);
    // It goes on where it was, and its image is left alone.
    fs::remove_file(small.path().join("fill")).unwrap();
    let _ = all.does(&["resume", "a"]);
    let _ = writing.wait().exited(0);
    assert_eq!(all.output("a", "cat /run/file"), "alive\n");
    assert_eq!(all.processes("qemu").len(), qemu);
    assert_eq!(fs::read(&image).unwrap(), fs::read(&backup).unwrap());
    let info = all.does(&["info", "a"]).text();
    assert!(!info.contains("reason"), "{info}");
}

/// The image and the record of before are restored together, while the suspend after was killed.
fn older_record() {
    let all = machines();
    all.boot("a", &["--incremental=false", "--compression", "none"]);
    let (image, record) = (
        all.state_dir("a").join("a.brisk"),
        all.state_dir("a").join("suspended"),
    );
    let copies = ["image", "record"].map(|name| all.dir().join(name));
    let _ = all.does(&["suspend", "a"]);
    for (from, to) in [&image, &record].into_iter().zip(&copies) {
        fs::copy(from, to).unwrap();
    }
    let _ = all.does(&["resume", "a", "--eager"]);
    let _ = all.output("a", "echo alive > /run/file");
    let _ = all.does(&["set", "a", "--bandwidth", "1M"]);
    let suspend = all.vm(&["suspend", "a"]).spawn();
    let stands = all.state_dir("a").join("standing");
    until("the guest stands still", || {
        let text = fs::read_to_string(&stands).ok()?;
        text.contains("identities").then_some(())
    });
    suspend.signal(Signal::KILL);
    let _ = suspend.wait();
    for (from, to) in copies.iter().zip([&image, &record]) {
        fs::copy(from, to).unwrap();
    }
    assert_eq!(all.doing("a"), "paused");
    let _ = all.does(&["resume", "a", "--eager"]);
    assert_eq!(all.output("a", "cat /run/file"), "alive\n");
}

fn unreadable_record() {
    let all = machines();
    all.boot("a", &[]);
    let _ = all.output("a", "echo mine > /run/file");
    let _ = all.does(&["suspend", "a"]);
    let record = all.state_dir("a").join("suspended");
    let kept = fs::read(&record).unwrap();
    for bytes in [&b""[..], b"{\"image\": 1}"] {
        fs::write(&record, bytes).unwrap();
        for words in [
            &["start", "a"][..],
            &["resume", "a"],
            &["discard", "a"],
            &["rm", "a"],
        ] {
            all.refuses(
                words,
                &[
                    "a may be suspended",
                    "suspended, which says",
                    "cannot be read",
                ],
            );
        }
    }
    fs::write(&record, kept).unwrap();
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", "cat /run/file"), "mine\n");
}

fn without_uuid() {
    let all = machines();
    all.boot("a", &[]);
    let _ = all.output("a", "echo mine > /run/file");
    let _ = all.does(&["suspend", "a"]);
    let image = all.state_dir("a").join("a.brisk");
    let text = fs::read_to_string(all.definition("a")).unwrap();
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with("uuid"))
        .collect();
    assert_ne!(lines.len(), text.lines().count());
    fs::write(all.definition("a"), lines.join("\n")).unwrap();
    let away = all.dir().join("away");
    fs::rename(&image, &away).unwrap();
    all.refuses(&["start", "a"], &["is suspended to", "not there"]);
    fs::rename(&away, &image).unwrap();
    // It gets back the one that it had.
    let _ = all.does(&["set", "a", "--cpus", "1"]);
    assert_eq!(all.doing("a"), "suspended");
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", "cat /run/file"), "mine\n");
}

fn bases() {
    let all = machines();
    let place = all.dir().join("images");
    fs::create_dir(&place).unwrap();
    let image = place.join("a.brisk");
    let words = ["--suspend-path", image.to_str().unwrap()];
    all.boot("a", &words);
    let _ = all.output("a", "echo mine > /run/file");
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&["resume", "a", "--eager"]);
    let _ = all.does(&["suspend", "a"]);
    let base = place.join("a.brisk.base-0");
    assert!(base.exists());
    // A clone that is to be suspended there has none of it.
    let _ = all.does(&["resume", "a", "--clone", "b"]);
    let _ = all.does(&[&["set", "b"], &words[..]].concat());
    let _ = all.does(&["stop", "b"]);
    let _ = all.does(&["rm", "b"]);
    assert!(base.exists());
    // A copy cannot have other keys alone.
    let copy = place.join("copy.brisk");
    fs::copy(&image, &copy).unwrap();
    let key = all.dir().join("new.key");
    let host = format!("--for-host={}", key.display());
    let rekey = all
        .with(brisk_of!["image"])
        .args(["rekey", &host])
        .arg(&copy);
    let _ = rekey.exits(125).explains(&["a.brisk is based on", "too"]);
    assert!(!key.exists());
    // An image that is forgotten may come back.
    let away = all.dir().join("away");
    fs::rename(&image, &away).unwrap();
    let _ = all.does(&["discard", "a"]);
    assert!(base.exists());
    fs::rename(&away, &image).unwrap();
    // A definition of before names another place.
    let text = fs::read_to_string(all.definition("a")).unwrap();
    let elsewhere = place.join("elsewhere.brisk");
    let other = text.replace(words[1], elsewhere.to_str().unwrap());
    assert_ne!(other, text);
    let _ = all.does(&["resume", "a"]);
    let _ = all.does(&["suspend", "a"]);
    fs::write(all.definition("a"), other).unwrap();
    fs::copy(&copy, &elsewhere).unwrap();
    let hint = format!("brisk vm set a --suspend-path {}", image.display());
    all.refuses(&["resume", "a"], &["is suspended to", &hint]);
    let _ = all.does(&[&["set", "a"], &words[..]].concat());
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", "cat /run/file"), "mine\n");
}

fn linked() {
    let all = machines();
    all.boot("a", &[]);
    let image = all.state_dir("a").join("a.brisk");
    let large = all.dir().join("large");
    fs::create_dir(&large).unwrap();
    let real = large.join("image");
    let _ = all.output("a", "echo mine > /run/file");
    let _ = all.does(&["suspend", "a"]);
    // Moved to where there is room.
    fs::rename(&image, &real).unwrap();
    symlink(&real, &image).unwrap();
    let before = fs::read(&real).unwrap();
    let key = all.dir().join("new.key");
    let host = format!("--for-host={}", key.display());
    let rekey = all
        .with(brisk_of!["image"])
        .args(["rekey", &host])
        .arg(&image);
    let _ = rekey.exits(0).explains(&["made", "new.key", "back it up"]);
    assert_ne!(fs::read(&real).unwrap(), before);
    assert_eq!(fs::read_link(&image).unwrap(), real);
    all.refuses(&["resume", "a"], &["none of the given keys opens"]);
    let host = ["rekey", "--host-key", key.to_str().unwrap(), "--for-host"];
    let _ = all.with(brisk_of!["image"]).args(host).arg(&image).exits(0);
    // A clone, and a resume, leave no second image that could be resumed.
    let _ = all.does(&["resume", "a", "--clone", "b"]);
    assert_eq!(all.output("b", "cat /run/file"), "mine\n");
    let _ = all.does(&["resume", "a", "--eager"]);
    assert_eq!(all.output("a", "cat /run/file"), "mine\n");
    assert_eq!(fs::read_link(&image).unwrap(), real);
    assert!(!real.exists());
    let _ = all.does(&["suspend", "a"]);
    assert!(real.exists());
    let _ = all.does(&["discard", "a"]);
    let left = fs::read_dir(&large).unwrap().count();
    assert_eq!(left, 0);
}

fn missing() {
    let all = machines();
    let dir = all.dir().join("images");
    fs::create_dir(&dir).unwrap();
    let image = dir.join("a.brisk");
    let place = image.to_str().unwrap();
    all.boot("a", &["--suspend-path", place, "--autoboot"]);
    let _ = all.output("a", "echo mine > /run/file");
    let _ = all.does(&["suspend", "a"]);
    // As if its file system were not mounted.
    let away = dir.with_extension("away");
    fs::rename(&dir, &away).unwrap();
    assert_eq!(all.glance("a"), "image missing");
    for command in ["start", "resume"] {
        all.refuses(&[command, "a"], &["is suspended to", place, "not there"]);
    }
    all.refuses(&["autostart"], &["a", place, "not there"]);
    all.refuses(&["rm", "a"], &["brisk vm discard forgets it"]);
    assert_eq!(all.count(), 0);
    fs::rename(&away, &dir).unwrap();
    let _ = all.does(&["autostart"]);
    assert_eq!(all.output("a", "cat /run/file"), "mine\n");
    // Where it was moved to, and nowhere else.
    let _ = all.does(&["suspend", "a"]);
    let moved = dir.join("moved");
    fs::rename(&image, &moved).unwrap();
    all.refuses(
        &["set", "a", "--suspend-path", "default"],
        &["is suspended to", place, "is not that image"],
    );
    let _ = all.does(&["set", "a", "--suspend-path", moved.to_str().unwrap()]);
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", "cat /run/file"), "mine\n");
    let _ = all.does(&["suspend", "a"]);
    fs::remove_file(&moved).unwrap();
    all.refuses(&["kill", "a"], &["image missing", "brisk vm discard"]);
    let _ = all.does(&["discard", "a"]);
    assert_eq!(all.glance("a"), "off");
    let _ = all.does(&["start", "a"]);
}

fn killed() {
    let all = machines();
    let _ = all.does(&["create", "a", "--memory", "128M"]);
    let run = all.vm(&["start", "a"]).spawn();
    let pid = all.memory().join("run/vm/a/pid");
    until("there is a QEMU", || pid.exists().then_some(()));
    run.signal(Signal::KILL);
    let _ = run.wait();
    assert_eq!(all.count(), 1);
    all.refuses(
        &["exec", "a", "--", "true"],
        &["is booting", "brisk vm kill"],
    );
    let _ = all.does(&["start", "a"]);
    assert_eq!(
        (all.output("a", "echo up").as_str(), all.count()),
        ("up\n", 1)
    );
}

/// Opens an image with a passphrase alone.
fn opens(all: &Machines, image: &Path, passphrase: &Path) -> Finished {
    let words = ["verify", "--passphrase-file", passphrase.to_str().unwrap()];
    let run = brisk_of!["image"].crowding().args(words).arg(image);
    run.env("BRISK_STATE_DIR", all.dir().join("nowhere"))
        .output()
}

fn locked() {
    let all = machines();
    let [one, two] = ["one", "two"].map(|name| {
        let path = all.dir().join(name);
        fs::write(&path, format!("passphrase {name}\n")).unwrap();
        path
    });
    all.boot("a", &["--compression", "none"]);
    let image = all.state_dir("a").join("a.brisk");
    let base = |number: u32| image.with_extension(format!("brisk.base-{number}"));
    let again = |words: &[&str]| {
        let _ = all.does(&["resume", "a", "--eager"]);
        let _ = all.does(&[&["suspend", "a"], words].concat());
    };
    let _ = all.does(&["suspend", "a"]);
    again(&[]);
    assert!(base(0).exists());
    // Another set of keys: nothing that the old ones open is needed any more.
    let _ = all.does(&["set", "a", "--passphrase"]);
    let with_one = ["--passphrase-file", one.to_str().unwrap()];
    again(&with_one);
    assert!(!base(0).exists());
    let _ = opens(&all, &image, &one).exited(0);
    again(&with_one);
    assert!(base(0).exists());
    let _ = opens(&all, &image, &one).exited(0);
    // Another passphrase is another key.
    again(&["--passphrase-file", two.to_str().unwrap()]);
    assert!(!base(0).exists());
    let _ = opens(&all, &image, &two).exited(0);
    again(&["--passphrase-file", two.to_str().unwrap()]);
    // Who locks it for others locks all of it.
    let words = ["rekey", "--new-passphrase-file", one.to_str().unwrap()];
    let run = brisk_of!["image"].crowding().args(words).arg(&image);
    let run = run.env("BRISK_STATE_DIR", all.dir().join("state"));
    let _ = run
        .exits(0)
        .explains(&["the one that it is based on", "passphrase"]);
    let _ = opens(&all, &image, &one).exited(0);
    let _ = opens(&all, &image, &two).exited(125);
    let _ = opens(&all, &base(0), &two).exited(125);
    let _ = all.does(&["resume", "a", "--passphrase-file", one.to_str().unwrap()]);
    assert_eq!(all.output("a", "echo well"), "well\n");
}

//! Images: their VM, their place, and their recipients.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::Path;

use brisk_testkit::{Finished, Machines, Signal, brisk_of, qemu_is_before, trials, until};
use libtest_mimic::Arguments;

fn main() {
    let tests: [(_, fn()); 4] = [
        ("another_machines_image_is_left_alone", foreign),
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
    // Where it was moved to.
    let _ = all.does(&["suspend", "a"]);
    let moved = dir.join("moved");
    fs::rename(&image, &moved).unwrap();
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

//! Persistent VMs whose root is a directory: virtiofsd continues where an earlier one left off.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::PathBuf;

use brisk_testkit::{
    Machines, Signal, brisk_of, qemu_is_before, tree, trials, until, virtiofsd_keeps_nothing,
};
use libtest_mimic::Arguments;

fn main() {
    let old = qemu_is_before(8, 2).or_else(virtiofsd_keeps_nothing);
    let tests: [(_, fn()); 6] = [
        ("one_that_is_read_is_as_it_is_now", read),
        ("one_that_is_written_to_has_what_was_written", written),
        ("this_hosts_root_is_one", host),
        ("one_that_is_gone_is_reported", gone),
        ("others_are_shared", shared),
        ("whose_server_was_killed_is_not_lost_by_a_suspend", unserved),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials(old, tests)).exit();
}

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

fn root(all: &Machines) -> PathBuf {
    let root = all.dir().join("root");
    tree(&root);
    root
}

/// Nobody serves a directory.
#[track_caller]
fn is_unserved(all: &Machines) {
    until("what served it has ended", || {
        (all.count_of("virtiofsd") == 0).then_some(())
    });
}

fn read() {
    let all = machines();
    let root = root(&all);
    all.boot("a", &["--root", root.to_str().unwrap()]);
    let script = "cat /etc/origin; echo mine > /srv/file; cat /srv/file";
    assert_eq!(all.output("a", script), "the test's tree\nmine\n");
    let _ = all.does(&["suspend", "a"]);
    is_unserved(&all);
    assert!(!root.join("srv/file").exists());
    fs::write(root.join("srv/new"), "of the host\n").unwrap();
    let note = "all memory is loaded before the guest runs";
    let _ = all.does(&["resume", "a"]).explains(&[note, "directories"]);
    let script = "cat /srv/file /srv/new /etc/origin";
    let both = "mine\nof the host\nthe test's tree\n";
    assert_eq!(all.output("a", script), both);
    // Nobody writes to it, so there can be many.
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&["resume", "a", "--clone", "b"]);
    let _ = all.does(&["resume", "a"]);
    for name in ["a", "b"] {
        assert_eq!(all.output(name, script), both);
        let _ = all.does(&["stop", name]);
    }
    is_unserved(&all);
}

fn written() {
    let all = machines();
    let root = root(&all);
    all.boot("a", &["--root", root.to_str().unwrap(), "--rw"]);
    // A file that is open goes on to be written to.
    let wait = |file| format!("until test -e {file}; do busybox sleep 0.01; done");
    let script = format!(
        "(exec > /srv/open; echo one; {}; echo two; echo > /run/done) < /dev/null 2> /dev/null & \
         echo up",
        wait("/run/go")
    );
    assert_eq!(all.output("a", &script), "up\n");
    let _ = all.does(&["suspend", "a"]);
    let texts = ["writes to the directory", root.to_str().unwrap()];
    all.refuses(&["resume", "a", "--clone", "b"], &texts);
    let _ = all.does(&["resume", "a"]);
    let go = format!("touch /run/go; {}; cat /srv/open", wait("/run/done"));
    assert_eq!(all.output("a", &go), "one\ntwo\n");
    let _ = all.does(&["stop", "a"]);
    let open = fs::read_to_string(root.join("srv/open")).unwrap();
    assert_eq!(open, "one\ntwo\n");
    is_unserved(&all);
}

fn host() {
    let all = machines();
    fs::write(all.dir().join("mark"), "of the host\n").unwrap();
    let refused = ["create", "a", "--root", "host", "--rw"];
    all.refuses(&refused, &["--rw", "the host's own root"]);
    all.boot("a", &["--root", "host"]);
    let script = format!("cat {}; hostname", all.dir().join("mark").display());
    assert_eq!(all.output("a", &script), "of the host\na\n");
    let _ = all.does(&["suspend", "a"]);
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", &script), "of the host\na\n");
}

fn gone() {
    let all = machines();
    let root = root(&all);
    all.boot("a", &["--root", root.to_str().unwrap()]);
    let _ = all.does(&["suspend", "a"]);
    let away = root.with_extension("away");
    fs::rename(&root, &away).unwrap();
    let texts = [root.to_str().unwrap(), "is not there any more"];
    all.refuses(&["resume", "a"], &texts);
    // As where its file system is not mounted.
    fs::create_dir(&root).unwrap();
    let texts = [root.to_str().unwrap(), "nothing of what was in it"];
    all.refuses(&["resume", "a"], &texts);
    fs::remove_dir(&root).unwrap();
    assert_eq!(all.doing("a"), "suspended");
    fs::rename(&away, &root).unwrap();
    let _ = all.does(&["resume", "a"]);
    assert_eq!(all.output("a", "cat /etc/origin"), "the test's tree\n");
    // One that never was, and one that is gone before the start.
    let never = ["create", "b", "--root", "/does/not/exist"];
    all.refuses(&never, &["/does/not/exist does not exist"]);
    let _ = all.does(&["stop", "a"]);
    fs::rename(&root, &away).unwrap();
    all.refuses(
        &["start", "a"],
        &[&format!("{} does not exist", root.display())],
    );
}

fn shared() {
    let all = machines();
    let [read, write] = ["read", "write"].map(|name| {
        let path = all.dir().join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("mark"), name).unwrap();
        path
    });
    let read_only = format!("{}:/mnt/r:ro", read.display());
    let written = format!("{}:/mnt/w", write.display());
    all.boot("a", &["--share", &read_only, "--share", &written]);
    let script =
        "cat /mnt/r/mark /mnt/w/mark; echo one > /mnt/w/new; ! echo one 2> /dev/null > /mnt/r/new";
    assert_eq!(all.output("a", script), "readwrite");
    let _ = all.does(&["suspend", "a"]);
    fs::write(read.join("mark"), "again").unwrap();
    let texts = ["writes to the directory", write.to_str().unwrap()];
    all.refuses(&["resume", "a", "--clone", "b"], &texts);
    let _ = all.does(&["resume", "a"]);
    // What it has looked at it looks at again after a second.
    let script = "until test \"$(cat /mnt/r/mark)\" = again; do busybox sleep 0.01; done; \
                  cat /mnt/w/new; echo two >> /mnt/w/new";
    assert_eq!(all.output("a", script), "one\n");
    let _ = all.does(&["stop", "a"]);
    assert_eq!(fs::read_to_string(write.join("new")).unwrap(), "one\ntwo\n");
    assert!(!read.join("new").exists());
    fs::remove_dir_all(&write).unwrap();
    all.refuses(&["start", "a"], &["cannot share", write.to_str().unwrap()]);
    let _ = all.does(&["set", "a", "--no-shares"]);
    let _ = all.does(&["start", "a"]);
}

fn unserved() {
    let all = machines();
    let root = root(&all);
    all.boot("a", &["--root", root.to_str().unwrap()]);
    // One that confines itself has a parent, which ends with it.
    let servers = all.processes("virtiofsd").into_iter();
    let server = servers.max_by_key(|server| server.pid).unwrap();
    server.signal(Signal::KILL);
    is_unserved(&all);
    let texts = ["what serves its directories has ended", "brisk vm kill"];
    all.refuses(&["suspend", "a"], &texts);
    assert_eq!(all.doing("a"), "running");
    let _ = all.does(&["kill", "a"]);
}

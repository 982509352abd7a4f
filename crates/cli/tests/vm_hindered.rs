//! VMs whose files are others' or none, and whose QEMU does not answer: none is lost, and no command
//! waits for what does not come.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use brisk_testkit::{Machines, brisk_of, qemu_is_before, trials};
use libtest_mimic::Arguments;
use rustix::fs::{CWD, Mode, mkfifoat};

fn main() {
    let tests: [(&str, fn()); 3] = [
        ("a_cache_of_others_keeps_no_machine_from_its_end", cache),
        ("a_pipe_is_not_waited_for", pipes),
        ("a_log_is_not_written_through_a_link", links),
    ];
    let all = trials(qemu_is_before(8, 2), tests);
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
}

fn pipe(path: &Path) {
    let _ = fs::remove_file(path);
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
}

/// A shutdown needs none.
fn cache() {
    let all = machines();
    for (name, how) in [("a", "suspend"), ("b", "shutdown")] {
        all.boot(name, &["--autoshutdown", how]);
    }
    let open = all.dir().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    let down = all.vm(&["autostop"]).env("BRISK_CACHE_DIR", &open);
    let _ = down.exits(125).explains(&[
        "error: others can change what is in",
        "a: suspended in",
        "b: stopped in",
    ]);
    assert_eq!(all.count(), 0);
    let _ = all.does(&["resume", "a"]);
}

fn pipes() {
    let all = machines();
    all.boot("a", &[]);
    let (state, runtime) = (all.state_dir("a"), all.runtime_dir("a"));
    for name in ["log", "working-set", "standing", "process"] {
        pipe(&state.join(name));
    }
    for name in [
        "base",
        "in-image",
        "disk-error",
        "image-unreadable",
        "console-start",
    ] {
        pipe(&runtime.join(name));
    }
    assert_eq!(all.doing("a"), "running");
    let _ = all.does(&["info", "a"]);
    all.refuses(&["log", "a"], &["it is not a regular file"]);
    let _ = all.does(&["suspend", "a"]);
    pipe(&state.join("console.log"));
    all.refuses(&["resume", "a", "--eager"], &["console.log"]);
    all.refuses(&["resume", "a"], &["console.log"]);
    assert_eq!(all.doing("a"), "suspended");
    fs::remove_file(state.join("console.log")).unwrap();
    let _ = all.does(&["resume", "a"]);
    pipe(&state.join("lock"));
    pipe(&runtime.join("port0.lock"));
    all.refuses(&["exec", "a", "--", "true"], &["port0.lock"]);
    let _ = all.does(&["stop", "a"]);
    assert_eq!(all.count(), 0);
    pipe(&state.join("suspended"));
    all.refuses(&["start", "a"], &["lock", "it is not a regular file"]);
    fs::remove_file(state.join("lock")).unwrap();
    all.refuses(&["start", "a"], &["may be suspended"]);
    fs::remove_file(state.join("suspended")).unwrap();
    let _ = all.does(&["start", "a"]);
}

/// Whoever can change the files of a VM that root ends.
fn links() {
    let all = machines();
    all.boot("a", &[]);
    let other = all.dir().join("other");
    fs::write(&other, "mine\n").unwrap();
    for name in ["log", "lock"] {
        let _ = fs::remove_file(all.state_dir("a").join(name));
        std::os::unix::fs::symlink(&other, all.state_dir("a").join(name)).unwrap();
    }
    let state = all.dir().join("state");
    fs::set_permissions(&state, Permissions::from_mode(0o777)).unwrap();
    let _ = all.does(&["stop", "a"]);
    assert_eq!(all.count(), 0);
    assert_eq!(fs::read_to_string(&other).unwrap(), "mine\n");
}

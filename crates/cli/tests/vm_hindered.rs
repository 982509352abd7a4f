//! VMs whose files are others' or none, and whose QEMU does not answer: none is lost, and no command
//! waits for what does not come.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use brisk_testkit::{Machines, brisk_of, qemu_is_before, trials};
use libtest_mimic::Arguments;

fn main() {
    let tests: [(&str, fn()); 1] = [("a_cache_of_others_keeps_no_machine_from_its_end", cache)];
    let all = trials(qemu_is_before(8, 2), tests);
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}

fn machines() -> Machines {
    Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"))
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

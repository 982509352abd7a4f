//! Cache, state and configuration where another user could have put something first, or can change
//! it: nothing is read or written there.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use brisk_testkit::{Brisk, brisk, brisk_of, partitioned, qcow2};
use tempfile::{TempDir, tempdir};

/// A directory that all users may write to, another one that is named only through a link in it, and
/// a third of theirs, if this is root.
fn places() -> (TempDir, Vec<(PathBuf, String)>) {
    let dir = tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    for name in ["open", "target", "theirs"] {
        fs::create_dir(at(name)).unwrap();
        fs::set_permissions(at(name), Permissions::from_mode(0o755)).unwrap();
    }
    symlink(at("target"), at("open/link")).unwrap();
    fs::set_permissions(at("open"), Permissions::from_mode(0o777)).unwrap();
    let open = || format!("{} is writable for all users", at("open").display());
    let mut places = vec![(at("open/missing"), open()), (at("open/link"), open())];
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(at("theirs"), Some(12345), None).unwrap();
        let theirs = format!("{} belongs to user 12345", at("theirs").display());
        places.push((at("theirs"), theirs.clone()));
        places.push((at("theirs/missing/too"), theirs));
    }
    (dir, places)
}

fn refused(brisk: Brisk, variable: &str, place: &Path, reason: &str) {
    let brisk = brisk.env(variable, place);
    let output = brisk.exits(125);
    for text in [reason, variable, "a directory of your own"] {
        assert!(output.stderr.contains(text), "{text}: {}", output.stderr);
    }
}

#[test]
fn nothing_is_kept_where_others_can_change_it() {
    let (dir, places) = places();
    for (place, reason) in &places {
        let own = tempdir().unwrap();
        let own = |brisk: Brisk| {
            let at = |name: &str| own.path().join(name);
            brisk
                .env("BRISK_STATE_DIR", at("state"))
                .env("BRISK_CONFIG_DIR", at("config"))
                .env("BRISK_RUNTIME_DIR", at("runtime"))
        };
        for (variable, words) in [
            ("BRISK_CACHE_DIR", &["kernel", "info"][..]),
            ("BRISK_CACHE_DIR", &["run", "--root", "host", "--dry-run"]),
            ("BRISK_STATE_DIR", &["run", "--root", "host", "--", "true"]),
            ("BRISK_STATE_DIR", &["image", "info", "x"]),
            ("BRISK_STATE_DIR", &["vm", "list"]),
            ("BRISK_CONFIG_DIR", &["vm", "start", "x"]),
            ("BRISK_RUNTIME_DIR", &["vm", "suspend", "x"]),
        ] {
            refused(own(brisk_of!().args(words)), variable, place, reason);
        }
    }
    for name in ["target", "theirs"] {
        let found = fs::read_dir(dir.path().join(name)).unwrap().count();
        assert_eq!(found, 0, "{name}");
    }
}

#[test]
fn what_a_disk_has_is_not_written_among_temporary_files() {
    let dir = tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("raw"), [0; 1 << 20]).unwrap();
    partitioned(&at("raw"), &at("disk"));
    qcow2(&at("disk"), &at("disk.qcow2"));
    let run = brisk!["--dry-run", "--root", at("disk.qcow2")].command(["true"]);
    let output = run.env("TMPDIR", at("missing")).output();
    assert!(!output.stderr.contains("missing"), "{}", output.stderr);
}

//! An ordinary user gets a message of what root may do and others may not, and what to set where the
//! environment names no directories; nothing is kept where others could have put something first.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use brisk_testkit::copy_program;
use tempfile::{TempDir, tempdir};

/// No user has this number, nor is root.
const NOBODY: u32 = 65_534;

/// A directory of that user.
fn own_directory() -> TempDir {
    let dir = tempdir().unwrap();
    if rustix::process::geteuid().is_root() {
        chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    dir
}

/// The binary, where every user may run it, and a directory for temporary files.
struct Place {
    binary: PathBuf,
    temporary: TempDir,
    _dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let [dir, temporary] = [tempdir(), tempdir()].map(Result::unwrap);
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(temporary.path(), Permissions::from_mode(0o777)).unwrap();
        let binary = dir.path().join("brisk");
        copy_program(Path::new(env!("CARGO_BIN_EXE_brisk")), &binary);
        Self {
            binary,
            temporary,
            _dir: dir,
        }
    }

    /// Runs brisk as an ordinary user with nothing in the environment but this.
    fn run(&self, words: &[&str], environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(&self.binary);
        command
            .args(words)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("TMPDIR", self.temporary.path())
            .envs(environment.iter().copied());
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.output().unwrap()
    }

    fn refuses(&self, words: &[&str], environment: &[(&str, &str)], texts: &[&str]) {
        let output = self.run(words, environment);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{message}");
        for text in texts {
            assert!(message.contains(text), "no {text} in {message}");
        }
        assert_eq!(fs::read_dir(self.temporary.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_key_is_not_made_among_temporary_files() {
    let place = Place::new();
    let words = ["image", "rekey", "--for-host", "--", "no-such-image"];
    place.refuses(&words, &[], &["this host's key", "HOME", "BRISK_STATE_DIR"]);
}

#[test]
fn a_profile_among_temporary_files_is_not_used() {
    let place = Place::new();
    let cache = own_directory();
    let environment = [("BRISK_CACHE_DIR", cache.path().to_str().unwrap())];
    let words = ["boot", "tune", "--root", "none"];
    place.refuses(&words, &environment, &["HOME is not set"]);
}

#[test]
fn machines_need_a_directory_for_sockets() {
    let place = Place::new();
    let home = own_directory();
    let environment = [("HOME", home.path().to_str().unwrap())];
    let texts = ["XDG_RUNTIME_DIR", "su -", "BRISK_RUNTIME_DIR"];
    place.refuses(&["vm", "list"], &environment, &texts);
}

#[test]
fn memory_is_only_locked_within_the_limit() {
    let place = Place::new();
    let [cache, home] = [own_directory(), own_directory()];
    let environment = [
        ("BRISK_CACHE_DIR", cache.path().to_str().unwrap()),
        ("HOME", home.path().to_str().unwrap()),
    ];
    let words = [
        "run",
        "--root",
        "none",
        "--accel",
        "tcg",
        "--lock-memory",
        "--memory",
        "999G",
    ];
    let texts = ["QEMU would lock up to", "this user may lock", "limits.conf"];
    place.refuses(
        &[&words[..], &["--", "true"]].concat(),
        &environment,
        &texts,
    );
}

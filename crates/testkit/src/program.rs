//! Programs that build images for the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A program of the host; where distributions keep those of root as well.
///
/// # Panics
/// If it is not installed, saying how to get it.
#[must_use]
#[track_caller]
pub fn tool(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/libexec", "/usr/lib/qemu"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("{name} is not installed; `make test` installs what tests need"))
}

/// Standard output of a program that must succeed.
///
/// # Panics
/// If it fails, with what it said.
#[track_caller]
pub fn capture(program: &Path, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(
        output.status.success(),
        "{} {args:?}: {}\n{}{}",
        program.display(),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

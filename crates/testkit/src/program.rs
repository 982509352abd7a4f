//! Programs that build images for the tests.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use brisk_host::beside;

/// A program of the host; where distributions keep those of root as well. A QEMU or virtiofsd
/// beside the system's that brisk takes in its stead, see [`beside`].
///
/// # Panics
/// If it is not installed, saying how to get it.
#[must_use]
#[track_caller]
pub fn tool(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/libexec", "/usr/lib/qemu"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|path| path.is_file());
    let enough: fn(&str) -> bool = match name {
        "qemu-system-x86_64" => |path| version(&output_of(path, "--version")) >= (10, 0),
        "virtiofsd" => |path| output_of(path, "--help").contains("--migration-on-error"),
        _ => |_| true,
    };
    let does = |path: &PathBuf| path.to_str().is_some_and(enough);
    let newer = || beside::find(name).into_iter().find(does);
    let found = match system {
        Some(system) if does(&system) => Some(system),
        system => newer().or(system),
    };
    found.unwrap_or_else(|| panic!("{name} is not installed; `make test` installs what tests need"))
}

/// What a program says to one word, whatever it ends with.
fn output_of(path: &str, word: &str) -> String {
    let output = Command::new(path).arg(word).output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

/// From `QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)`; of anything else, (0, 0).
pub(crate) fn version(text: &str) -> (u32, u32) {
    let (_, rest) = text.split_once("version ").unwrap_or_default();
    let mut numbers = rest
        .split(['.', ' '])
        .map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Writes a program in a scripting language.
///
/// Another process does: what this one has open for writing is, for a moment, open in each program that
/// another thread starts meanwhile, too, and the kernel starts nothing that is (`ETXTBSY`).
///
/// # Panics
/// If it cannot be written.
#[track_caller]
pub fn script(path: &Path, text: &str) {
    let mut writer = Command::new("/bin/sh")
        .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = writer.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    assert!(writer.wait().unwrap().success(), "{}", path.display());
}

/// Copies a program. Another process does, see [`script`].
///
/// # Panics
/// If it cannot be copied.
#[track_caller]
pub fn copy_program(from: &Path, to: &Path) {
    let status = Command::new("/bin/cp").args([from, to]).status().unwrap();
    assert!(status.success(), "{}", to.display());
}

/// Standard output of a program that must succeed.
///
/// # Panics
/// If it fails, with its stderr.
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

/// A directory that set-up has unpacked beside the programs that it installs, if `file` is in it.
pub(crate) fn unpacked(name: &str, file: &str) -> Option<PathBuf> {
    let mut dirs = beside::dirs().into_iter();
    dirs.find_map(|dir| {
        let dir = dir.join(name);
        dir.join(file).exists().then_some(dir)
    })
}

//! A QEMU that has ended while no command looked: the next one that does notes it, and why.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::live;
use super::paths::VmPaths;
use crate::guest::harmless;

/// Most of the end of a file that is looked through, bytes.
const MOST: u64 = 64 << 10;
/// Begins the line of a kernel that gives up (`panic()` of kernel/panic.c).
const PANIC: &str = "Kernel panic - not syncing";
/// Longest line that is noted, characters.
const LONGEST: usize = 300;

/// Notes in the log of a machine whose QEMU has ended by itself that it has, once. The caller holds
/// the machine's lock.
pub(super) fn note_end(paths: &VmPaths) {
    let Ok(started) = fs::metadata(paths.pid()).and_then(|file| file.modified()) else {
        return;
    };
    if live::is_there(paths).unwrap_or(true) {
        return;
    }
    let files = paths.runtime_files();
    let panic = tail(&files.console, console_start(paths)).and_then(|text| panic_of(&text));
    let later = |path: &Path| {
        let changed = fs::metadata(path).and_then(|file| file.modified());
        changed.is_ok_and(|changed| changed > started)
    };
    let message = || {
        let text = tail(&files.errors, 0).filter(|_| later(&files.errors))?;
        Some(
            text.lines()
                .rfind(|line| !line.trim().is_empty())?
                .to_owned(),
        )
    };
    paths.note(&match (panic, message()) {
        (Some(panic), _) => format!("VM ended: its kernel panicked: {}", short(&panic)),
        (None, Some(message)) => format!("VM ended by itself; QEMU said: {}", short(&message)),
        (None, None) => "VM ended by itself".to_owned(),
    });
    // Once is enough. What the next command removes of it, it removes by other files.
    let _ = fs::remove_file(paths.pid());
}

/// As [`note_end`], unless another command works on the machine, which notes it itself.
pub(super) fn note_end_if_idle(paths: &VmPaths) {
    if paths.pid().exists() && live::pid(paths).is_none() {
        if let Ok(_lock) = paths.lock("look") {
            note_end(paths);
        }
    }
}

/// The panic that a console ends with.
fn panic_of(console: &str) -> Option<String> {
    let line = console.lines().rfind(|line| line.contains(PANIC))?;
    let from = line.find(PANIC)?;
    Some(line[from..].trim_end().to_owned())
}

/// What somebody else wrote, in a line.
fn short(text: &str) -> String {
    let text = harmless(text.as_bytes());
    text.chars().take(LONGEST).collect()
}

/// Notes how long the console is before a machine writes to it, so that what earlier lives of it
/// wrote is not taken for its own.
pub(super) fn note_console_start(paths: &VmPaths) {
    let length = fs::metadata(paths.runtime_files().console).map_or(0, |file| file.len());
    // Without it an older panic may be noted.
    let _ = fs::write(paths.console_start(), length.to_string());
}

fn console_start(paths: &VmPaths) -> u64 {
    let text = fs::read_to_string(paths.console_start()).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The end of a file, of what is behind `from`; all of the end if the file has become shorter.
fn tail(path: &Path, from: u64) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    let from = if from > length { 0 } else { from };
    let start = length.saturating_sub(MOST).max(from);
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_panic_is_found_without_its_time() {
        let console = "[    1.2] Run /init\n[    3.4] Kernel panic - not syncing: sysrq triggered \
                       crash\r\n[    3.5] ---[ end Kernel panic - not syncing: sysrq triggered \
                       crash ]---\n[    3.6] Rebooting";
        let panic = panic_of(console).unwrap();
        assert!(
            panic.starts_with("Kernel panic - not syncing: sysrq"),
            "{panic}"
        );
        assert_eq!(panic_of("[    1.2] Run /init\n"), None);
    }

    #[test]
    fn what_a_guest_writes_is_harmless_and_short() {
        assert_eq!(short("\u{1b}[2Jgone"), "[2Jgone");
        assert_eq!(short(&"x".repeat(5000)).len(), LONGEST);
    }
}

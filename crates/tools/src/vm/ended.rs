//! Ends of QEMU that no command saw: the next command records the end in the log, with the reason.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use brisk_host::files::{self, Durability};

use super::paths::VmPaths;
use super::process;
use crate::guest::harmless;

/// Most bytes at the end of a file that are searched.
const MOST: u64 = 64 << 10;
/// Beginning of the line of a kernel panic (`panic()` of kernel/panic.c).
const PANIC: &str = "Kernel panic - not syncing";
/// Longest line that is recorded, characters.
const LONGEST: usize = 300;

/// Records once in the log of a VM that its QEMU has ended by itself. The caller has the VM's lock.
pub(super) fn note_end(paths: &VmPaths) {
    let Ok(started) = fs::metadata(paths.pid()).and_then(|file| file.modified()) else {
        return;
    };
    if process::is_there(paths).unwrap_or(true) {
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
        (None, Some(message)) => format!("VM ended by itself; QEMU reported: {}", short(&message)),
        (None, None) => "VM ended by itself".to_owned(),
    });
    paths.forget_running_memory();
    // Once is enough. What the next command removes of it, it removes by other files.
    let _ = fs::remove_file(paths.pid());
}

/// Records an end as [`note_end`] does, unless another command works on the VM and records it
/// itself.
pub(super) fn note_end_if_idle(paths: &VmPaths) {
    if paths.pid().exists() && process::pid(paths).is_none() {
        if let Ok(_lock) = paths.lock("look") {
            note_end(paths);
        }
    }
}

/// The panic at the end of a console.
fn panic_of(console: &str) -> Option<String> {
    let line = console.lines().rfind(|line| line.contains(PANIC))?;
    let from = line.find(PANIC)?;
    Some(line[from..].trim_end().to_owned())
}

/// Shortens foreign text to one line.
fn short(text: &str) -> String {
    let text = harmless(text.as_bytes());
    text.chars().take(LONGEST).collect()
}

/// Records the length of the console before a VM writes to it, so that output of earlier starts is
/// not taken for the VM's.
pub(super) fn note_console_start(paths: &VmPaths) {
    let length = fs::metadata(paths.runtime_files().console).map_or(0, |file| file.len());
    // Without it an older panic may be noted.
    let length = length.to_string();
    let _ = files::replace(
        &paths.console_start(),
        length.as_bytes(),
        Durability::Atomic,
    );
}

fn console_start(paths: &VmPaths) -> u64 {
    let text = files::read_regular_text(&paths.console_start()).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The end of a file behind `from`; if the file has become shorter, its end.
fn tail(path: &Path, from: u64) -> Option<String> {
    let mut file = files::open_regular(path).ok()?;
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

//! Drop-ins of systemd in `/run`, which last until the machine goes down.

use std::fs;
use std::io;
use std::path::Path;

use brisk_host::files::{self, Durability};

/// Writes a drop-in, below a note that says whose it is. systemd reads it with its units.
pub(super) fn write(path: &Path, settings: &str) -> Result<(), String> {
    let text = format!("# Of brisk reboot, until the machine goes down.\n{settings}");
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| files::replace_with_mode(path, text.as_bytes(), 0o644, Durability::Atomic))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Removes a drop-in; whether there was one.
pub(super) fn remove(path: &Path) -> Result<bool, String> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(format!("cannot remove {}: {error}", path.display())),
        Ok(()) => Ok(true),
    }
}

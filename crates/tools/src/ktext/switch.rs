//! Switching replication on and off.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::FormatError;
use super::source::{Source, SourceError};
use super::stats::Stats;

/// Why replication was not switched.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// The kernel's files cannot be used.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The kernel made no copies when it booted.
    #[error(
        "this boot has no copies to switch to: {0}; they are made at boot alone, so change that and \
         boot again"
    )]
    NoCopies(String),
    /// The file cannot be written.
    #[error(
        "cannot write {}: {reason}; it takes root, and a kernel that is not locked down \
         (kernel_lockdown(7))",
        path.display()
    )]
    Denied {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: io::Error,
    },
    /// The kernel refuses.
    #[error("cannot write {}: {reason}; look for ktext_repl in the kernel's log (dmesg)", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// The kernel took it and did not do it.
    #[error("the kernel took it, and replication is still {}", if *.0 { "on" } else { "off" })]
    Unchanged(bool),
}

/// Moves all CPUs of the system below `root` to their nodes' copies, or back to the master.
///
/// # Errors
/// If the kernel has no copies, refuses, or does not show that it has done so.
pub fn switch(root: &Path, on: bool) -> Result<(), SwitchError> {
    let source = Source::find(root)?;
    let stats = source.parsed("stats", Stats::parse)?;
    has_copies(&stats)?;
    let path = source.path("active");
    let text = if on { "1\n" } else { "0\n" };
    let file = OpenOptions::new().write(true).open(&path);
    if let Err(reason) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
        let denied = [Errno::ACCESS, Errno::PERM].map(Errno::raw_os_error);
        return Err(match reason.raw_os_error() {
            Some(error) if denied.contains(&error) => SwitchError::Denied { path, reason },
            _ => SwitchError::Refused { path, reason },
        });
    }
    let is_active = source.parsed("active", active)?;
    match is_active == on {
        true => Ok(()),
        false => Err(SwitchError::Unchanged(is_active)),
    }
}

/// Whether the kernel made copies when it booted.
///
/// # Errors
/// [`SwitchError::NoCopies`] if it did not.
pub(super) fn has_copies(stats: &Stats) -> Result<(), SwitchError> {
    if stats.slots > 0 {
        return Ok(());
    }
    let reason = stats.off_reason.as_deref().unwrap_or("no node needs one");
    Err(SwitchError::NoCopies(reason.to_owned()))
}

/// State in the file `active`.
fn active(text: &str) -> Result<bool, FormatError> {
    match text.trim() {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(FormatError {
            file: "active",
            line: 1,
            reason: format!("it is {other:?}, and not 0 or 1"),
        }),
    }
}

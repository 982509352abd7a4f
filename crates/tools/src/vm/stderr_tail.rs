//! Messages of QEMU before it ended.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use brisk_host::files;

use super::error::Error;
use super::paths::VmPaths;
use super::process;

/// Most lines that are shown.
const LINES: usize = 3;
/// Time limit of QEMU to end.
const END: Duration = Duration::from_secs(1);
/// Most bytes that are read.
const MOST: u64 = 64 << 10;

/// A place in the file that QEMU's messages are appended to.
pub(super) struct StderrTail {
    path: PathBuf,
    from: u64,
}

impl StderrTail {
    /// The end of the file now.
    pub(super) fn from_now(paths: &VmPaths) -> Self {
        let path = paths.runtime_files().errors;
        let from = fs::metadata(&path).map_or(0, |meta| meta.len());
        Self { path, from }
    }

    /// Adds QEMU's messages to an error, if QEMU has ended and there are any.
    pub(super) fn explain(&self, paths: &VmPaths, error: Error) -> Error {
        // Its channels close a little earlier than it ends.
        let ended = process::wait_for_end(paths, END);
        match self.text().filter(|_| ended) {
            Some(stderr) => Error::QemuEnded { stderr },
            None => error,
        }
    }

    fn text(&self) -> Option<String> {
        let mut file = files::open_regular(&self.path).ok()?;
        file.seek(SeekFrom::Start(self.from)).ok()?;
        let mut bytes = Vec::new();
        file.take(MOST).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let last = &lines[lines.len().saturating_sub(LINES)..];
        (!last.is_empty()).then(|| last.join("; "))
    }
}

//! Where sealed pieces go: each to the next free place, from any thread.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::error::{Error, io_error};
use super::pipeline::Control;

/// After so many bytes the disk is told to begin, so that less waits for it at the end.
const WRITEBACK: u64 = 8 << 20;
/// Someone who says stop is heard this soon.
const NAP: Duration = Duration::from_millis(50);

/// The region of sealed data of a file that is being written.
pub(super) struct Output<'a> {
    file: &'a File,
    path: &'a Path,
    base: u64,
    next: AtomicU64,
    pace: Option<Pace>,
}

/// At most so many bytes a second, on average from the beginning.
struct Pace {
    rate: u64,
    free_at: Mutex<Instant>,
}

impl<'a> Output<'a> {
    /// Data begins at `base`; at most `limit` bytes a second are written.
    pub(super) fn new(file: &'a File, path: &'a Path, base: u64, limit: Option<u64>) -> Self {
        let pace = limit.map(|rate| Pace {
            rate: rate.max(1),
            free_at: Mutex::new(Instant::now()),
        });
        Self {
            file,
            path,
            base,
            next: AtomicU64::new(0),
            pace,
        }
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Writes a piece; where it is.
    pub(super) fn put(&self, bytes: &[u8], control: Control<'_>) -> Result<u64, Error> {
        if let Some(pace) = &self.pace {
            pace.wait(bytes.len() as u64, control);
        }
        let length = bytes.len() as u64;
        let offset = self.next.fetch_add(length, Ordering::Relaxed);
        self.file
            .write_all_at(bytes, self.base + offset)
            .map_err(io_error("write", self.path))?;
        let step = (offset + length) / WRITEBACK;
        if step != offset / WRITEBACK {
            // What it says does not matter: fsync comes anyway.
            let from = self.base + (step - 1) * WRITEBACK;
            let _ = brisk_sys::start_writeback(self.file, from, WRITEBACK);
        }
        Ok(offset)
    }
}

impl Pace {
    fn wait(&self, bytes: u64, control: Control<'_>) {
        let until = {
            let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = *free_at;
            let takes = Duration::from_secs_f64(bytes as f64 / self.rate as f64);
            *free_at = turn.max(Instant::now()) + takes;
            turn
        };
        while !control.cancelled() {
            match until.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => std::thread::sleep(left.min(NAP)),
                _ => break,
            }
        }
    }
}

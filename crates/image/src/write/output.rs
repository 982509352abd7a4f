//! Places of sealed pieces in the file: each piece gets the next free one, from any thread.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, io_error};
use crate::pipeline::Control;

/// Bytes after which the kernel is asked to begin writing to the disk, so that less is left at the
/// end.
const WRITEBACK: u64 = 8 << 20;
/// Longest time until a cancellation is noticed.
const NAP: Duration = Duration::from_millis(50);

/// The region of sealed data of a file that is being written.
pub(crate) struct Output<'a> {
    file: &'a File,
    path: &'a Path,
    base: u64,
    next: AtomicU64,
    pace: Option<&'a Pace>,
}

/// At most so many bytes a second: each piece waits until those before it have had their time.
/// Time in which nothing was written is not made up for, so that there is never a burst.
pub(crate) struct Pace {
    rate: u64,
    free_at: Mutex<Instant>,
}

impl<'a> Output<'a> {
    /// Data begins at `base`, and has so many bytes already.
    pub(crate) fn new(
        file: &'a File,
        path: &'a Path,
        base: u64,
        written: u64,
        pace: Option<&'a Pace>,
    ) -> Self {
        Self {
            file,
            path,
            base,
            next: AtomicU64::new(written),
            pace,
        }
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Writes a piece; where it is.
    pub(crate) fn put(&self, bytes: &[u8], control: Control<'_>) -> Result<u64, Error> {
        if let Some(pace) = self.pace {
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
    /// So many bytes a second from now on.
    pub(crate) fn new(rate: u64) -> Self {
        Self::from(rate, Instant::now())
    }

    fn from(rate: u64, now: Instant) -> Self {
        Self {
            rate: rate.max(1),
            free_at: Mutex::new(now),
        }
    }

    /// Time at which a piece that is ready `now` is to be written.
    fn turn(&self, bytes: u64, now: Instant) -> Instant {
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = now.max(*free_at);
        let takes = Duration::from_secs_f64(bytes as f64 / self.rate as f64);
        *free_at = turn + takes;
        turn
    }

    fn wait(&self, bytes: u64, control: Control<'_>) {
        let turn = self.turn(bytes, Instant::now());
        while !control.cancelled() {
            match turn.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => std::thread::sleep(left.min(NAP)),
                _ => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RATE: u64 = 1_000_000;

    /// Times at which pieces were written, given their bytes and their delay after the piece
    /// before.
    fn written(pieces: &[(u64, u64)]) -> Vec<(Duration, u64)> {
        let start = Instant::now();
        let pace = Pace::from(RATE, start);
        let mut now = start;
        let mut turns = Vec::new();
        for (bytes, micros) in pieces {
            now = pace.turn(*bytes, now + Duration::from_micros(*micros));
            turns.push((now - start, *bytes));
        }
        turns
    }

    proptest! {
        #[test]
        fn no_time_has_more_than_its_share(
            pieces in prop::collection::vec((1..300_000_u64, 0..900_000_u64), 2..60),
        ) {
            let turns = written(&pieces);
            for from in 0..turns.len() {
                let mut bytes = 0;
                for to in from + 1..turns.len() {
                    bytes += turns[to - 1].1;
                    // What rounding to nanoseconds may take away.
                    let time = turns[to].0 - turns[from].0 + Duration::from_nanos(100);
                    let share = time.as_secs_f64() * RATE as f64;
                    prop_assert!(bytes as f64 <= share, "{bytes} of {share}");
                }
            }
        }

        #[test]
        fn whoever_is_quick_enough_has_all_of_it(
            pieces in prop::collection::vec(1_000..300_000_u64, 2..60),
        ) {
            let now: Vec<_> = pieces.iter().map(|bytes| (*bytes, 500)).collect();
            let turns = written(&now);
            let (last, _) = turns[turns.len() - 1];
            let before: u64 = pieces[..pieces.len() - 1].iter().sum();
            let share = (before as f64 / RATE as f64) + 0.0005;
            prop_assert!((last.as_secs_f64() - share).abs() < 1e-5, "{last:?} {share}");
        }
    }

    #[test]
    fn time_without_a_piece_is_not_made_up_for() {
        let second = 1_000_000;
        let turns = written(&[(RATE, 0), (RATE, 10 * second), (RATE, 0), (RATE, 0)]);
        let seconds: Vec<_> = turns.iter().map(|(turn, _)| turn.as_secs()).collect();
        assert_eq!(seconds, [0, 10, 11, 12]);
    }
}

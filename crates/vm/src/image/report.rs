//! What writing an image took.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// CPU time of all threads, by what they did (`CLOCK_THREAD_CPUTIME_ID`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Stages {
    /// Reading memory and looking for zeroes.
    pub read: Duration,
    /// Compressing, or taking chunks of the parent apart to compare them.
    pub compress: Duration,
    /// Sealing.
    pub seal: Duration,
    /// Writing.
    pub write: Duration,
}

impl Stages {
    pub(super) fn add(&mut self, other: &Self) {
        self.read += other.read;
        self.compress += other.compress;
        self.seal += other.seal;
        self.write += other.write;
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.read + self.compress + self.seal + self.write
    }
}

/// What was written, and how long it took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Bytes of pages that are neither zero nor left out nor in a parent.
    pub raw: u64,
    /// Bytes of the guest's whole memory.
    pub memory: u64,
    /// Bytes of the file.
    pub compressed: u64,
    /// From the beginning until the file was durable under its name.
    pub elapsed: Duration,
    /// The same without waiting for the disk at the end.
    pub elapsed_without_fsync: Duration,
    /// Threads that compressed.
    pub threads: usize,
    /// CPU time of them.
    pub stages: Stages,
    /// Chunks in this file, as zeroes, and in a parent.
    pub chunks: [u64; 3],
}

impl Report {
    /// Four lines in the manner of Solaris' kernel zones: raw and compressed, with and without
    /// the wait for the disk.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let line = |name: &str, bytes: u64, time: Duration| {
            let seconds = time.as_secs_f64().max(1e-9);
            let megabytes = bytes as f64 / 1e6;
            format!(
                "{name}: {megabytes:.0} MB in {seconds:.2} sec {:.1} MB/s",
                megabytes / seconds
            )
        };
        vec![
            line("raw", self.raw, self.elapsed),
            line("compressed", self.compressed, self.elapsed),
            line("raw-fast-fsync", self.raw, self.elapsed_without_fsync),
            line(
                "compressed-fast-fsync",
                self.compressed,
                self.elapsed_without_fsync,
            ),
        ]
    }
}

/// Measures the CPU time of one thread from stage to stage.
pub(super) struct Watch(Duration);

impl Watch {
    pub(super) fn start() -> Self {
        Self(now())
    }

    /// Since the last call.
    pub(super) fn lap(&mut self) -> Duration {
        let now = now();
        let lap = now.saturating_sub(self.0);
        self.0 = now;
        lap
    }
}

fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

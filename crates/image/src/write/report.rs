//! Report of writing an image.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// CPU time of all threads, by stage (`CLOCK_THREAD_CPUTIME_ID`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Stages {
    /// Reading memory and looking for zero pages.
    pub read: Duration,
    /// Compressing, or decompressing chunks of the parent to compare them.
    pub compress: Duration,
    /// Sealing.
    pub seal: Duration,
    /// Writing.
    pub write: Duration,
}

impl Stages {
    pub(crate) fn add(&mut self, other: &Self) {
        self.read += other.read;
        self.compress += other.compress;
        self.seal += other.seal;
        self.write += other.write;
    }

    /// Sum of all stages.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.read + self.compress + self.seal + self.write
    }
}

/// Amount of data that was written, and the time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Bytes of pages whose contents are in the file, each counted once: nonzero pages of its
    /// chunks (pages that are left out count only if they were written early), and pages of the
    /// working set whose chunks are in a parent.
    pub raw: u64,
    /// Those of `raw` that were written early and had not changed when the guest was stopped.
    pub early: u64,
    /// Time of writing early, also of chunks that changed.
    pub early_elapsed: Duration,
    /// Bytes of the guest's whole memory.
    pub memory: u64,
    /// Bytes of the file.
    pub compressed: u64,
    /// Time of writing, until the file was durable under its name.
    pub elapsed: Duration,
    /// Time of writing without the wait for the disk at the end.
    pub elapsed_without_fsync: Duration,
    /// Number of threads that compressed.
    pub threads: usize,
    /// CPU time of the threads.
    pub stages: Stages,
    /// Number of chunks in this file, of zero chunks, and of chunks in a parent.
    pub chunks: [u64; 3],
}

impl Report {
    /// Formats the report in the manner of Solaris' kernel zones: four lines, raw and compressed,
    /// with and without the wait for the disk. A fifth line has the processors' time, and one more
    /// the part that was written early.
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
        let Stages {
            read,
            compress,
            seal,
            write,
        } = self.stages;
        let stages = [
            ("read", read),
            ("compress", compress),
            ("encrypt", seal),
            ("write", write),
        ];
        let stages = stages.map(|(name, time)| format!("{name} {:.2} s", time.as_secs_f64()));
        let mut lines = vec![
            line("raw", self.raw, self.elapsed),
            line("compressed", self.compressed, self.elapsed),
            line("raw-fast-fsync", self.raw, self.elapsed_without_fsync),
            line(
                "compressed-fast-fsync",
                self.compressed,
                self.elapsed_without_fsync,
            ),
            format!("cpu: {}", stages.join(", ")),
        ];
        if self.early > 0 {
            let megabytes = self.early as f64 / 1e6;
            let seconds = self.early_elapsed.as_secs_f64();
            lines.push(format!(
                "early: {megabytes:.0} MB of raw in {seconds:.2} sec while the guest ran"
            ));
        }
        lines
    }
}

/// Measures the CPU time of one thread from stage to stage.
pub(crate) struct Watch(Duration);

impl Watch {
    pub(crate) fn start() -> Self {
        Self(now())
    }

    /// Since the last call.
    pub(crate) fn lap(&mut self) -> Duration {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_report() {
        let millis = Duration::from_millis;
        let report = Report {
            raw: 857_000_000,
            early: 120_000_000,
            early_elapsed: millis(500),
            memory: 2 << 30,
            compressed: 296_000_000,
            elapsed: millis(2000),
            elapsed_without_fsync: millis(1000),
            threads: 2,
            stages: Stages {
                read: millis(120),
                compress: millis(1900),
                seal: millis(204),
                write: millis(31),
            },
            chunks: [3, 5, 0],
        };
        insta::assert_snapshot!(report.lines().join("\n"), @r"
        raw: 857 MB in 2.00 sec 428.5 MB/s
        compressed: 296 MB in 2.00 sec 148.0 MB/s
        raw-fast-fsync: 857 MB in 1.00 sec 857.0 MB/s
        compressed-fast-fsync: 296 MB in 1.00 sec 296.0 MB/s
        cpu: read 0.12 s, compress 1.90 s, encrypt 0.20 s, write 0.03 s
        early: 120 MB of raw in 0.50 sec while the guest ran
        ");
    }
}

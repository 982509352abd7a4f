//! Resumes with memory that comes later, of a small and of a large machine.

use std::path::Path;
use std::time::Instant;

use brisk_measure::Unit;

use super::machine::{Bench, Machine};
use super::put::Put;

/// A machine and its series.
pub(super) struct Size {
    name: &'static str,
    memory: &'static str,
    /// What it holds, in copies of 600 MB.
    copies: u32,
    pub(super) runs: &'static str,
    command: &'static str,
    pub(super) peak: &'static str,
}

pub(super) const SMALL: Size = Size {
    name: "small",
    memory: "1G",
    copies: 1,
    runs: "lazy resume until the guest runs, 1 GiB",
    command: "lazy resume, whole command, 1 GiB",
    peak: "peak memory of a suspend, 1 GiB",
};
pub(super) const LARGE: Size = Size {
    name: "large",
    memory: "8G",
    copies: 6,
    runs: "lazy resume until the guest runs, 8 GiB",
    command: "lazy resume, whole command, 8 GiB",
    peak: "peak memory of a suspend, 8 GiB",
};

pub(super) struct Late<'a> {
    machine: Machine<'a>,
    size: &'static Size,
}

impl<'a> Late<'a> {
    pub(super) fn boot(bench: &'a Bench, size: &'static Size) -> anyhow::Result<Self> {
        let machine = Machine::boot(bench, size.name, size.memory)?;
        let script = format!(
            "mkdir /m && mount -t tmpfs -o size=90% none /m && \
             dd if=/fill.tar iflag=direct bs=1M count=572 of=/m/1 2> /dev/null; \
             i=1; while [ $i -lt {} ]; do i=$((i + 1)); cp /m/1 /m/$i || exit; done",
            size.copies
        );
        machine.shell(&script)?;
        Ok(Self { machine, size })
    }

    pub(super) fn round(&self, place: &Path, put: &mut Put<'_>) -> anyhow::Result<()> {
        let image = self.machine.aim(place)?;
        let (_, peak) = self.machine.suspend_with_peak(&[])?;
        put(self.size.peak, Unit::Bytes, peak);
        let begun = Instant::now();
        let runs = self.machine.resume()?.runs;
        put(
            self.size.command,
            Unit::Seconds,
            begun.elapsed().as_secs_f64(),
        );
        put(self.size.runs, Unit::Seconds, runs);
        self.machine.wait_for_memory(&image)
    }
}

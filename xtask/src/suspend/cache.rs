//! A guest half of whose memory in use is page cache, which need not be kept.

use std::path::Path;
use std::time::Instant;

use brisk_measure::Unit;

use super::Put;
use super::machine::{Bench, Machine};
use super::peer;

pub(super) const QEMU: &str = "half cache: QEMU, zstd -1";
pub(super) const DROPPED: &str = "half cache: --drop-cache, effective";
pub(super) const DROPPED_LZ4: &str = "half cache: --drop-cache, lz4, effective";

/// What is its own: 535 MiB in a tmpfs.
const OWN: &str = "mkdir /m && mount -t tmpfs -o size=900M none /m && \
     dd if=/fill.tar iflag=direct bs=1M skip=489 count=535 of=/m/own 2> /dev/null";
/// As much is read from the disk; 96 MiB are used and free again.
const USE: &str = "dd if=/fill.tar bs=1M count=535 of=/dev/null 2> /dev/null; \
     dd if=/m/own bs=1M count=96 of=/m/freed 2> /dev/null; rm /m/freed";

pub(super) struct Cached<'a>(Machine<'a>);

impl<'a> Cached<'a> {
    pub(super) fn boot(bench: &'a Bench) -> anyhow::Result<Self> {
        let machine = Machine::boot(bench, "cached", "2G")?;
        machine.shell(OWN)?;
        Ok(Self(machine))
    }

    /// What plain suspend writes, what QEMU does, and what is left when the cache is; each time
    /// the cache is full again.
    pub(super) fn round(&self, place: &Path, put: &mut Put<'_>) -> anyhow::Result<()> {
        let machine = &self.0;
        machine.aim(place)?;
        machine.shell(USE)?;
        peer::migrate(machine, place)?;
        machine.shell(USE)?;
        let migrated = peer::migrate(machine, place)?;
        let rate = migrated.raw / migrated.seconds;
        put(QEMU, Unit::BytesPerSecond, rate);
        put("half cache: written by QEMU", Unit::Bytes, migrated.raw);
        // Its memory has holes again after that.
        machine.suspend(&[])?;
        machine.load()?;
        machine.shell(USE)?;
        let plain = machine.suspend(&[])?;
        put("half cache: suspend", Unit::BytesPerSecond, plain.rate);
        put("half cache: written by suspend", Unit::Bytes, plain.raw);
        machine.load()?;
        for (rate, compression) in [(DROPPED_LZ4, "lz4"), (DROPPED, "zstd:1")] {
            machine.does("set", &["--compression", compression])?;
            machine.shell(USE)?;
            let begun = Instant::now();
            let dropped = machine.suspend(&["--drop-cache"])?;
            let seconds = begun.elapsed().as_secs_f64();
            put(rate, Unit::BytesPerSecond, plain.raw / seconds);
            let name = format!("half cache: --drop-cache, {compression}");
            put(&name, Unit::Seconds, seconds);
            put(&format!("{name}: written"), Unit::Bytes, dropped.raw);
            machine.load()?;
        }
        Ok(())
    }
}

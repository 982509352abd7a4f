//! A guest half of whose memory in use is page cache, which need not be kept.

use std::path::Path;
use std::time::Instant;

use brisk_measure::Unit;

use super::machine::{Bench, Machine};
use super::peer::{self, Zstd};
use super::put::Put;
use super::root::Roots;

/// What such a guest has its files on, and how its series are named.
pub(super) struct Kind {
    machine: &'static str,
    root: fn(&Roots) -> &Path,
    title: &'static str,
    pub(super) qemu: &'static str,
    pub(super) qemu_all: &'static str,
    pub(super) dropped: &'static str,
    pub(super) dropped_lz4: &'static str,
    pub(super) dropped_fast: &'static str,
}

macro_rules! kind {
    ($machine:literal, $root:ident, $title:literal) => {
        Kind {
            machine: $machine,
            root: |roots| &roots.$root,
            title: $title,
            qemu: concat!($title, ": QEMU, zstd -1"),
            qemu_all: concat!($title, ": QEMU, zstd -1 -T0"),
            dropped: concat!($title, ": --drop-cache, effective"),
            dropped_lz4: concat!($title, ": --drop-cache, lz4, effective"),
            dropped_fast: concat!($title, ": --drop-cache, lz4:8, effective"),
        }
    };
}

/// ext4 before Linux 6.16 caches single pages.
pub(super) const PAGES: Kind = kind!("cached", ext4, "half page cache");
/// EROFS caches large folios, as XFS does.
pub(super) const FOLIOS: Kind = kind!("folios", erofs, "half page cache, large folios");

/// Memory of a process's own: 535 MiB, which dd has read past the cache and cannot give up.
const OWN: &str = "own='dd if=/fill.tar iflag=direct,skip_bytes bs=535M skip=512753664 count=1'; \
     setsid sh -c \"$own | { head -c 1 | wc -c > /tmp/new; mv /tmp/new /tmp/own; sleep 1000000; }\" \
     < /dev/null > /dev/null 2>&1 & \
     until test -e /tmp/own; do usleep 10000; done; test $(cat /tmp/own) = 1";
/// As much is read from the disk; 96 MiB are used and free again.
const USE: &str = "dd if=/fill.tar bs=1M count=535 of=/dev/null 2> /dev/null; \
     dd if=/fill.tar iflag=direct bs=96M skip=5 count=1 of=/dev/null 2> /dev/null";

pub(super) struct Cached<'a> {
    machine: Machine<'a>,
    kind: &'static Kind,
}

impl<'a> Cached<'a> {
    pub(super) fn boot(bench: &'a Bench, kind: &'static Kind) -> anyhow::Result<Self> {
        let root = (kind.root)(&bench.roots);
        let machine = Machine::boot_from(bench, kind.machine, "2G", root)?;
        machine.shell(OWN)?;
        Ok(Self { machine, kind })
    }

    /// What plain suspend writes, what QEMU does, and what is left when the cache is; each time
    /// the cache is full again.
    pub(super) fn round(&self, place: &Path, put: &mut Put<'_>) -> anyhow::Result<()> {
        let Self { machine, kind } = self;
        let title = kind.title;
        machine.aim(place)?;
        machine.shell(USE)?;
        peer::fill(machine, place)?;
        for (rate, zstd) in [(kind.qemu_all, Zstd::All), (kind.qemu, Zstd::One)] {
            machine.shell(USE)?;
            let migrated = peer::migrate(machine, place, zstd)?;
            put(rate, Unit::BytesPerSecond, migrated.raw / migrated.seconds);
            if let Zstd::One = zstd {
                let written = format!("{title}: written by QEMU");
                put(&written, Unit::Bytes, migrated.raw);
            }
        }
        // Its memory has holes again after that.
        machine.suspend(&[])?;
        machine.load()?;
        machine.shell(USE)?;
        let plain = machine.suspend(&[])?;
        put(
            &format!("{title}: suspend"),
            Unit::BytesPerSecond,
            plain.rate,
        );
        put(
            &format!("{title}: written by suspend"),
            Unit::Bytes,
            plain.raw,
        );
        machine.load()?;
        for (rate, compression) in [
            (kind.dropped_fast, "lz4:8"),
            (kind.dropped_lz4, "lz4"),
            (kind.dropped, "zstd:1"),
        ] {
            machine.does("set", &["--compression", compression])?;
            machine.shell(USE)?;
            let begun = Instant::now();
            let dropped = machine.suspend(&["--drop-cache"])?;
            let seconds = begun.elapsed().as_secs_f64();
            put(rate, Unit::BytesPerSecond, plain.raw / seconds);
            let name = format!("{title}: --drop-cache, {compression}");
            put(&name, Unit::Seconds, seconds);
            put(&format!("{name}: written"), Unit::Bytes, dropped.raw);
            machine.load()?;
        }
        Ok(())
    }
}

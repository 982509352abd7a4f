//! How quickly a machine is suspended and loaded, and to how much.

use std::fs;
use std::path::Path;

use anyhow::Context;
use brisk_measure::Unit;

use super::machine::Machine;
use super::order::MEMORY;
use super::peer::{self, Zstd};
use super::put::Put;

pub(super) const QEMU: &str = "QEMU, zstd -1";
pub(super) const QEMU_ALL: &str = "QEMU, zstd -1 -T0";
pub(super) const ZSTD: &str = "suspend, zstd:1";
pub(super) const ONE: &str = "suspend, zstd:1, one thread";
pub(super) const LZ4: &str = "suspend, lz4";
pub(super) const FAST: &str = "suspend, lz4:8";
pub(super) const SIZE: &str = "image, zstd:1";
pub(super) const SIZE_QEMU: &str = "image of QEMU, zstd -1";
pub(super) const LOADED: &str = "load, zstd:1, of the guest's memory";
pub(super) const RUNS: &str = "lazy resume until the guest runs, 2 GiB";

pub(super) fn round(machine: &Machine<'_>, place: &Path, put: &mut Put<'_>) -> anyhow::Result<()> {
    let image = machine.aim(place)?;
    peer::fill(machine, place)?;
    let migrated = peer::migrate(machine, place, Zstd::One)?;
    let by_all = peer::migrate(machine, place, Zstd::All)?;
    // Its memory has holes again after that.
    machine.suspend(&[])?;
    machine.load()?;
    let mut raw = 0.0;
    for (name, compression, threads, lazy) in [
        (ZSTD, "zstd:1", "0", false),
        (ONE, "zstd:1", "1", true),
        (LZ4, "lz4", "0", false),
        (FAST, "lz4:8", "0", false),
    ] {
        machine.does("set", &["--compression", compression, "--threads", threads])?;
        let suspended = machine.suspend(&[])?;
        raw = suspended.raw;
        put(name, Unit::BytesPerSecond, suspended.rate);
        if name == ZSTD {
            put(SIZE, Unit::Bytes, fs::metadata(&image)?.len() as f64);
        }
        if lazy {
            put(RUNS, Unit::Seconds, machine.resume()?.runs);
            machine.wait_for_memory(&image)?;
            continue;
        }
        let loading = machine.load()?.loading.context("no time of loading")?;
        let what = format!("load, {compression}");
        put(&what, Unit::BytesPerSecond, raw / loading);
        let whole = format!("{what}, of the guest's memory");
        put(&whole, Unit::BytesPerSecond, MEMORY / loading);
    }
    machine.does("set", &["--compression", "zstd:1", "--threads", "0"])?;
    put(QEMU, Unit::BytesPerSecond, raw / migrated.seconds);
    put(QEMU_ALL, Unit::BytesPerSecond, raw / by_all.seconds);
    put(SIZE_QEMU, Unit::Bytes, migrated.size);
    Ok(())
}

//! What brisk itself takes while it suspends.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use brisk_measure::Unit;

use super::machine::Machine;
use super::put::Put;

pub(super) const PLAIN: &str = "peak memory of a suspend, 2 GiB";
pub(super) const PASSPHRASE: &str = "peak memory of a suspend, 2 GiB, passphrase";

pub(super) fn round(machine: &Machine<'_>, place: &Path, put: &mut Put<'_>) -> anyhow::Result<()> {
    machine.aim(place)?;
    let (_, peak) = machine.suspend_with_peak(&[])?;
    put(PLAIN, Unit::Bytes, peak);
    machine.load()?;
    let mut file = tempfile::NamedTempFile::new()?;
    writeln!(file, "of a benchmark")?;
    let path = file.path().to_str().context("a path that is no text")?;
    machine.does("set", &["--passphrase=true"])?;
    let (_, peak) = machine.suspend_with_peak(&["--passphrase-file", path])?;
    put(PASSPHRASE, Unit::Bytes, peak);
    machine.does("set", &["--passphrase=false"])?;
    machine.load()?;
    Ok(())
}

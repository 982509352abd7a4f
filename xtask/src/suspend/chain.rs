//! A suspend after a resume and a small task: an image of what has changed.

use std::fs;
use std::path::Path;

use brisk_measure::Unit;

use super::machine::Machine;
use super::order::task;
use super::put::Put;

pub(super) fn round(machine: &Machine<'_>, place: &Path, put: &mut Put<'_>) -> anyhow::Result<()> {
    let image = machine.aim(place)?;
    machine.does("set", &["--incremental=true"])?;
    for name in ["full", "incremental"] {
        let seconds = machine.suspend(&[])?.seconds;
        let size = fs::metadata(&image)?.len() as f64;
        put(
            &format!("{name} suspend until durable"),
            Unit::Seconds,
            seconds,
        );
        put(&format!("{name} image"), Unit::Bytes, size);
        machine.load()?;
        task(machine)?;
    }
    // The next one is a full one again, and the others go.
    machine.does("set", &["--incremental=false"])?;
    machine.suspend(&[])?;
    machine.load()?;
    Ok(())
}

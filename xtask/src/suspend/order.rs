//! A task at once after a resume, with and without the working set of an earlier one.

use std::fs;
use std::path::Path;
use std::time::Instant;

use brisk_measure::Unit;

use super::machine::{Bench, Machine};
use super::put::Put;

/// Series with the working set. Committed reports have this name.
pub(super) const WITH_WORKING_SET: &str = "lazy resume and a task, with what was learnt";
/// Series without it.
pub(super) const WITHOUT_WORKING_SET: &str = "lazy resume and a task, without";
/// Memory of the VM, bytes.
pub(super) const MEMORY: f64 = (2_u64 << 30) as f64;

/// About sixty small files of all that lie in its memory, and a loop.
const TASK: &str = "cat $(cat /list) | md5sum; awk 'BEGIN { for (i = 0; i < 1000; i++) s += i }'";

/// A VM with 1 GiB of this host's libraries and programs in memory.
pub(super) fn full(bench: &Bench) -> anyhow::Result<Machine<'_>> {
    let machine = Machine::boot(bench, "full", "2G")?;
    let script = "mkdir /m && mount -t tmpfs -o size=1300M none /m && \
         dd if=/fill.tar iflag=direct bs=1M 2> /dev/null | tar -x -C /m 2> /dev/null; \
         find /m -type f -size -600k | sort | awk 'NR % 60 == 0' | head -n 60 > /list; \
         test -s /list";
    machine.shell(script)?;
    Ok(machine)
}

/// A task that is small beside the memory of the VM.
pub(super) fn task(machine: &Machine<'_>) -> anyhow::Result<f64> {
    machine.shell(TASK)
}

pub(super) fn round(machine: &Machine<'_>, place: &Path, put: &mut Put<'_>) -> anyhow::Result<()> {
    let image = machine.aim(place)?;
    let state = machine.bench.dir.join("state/vm").join(machine.name);
    // Other parts have recorded other pages: the first of the two records those of the task.
    if let Err(error) = fs::remove_file(state.join("working-set")) {
        anyhow::ensure!(error.kind() == std::io::ErrorKind::NotFound, error);
    }
    for name in [WITHOUT_WORKING_SET, WITH_WORKING_SET] {
        machine.suspend(&[])?;
        let begun = Instant::now();
        machine.resume()?;
        let alone = task(machine)?;
        put(name, Unit::Seconds, begun.elapsed().as_secs_f64());
        put(&format!("{name}: the task"), Unit::Seconds, alone);
        machine.wait_for_memory(&image)?;
    }
    Ok(())
}

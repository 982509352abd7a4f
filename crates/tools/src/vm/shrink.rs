//! Making a guest's memory small before it is written.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use brisk_vm::guest::Step;
use brisk_vm::image::Control;

use super::error::{Error, file};
use super::home::Home;
use super::lifecycle::Running;
use super::ports::tell;

/// How long init may take to drop the cache.
const DROP: Duration = Duration::from_secs(60);
/// A guest tells what is free two seconds after it has become that (`PAGE_REPORTING_DELAY` in
/// `mm/page_reporting.c`), a part of it each time. When it has been silent for longer, that was all.
const SILENCE: Duration = Duration::from_millis(2500);
/// How long that may take together.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is looked.
const GLANCE: Duration = Duration::from_millis(100);

/// Has the guest forget what it can read from its disks again, and waits until the host has the
/// memory. The guest runs meanwhile. A guest that cannot is noted, and suspended as it is.
pub(super) fn drop_cache(
    home: &Home,
    running: &Running,
    control: Control<'_>,
) -> Result<(), Error> {
    if !running.machine.reports_free_memory {
        home.note("The cache is not left out: the guest's kernel has no virtio_balloon");
        return Ok(());
    }
    let drop = Step::Write {
        path: "/proc/sys/vm/drop_caches".into(),
        contents: b"1".to_vec(),
    };
    if let Err(error) = tell(home, &[drop], DROP) {
        home.note(&format!("The cache is not left out: {error}"));
        return Ok(());
    }
    let before = resident(home)?;
    let begun = Instant::now();
    let (mut now, mut since) = (before, begun);
    while since.elapsed() < SILENCE && begun.elapsed() < PATIENCE {
        if control.cancel.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        thread::sleep(GLANCE);
        let bytes = resident(home)?;
        if bytes < now {
            since = Instant::now();
        }
        now = bytes;
    }
    home.note(&format!(
        "Cache and free memory: {:.0} MB in {:.1} sec",
        before.saturating_sub(now) as f64 / 1e6,
        begun.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// Bytes of the guest's memory that the host has to keep.
fn resident(home: &Home) -> Result<u64, Error> {
    let memory = home.memory();
    let meta = fs::metadata(&memory).map_err(file("look at", &memory))?;
    Ok(meta.blocks() * 512)
}

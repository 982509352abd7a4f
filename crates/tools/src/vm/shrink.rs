//! Making a guest's memory small before it is written.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use brisk_vm::free::{Memory, Place, free_pages};
use brisk_vm::guest::Step;
use brisk_vm::image::{Control, Description, Pages};

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

/// Has the address of what the kernel tells those who save its memory.
const NOTE: &str = "/sys/kernel/vmcoreinfo";

/// Has the guest forget what it can read from its disks again. Where its kernel tells how its free
/// pages are to be known once it stands still: that. Else waits until the host has the memory. The
/// guest runs meanwhile. A guest that cannot is noted, and suspended as it is.
pub(super) fn drop_cache(
    home: &Home,
    running: &Running,
    control: Control<'_>,
) -> Result<Option<Place>, Error> {
    let steps = [
        Step::Tell { path: NOTE.into() },
        Step::Write {
            path: "/proc/sys/vm/drop_caches".into(),
            contents: b"1".to_vec(),
        },
    ];
    let begun = Instant::now();
    let note = match tell(home, &steps, DROP) {
        Ok(note) => note,
        Err(error) => {
            home.note(&format!("The cache is not left out: {error}"));
            return Ok(None);
        }
    };
    match place(running, &note) {
        Ok(place) => {
            let seconds = begun.elapsed().as_secs_f64();
            home.note(&format!("The cache is dropped: {seconds:.2} sec"));
            return Ok(Some(place));
        }
        Err(reason) => home.note(&format!("Free memory is not known at once: {reason}")),
    }
    if !running.machine.reports_free_memory {
        home.note("The cache is not left out: the guest's kernel has no virtio_balloon");
        return Ok(None);
    }
    give_back(home, &home.open_memory(running)?, control)?;
    Ok(None)
}

/// Where the guest's kernel tells how its lists look, or why that is not to be used.
fn place(running: &Running, note: &[u8]) -> Result<Place, String> {
    let parameters = running.machine.parameters.iter();
    let mut texts = parameters.map(|parameter| parameter.text.as_str());
    // Such a kernel looks into free pages for what it has put there.
    let looks = |text: &str| text.starts_with("page_poison") || text.starts_with("debug_pagealloc");
    if let Some(text) = texts.find(|text| looks(text)) {
        return Err(format!("its kernel has {text}"));
    }
    let said = String::from_utf8_lossy(note);
    Place::parse(&said).ok_or_else(|| format!("{NOTE} says {said:?}"))
}

/// The free pages of a guest that stands still.
pub(super) fn left_out(
    home: &Home,
    place: Place,
    memory: &File,
    description: &Description,
) -> Option<Pages> {
    let begun = Instant::now();
    let ranges = &description.ranges;
    let memory = Memory {
        file: memory,
        ranges,
    };
    match free_pages(memory, place) {
        Ok(pages) => {
            let megabytes = pages.len() as f64 * 4096.0 / 1e6;
            let seconds = begun.elapsed().as_secs_f64();
            home.note(&format!(
                "Cache and free memory: {megabytes:.0} MB, found in {seconds:.2} sec"
            ));
            Some(pages)
        }
        Err(error) => {
            home.note(&format!("Free memory is not left out: {error}"));
            None
        }
    }
}

/// Waits until the guest has told what is free, and the host has that.
fn give_back(home: &Home, memory: &File, control: Control<'_>) -> Result<(), Error> {
    let before = resident(memory)?;
    let begun = Instant::now();
    let (mut now, mut since) = (before, begun);
    while since.elapsed() < SILENCE && begun.elapsed() < PATIENCE {
        if control.cancel.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        thread::sleep(GLANCE);
        let bytes = resident(memory)?;
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
fn resident(memory: &File) -> Result<u64, Error> {
    let meta = memory.metadata().map_err(file("look at", "memory"))?;
    Ok(meta.blocks() * 512)
}

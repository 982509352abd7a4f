//! Reduction of a guest's memory before it is written: page cache and free pages.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use brisk_image::{Control, Description, PAGE_SIZE, Pages, Writer};
use brisk_vm::guest::Step;
use brisk_vm::guest_pages::{Memory, VmcoreinfoLocation, forecast, free_pages};

use super::error::{Error, file};
use super::paths::VmPaths;
use super::ports::run_steps_while;
use super::running::Running;

/// Time limit of init to drop the cache.
const DROP: Duration = Duration::from_secs(60);
/// Time without a report after which all free memory has been reported. A guest reports free pages
/// after two seconds (`PAGE_REPORTING_DELAY` in `mm/page_reporting.c`), a part of them each time.
const SILENCE: Duration = Duration::from_millis(2500);
/// Time limit of all reports together.
const PATIENCE: Duration = Duration::from_secs(20);
/// Interval of the checks.
const GLANCE: Duration = Duration::from_millis(100);

/// File with the address of VMCOREINFO.
const NOTE: &str = "/sys/kernel/vmcoreinfo";
/// Setting of the per-CPU page lists, whose pages are in no list of free pages: each has at most 1
/// / N of the memory. With 0 the kernel decides (Linux 5.14): since 6.7 tens of MB after many pages
/// were freed.
const AT_HAND: &str = "/proc/sys/vm/percpu_pagelist_high_fraction";
/// Value for the shortest lists.
const FEW: &str = "1000000";
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Has the guest drop the page cache that it can read from its disks again. The result is the place
/// of the kernel's VMCOREINFO, by which free pages are found once the guest is stopped. Where there
/// is none, waits until the host has the free memory. The guest runs meanwhile, and memory that is
/// not expected to change is written to the image. A guest that cannot drop its cache is recorded
/// in the log, and suspended as it is.
pub(super) fn drop_cache<'a>(
    paths: &VmPaths,
    running: &Running,
    ram: &File,
    writer: Writer<'a>,
    control: Control<'_>,
) -> Result<(Writer<'a>, Option<VmcoreinfoLocation>), Error> {
    let begun = Instant::now();
    let asked = |steps: &[Step], gone: &AtomicBool| {
        let still = || match gone.load(Ordering::Relaxed) || control.cancelled() {
            true => Err("nobody waits for it any more".into()),
            false => Ok(()),
        };
        run_steps_while(paths, steps, DROP, &still)
    };
    let kept = |error: &Error| paths.note(&format!("The cache is not left out: {error}"));
    let contents = |paths: &[&str]| {
        let steps = paths.iter().map(|path| Step::SendFile {
            path: (*path).into(),
        });
        asked(&steps.collect::<Vec<_>>(), &AtomicBool::new(false))
    };
    let note = match contents(&[NOTE, AT_HAND]) {
        // Older kernels do not have the second one; who did not answer is not asked again.
        Err(_) if begun.elapsed() < DROP && !control.cancelled() => contents(&[NOTE]),
        answer => answer,
    };
    let note = match note {
        Ok(note) => note,
        Err(_) if control.cancelled() => return Err(Error::Interrupted),
        Err(error) => {
            kept(&error);
            return Ok((writer, None));
        }
    };
    let (note, at_hand) = lines(&note);
    let place = place(running, note);
    let forget = forgetting(at_hand == "0");
    let early = |enough: &AtomicBool| match place {
        Ok(place) => write_early(paths, running, ram, place, writer, enough),
        Err(_) => Ok(writer),
    };
    let (forgot, written) = meanwhile(|gone| asked(&forget, gone), early);
    let writer = written?;
    match forgot {
        Err(_) if control.cancelled() => return Err(Error::Interrupted),
        Err(error) => {
            kept(&error);
            return Ok((writer, None));
        }
        Ok(_) => {}
    }
    match place {
        Ok(place) => {
            let seconds = begun.elapsed().as_secs_f64();
            let early = match writer.early_bytes() {
                0 => String::new(),
                bytes => format!(", and {:.1} MB are written", bytes as f64 / 1e6),
            };
            paths.note(&format!("The cache is dropped: {seconds:.2} sec{early}"));
            return Ok((writer, Some(place)));
        }
        Err(reason) => paths.note(&format!("Free memory is not known at once: {reason}")),
    }
    if running.machine.memory.reports_free {
        give_back(paths, ram, control)?;
    } else {
        paths.note("The cache is not left out: the guest's kernel has no virtio_balloon");
    }
    Ok((writer, None))
}

/// The first two lines of a guest's answer.
fn lines(answer: &[u8]) -> (&[u8], String) {
    let mut lines = answer.split(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let second = lines.next().unwrap_or_default();
    (first, String::from_utf8_lossy(second).into_owned())
}

/// Steps that drop the cache. `at_hand`: the kernel decides the length of the per-CPU page lists,
/// which are short meanwhile.
fn forgetting(at_hand: bool) -> Vec<Step> {
    let write = |path: &str, text: &str| Step::Write {
        path: path.into(),
        contents: text.into(),
    };
    let drop = write(DROP_CACHES, "1");
    match at_hand {
        true => vec![write(AT_HAND, FEW), drop, write(AT_HAND, "0")],
        false => vec![drop],
    }
}

/// Writes pages that by the kernel's page structures are not expected to change, until `enough` is
/// true.
fn write_early<'a>(
    paths: &VmPaths,
    running: &Running,
    ram: &File,
    place: VmcoreinfoLocation,
    writer: Writer<'a>,
    enough: &AtomicBool,
) -> Result<Writer<'a>, brisk_image::Error> {
    if !writer.takes_early() {
        return Ok(writer);
    }
    let ranges = &running.machine.ranges();
    match forecast(Memory { file: ram, ranges }, place) {
        Ok(forecast) => writer.write_early(ram, &forecast, enough),
        Err(error) => {
            paths.note(&format!("Nothing is written meanwhile: {error}"));
            Ok(writer)
        }
    }
}

/// Runs `work` in the guest while another thread writes. If writing fails, the guest's work is
/// cancelled.
fn meanwhile<T: Send, W>(
    guest: impl FnOnce(&AtomicBool) -> T + Send,
    write: impl FnOnce(&AtomicBool) -> Result<W, brisk_image::Error>,
) -> (T, Result<W, brisk_image::Error>) {
    let (enough, gone) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let guest = scope.spawn(|| {
            let result = guest(&gone);
            enough.store(true, Ordering::Relaxed);
            result
        });
        let written = write(&enough);
        gone.store(written.is_err(), Ordering::Relaxed);
        let result = guest.join();
        (result.expect("asking a guest does not panic"), written)
    })
}

/// Place of the kernel's VMCOREINFO, or the reason why it cannot be used.
fn place(running: &Running, note: &[u8]) -> Result<VmcoreinfoLocation, String> {
    let parameters = running.machine.boot.parameters.iter();
    let mut texts = parameters.map(|parameter| parameter.text.as_str());
    // Such a kernel looks into free pages for what it has put there.
    let looks = |text: &str| text.starts_with("page_poison") || text.starts_with("debug_pagealloc");
    if let Some(text) = texts.find(|text| looks(text)) {
        return Err(format!("its kernel has {text}"));
    }
    let text = String::from_utf8_lossy(note);
    VmcoreinfoLocation::parse(&text).ok_or_else(|| format!("{NOTE} says {text:?}"))
}

/// Free pages of a stopped guest.
pub(super) fn left_out(
    paths: &VmPaths,
    place: VmcoreinfoLocation,
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
            let megabytes = (pages.len() * PAGE_SIZE) as f64 / 1e6;
            let seconds = begun.elapsed().as_secs_f64();
            paths.note(&format!(
                "Cache and free memory: {megabytes:.0} MB, found in {seconds:.2} sec"
            ));
            Some(pages)
        }
        Err(error) => {
            paths.note(&format!("Free memory is not left out: {error}"));
            None
        }
    }
}

/// Waits until the guest has reported its free memory, and the host has it.
fn give_back(paths: &VmPaths, memory: &File, control: Control<'_>) -> Result<(), Error> {
    let before = resident(memory)?;
    let begun = Instant::now();
    let (mut now, mut since) = (before, begun);
    while since.elapsed() < SILENCE && begun.elapsed() < PATIENCE {
        if control.cancelled() {
            return Err(Error::Interrupted);
        }
        thread::sleep(GLANCE);
        let bytes = resident(memory)?;
        if bytes < now {
            since = Instant::now();
        }
        now = bytes;
    }
    paths.note(&format!(
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

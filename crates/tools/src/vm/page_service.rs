//! Service of a guest's memory from its image while the guest runs, by the process that resumed it
//! or by another.
//!
//! The serving process has the claim on the image. Another process, `brisk vm fill --standby`,
//! waits for the claim, and so takes over as soon as the first one ends before the guest has all of
//! its memory. If both were killed, the next command on the VM starts another one, as does a
//! command that is waiting for the guest. Meanwhile the guest waits where it needs a page that is
//! missing.

use std::collections::HashSet;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::process::Child;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use brisk_host::files::{self, Durability};
use brisk_image::{Claim, Image, WORKING_PAGES, push_page, write_working_set};
use brisk_vm::migration::{Ended, Failure, Source};
use brisk_vm::qemu::{Urgent, end_late_memory};
use serde_json::json;

use super::background::{self, Priority};
use super::backing_chain;
use super::busy::Processors;
use super::clock::set_clock;
use super::error::{Error, file};
use super::paths::VmPaths;
use super::postcopy_memory::PostcopyMemory;
use super::process;
use super::running::Running;
use super::suspend_record::SuspendRecord;
use super::unlock::host_keys;
use brisk_host::chain;

/// Interval at which it is checked whether a VM's memory is served, while a command waits for the
/// guest.
const LOOK: Duration = Duration::from_millis(500);

/// A guest that runs, or will, with the source of its memory.
pub(super) struct PageService<'a> {
    pub(super) paths: &'a VmPaths,
    pub(super) claim: Claim,
    pub(super) image: Image,
    pub(super) source: Source,
    pub(super) begun: Instant,
}

impl PageService<'_> {
    /// Serves until the guest has all memory. `run` runs the guest meanwhile, and starts the
    /// standby process; if it fails, the guest has not run, and ends.
    pub(super) fn serve(
        self,
        run: impl FnOnce(&mut Claim, &PostcopyMemory<'_>) -> Result<Option<Child>, Error>,
    ) -> Result<(), Error> {
        let Self {
            paths,
            mut claim,
            image,
            source,
            begun,
        } = self;
        let late = PostcopyMemory::new(paths, &image);
        let served = thread::scope(|scope| {
            let serving = scope.spawn(|| source.serve(&late));
            match run(&mut claim, &late) {
                Ok(standby) => Ok((standby, serving.join())),
                Err(error) => {
                    late.give_up();
                    // What went wrong first is what matters.
                    let _ = process::end(paths);
                    paths.note(&format!("Resume failed: {}", chain(&error)));
                    let _ = serving.join();
                    Err(error)
                }
            }
        });
        match served {
            Err(error) => {
                // If the guest may have run, it stays used.
                let _ = claim.release();
                Err(error)
            }
            Ok((standby, Ok(served))) => {
                let served = Served {
                    has_run: late.has_run(),
                    result: served,
                    standby,
                };
                conclude(paths, claim, &image, begun, served);
                Ok(())
            }
            Ok((_, Err(panic))) => std::panic::resume_unwind(panic),
        }
    }
}

/// Waits until no process serves the memory of a VM that runs and lacks some, and serves it then.
/// Returns when the VM has all of its memory.
///
/// # Errors
/// If the image cannot be opened. All other errors are recorded in the VM's log.
pub fn stand_by(paths: &VmPaths) -> Result<(), Error> {
    let Some(claim) = Claim::inherit(&filled_from(paths)?)? else {
        return Ok(());
    };
    let begun = Instant::now();
    if !is_postcopying(paths)? {
        return Ok(());
    }
    paths.note("Who served its memory was ended, going on with that");
    match again(paths, claim, begun) {
        Ok(None) => Ok(()),
        Ok(Some(serving)) => serving.serve(|_, late| {
            let _ = fs::remove_file(paths.damaged());
            let standby = start_standby(paths);
            // It serves even if the guest cannot be reached.
            match go_on(paths, late) {
                Ok(()) => late.set_has_run(),
                Err(error) => paths.note(&format!("VM may stand still: {}", chain(&error))),
            }
            late.runs();
            late.has_answered();
            Ok(standby)
        }),
        Err(error) => {
            let reason = format!("its image cannot be opened: {}", chain(&error));
            paths.note(&format!("VM lacks memory: {reason}"));
            // Without it the reason is in the log alone.
            drop(files::replace(
                &paths.damaged(),
                reason.as_bytes(),
                Durability::Atomic,
            ));
            Err(error)
        }
    }
}

/// Takes over the connection to QEMU; `None` if QEMU has all of its memory.
fn again(paths: &VmPaths, claim: Claim, begun: Instant) -> Result<Option<PageService<'_>>, Error> {
    let keys = host_keys(paths)?;
    let image = Image::from_file(claim.file()?, claim.path(), &keys)?.with_parents(&keys, &[])?;
    let pid = process::pid(paths).ok_or_else(|| Error::has_ended(&paths.name))?;
    let urgent = Urgent::of(pid).map_err(file("take a channel of process", pid.to_string()))?;
    let Some(stream) = urgent.reconnect(&paths.runtime_files().late(), &mut || has_all(paths))?
    else {
        let served = Served {
            has_run: true,
            result: Ok(Ended::default()),
            standby: None,
        };
        conclude(paths, claim, &image, begun, served);
        return Ok(None);
    };
    let source = Source::again(stream, &image.state()?, image.header().memory)?;
    Ok(Some(PageService {
        paths,
        claim,
        image,
        source,
        begun,
    }))
}

/// Whether QEMU reports that no page is missing. While it waits for a page it may not answer.
fn has_all(paths: &VmPaths) -> bool {
    let status = process::connect(paths).ok().flatten().and_then(|stream| {
        let mut control = process::glance(&stream);
        control.execute("qmp_capabilities", &json!(null)).ok()?;
        control.execute("query-migrate", &json!(null)).ok()
    });
    status.is_some_and(|status| status["status"] == json!("completed"))
}

/// Continues a guest that was stopped when the other process ended.
fn go_on(paths: &VmPaths, late: &PostcopyMemory<'_>) -> Result<(), Error> {
    let stream = process::connect(paths)?.ok_or_else(|| Error::has_ended(&paths.name))?;
    let mut qmp = process::control(&stream)?;
    if qmp.execute("query-status", &json!(null))?["running"] != json!(true) {
        qmp.execute("cont", &json!(null))?;
        set_clock(paths);
    }
    // The guest runs all the same.
    let _ = SuspendRecord::remove(paths);
    let processors = qmp.execute("query-cpus-fast", &json!(null))?;
    if let Some(pid) = process::pid(paths) {
        late.has(Processors::of(pid, &processors));
    }
    Ok(())
}

/// Whether some of a VM's memory is still to be copied, also if no process serves it.
pub(super) fn is_postcopying(paths: &VmPaths) -> Result<bool, Error> {
    Ok(served(paths)?.is_some())
}

/// Makes sure that a VM's memory is served if some is still to be copied. Whether some is.
pub(super) fn look_after(paths: &VmPaths) -> Result<bool, Error> {
    let served = served(paths)?;
    if served == Some(false) {
        start_standby(paths);
    }
    Ok(served.is_some())
}

/// Does `work`, which waits for a guest, and makes sure meanwhile that the guest's memory is
/// served: the page server may be killed at any time, and a killed process may have its claim a
/// little longer.
pub(super) fn looking_after<T>(paths: &VmPaths, work: impl FnOnce() -> T) -> Result<T, Error> {
    if !is_postcopying(paths)? {
        return Ok(work());
    }
    let (working, done) = mpsc::channel::<()>();
    Ok(thread::scope(|scope| {
        scope.spawn(move || {
            let mut pause = LOOK;
            while done.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                match served(paths) {
                    Ok(Some(true)) => {}
                    // One that cannot serve it says so in the log, but not all the time.
                    Ok(Some(false)) => {
                        start_standby(paths);
                        pause *= 2;
                    }
                    Ok(None) | Err(_) => break,
                }
            }
        });
        let _working = working;
        work()
    }))
}

/// Whether a process serves a VM's memory; `None` if the VM has all of it.
fn served(paths: &VmPaths) -> Result<Option<bool>, Error> {
    if !paths.runtime_files().late().exists() || process::pid(paths).is_none() {
        return Ok(None);
    }
    // There may be another file where the next image is to be.
    Ok(brisk_image::resumed(&filled_from(paths)?)?)
}

/// The image that a VM's memory comes from, by its usual name.
fn filled_from(paths: &VmPaths) -> Result<PathBuf, Error> {
    match Running::of(paths)?.filled_from {
        Some(path) => Ok(path),
        // An older brisk has resumed it.
        None => Ok(paths.image(&paths.definition()?)),
    }
}

/// Starts a standby process if there is none. Without one the memory is served all the same.
pub(super) fn start_standby(paths: &VmPaths) -> Option<Child> {
    let words = ["vm", "fill", "--standby", &paths.name];
    let started = background::command(&words, Priority::Usual).and_then(|mut fill| fill.spawn());
    let note = |error| paths.note(&format!("Nobody stands by to serve its memory: {error}"));
    started.map_err(note).ok()
}

/// Records the working set for the next resume.
fn update_working_set(paths: &VmPaths, image: &Image, wanted: &[Range<u64>]) {
    let before = image.working_set().ok().flatten().unwrap_or_default();
    let ranges = merged_working_set(&before, wanted);
    if let Err(error) = write_working_set(&paths.working_set(), image, &ranges) {
        paths.note(&format!(
            "What it needed first was not noted: {}",
            chain(&error)
        ));
    }
}

/// The new working set: pages that the guest waited for, and as long as there is room pages of the
/// last one, for which it did not wait because they were sent first. Pages that are not needed any
/// more drop out in time; a page that dropped out wrongly is waited for again.
fn merged_working_set(before: &[Range<u64>], wanted: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut seen = HashSet::new();
    let all = wanted.iter().chain(before).cloned().flatten();
    let pages = all.filter(|page| seen.insert(*page)).take(WORKING_PAGES);
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for page in pages {
        push_page(&mut ranges, page);
    }
    ranges
}

/// How serving a guest's memory ended.
struct Served {
    /// Whether the guest is known to have run.
    has_run: bool,
    result: Result<Ended, Failure>,
    /// The process that would have taken over.
    standby: Option<Child>,
}

/// The guest has all of its memory, or this process cannot serve it.
fn conclude(paths: &VmPaths, claim: Claim, image: &Image, begun: Instant, served: Served) {
    let whole = served.result.map_err(Error::from).and_then(|ended| {
        let stream = process::connect(paths)?.ok_or_else(|| Error::ended_loading(&paths.name))?;
        let mut qmp = process::control(&stream)?;
        end_late_memory(&mut qmp)?;
        Ok(ended)
    });
    match &whole {
        Ok(ended) => {
            let wanted: u64 = ended
                .wanted
                .iter()
                .map(|range| range.end - range.start)
                .sum();
            paths.note(&format!(
                "VM has all of its memory after {:.1} s: {} pages, {} of them because it needed \
                 them first before, {wanted} when it asked",
                begun.elapsed().as_secs_f64(),
                ended.sent,
                ended.first,
            ));
            update_working_set(paths, image, &ended.wanted);
        }
        Err(_) if process::pid(paths).is_none() && served.has_run => {
            paths.note("VM ended before it had all of its memory");
        }
        Err(_) if process::pid(paths).is_none() => {
            paths.note(
                "VM ended before it is known to have run: its image stays, and brisk vm resume \
                 --again goes on from there",
            );
            return;
        }
        Err(error) => {
            paths.note(&format!("VM lacks memory: {}", chain(error)));
            // It could not do better.
            if let Some(mut standby) = served.standby {
                let _ = standby.kill();
            }
            return;
        }
    }
    // Nothing comes any more.
    let _ = fs::remove_dir_all(paths.runtime_files().late());
    let done = match whole {
        Ok(_) => backing_chain::keep(paths, claim, image),
        Err(_) => claim.finish().map_err(Error::from),
    };
    if let Err(error) = done {
        paths.note(&format!("The image was not removed: {}", chain(&error)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_needed_before_stays_as_long_as_there_is_room() {
        assert_eq!(
            merged_working_set(&[0..2, 6..7], &[5..7, 9..10]),
            [5..7, 9..10, 0..2]
        );
        let most = WORKING_PAGES as u64;
        let known = merged_working_set(&[0..1, 2..most], &[most..most + 2, 0..1]);
        assert_eq!(known, [most..most + 2, 0..1, 2..most - 1]);
    }
}

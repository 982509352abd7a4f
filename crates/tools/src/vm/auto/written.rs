//! VMs whose memory was kept in RAM alone, for a warm restart that does not come about.

use brisk_image::Header;
use brisk_vm::cache::Cache;

use super::carried;
use super::turn::{Action, Outcome, Task, Turn};
use crate::vm::condition::Condition;
use crate::vm::error::Error;
use crate::vm::live::condition;
use crate::vm::paths::{StateDirs, VmPaths};
use crate::vm::resume::{How, resume};
use crate::vm::suspend::{Suspending, suspend};

/// Writes to their images the memory of suspended VMs that is in RAM alone, also of those whose resume
/// was cut off: the machine goes down, and the next kernel may not find it there. One after the other,
/// each runs for a moment.
#[must_use]
pub fn write_kept(dirs: &StateDirs, cache: &Cache, turn: Turn<'_>) -> Vec<Outcome> {
    let decide = |paths: &VmPaths| Ok(is_alone(paths)?.then_some(Action::Suspend));
    let act = |paths: &VmPaths, _| write(paths, Some(cache), turn);
    let task = Task {
        decide: &decide,
        act: &act,
        until: None,
    };
    let names = dirs.names().into_iter();
    let written = names.map(|name| {
        let paths = dirs.vm(&name);
        Outcome::of(name, turn, || task.run(&paths?, turn))
    });
    written.collect()
}

/// Whether a VM is suspended, and its memory is in RAM alone.
pub(super) fn is_alone(paths: &VmPaths) -> Result<bool, Error> {
    let image = brisk_image::resumable(&paths.image_now()?);
    Ok(condition(paths)? == Condition::Suspended
        && image.is_some_and(|image| Header::read(&image).is_ok_and(|header| header.kept)))
}

pub(super) fn write(paths: &VmPaths, cache: Option<&Cache>, turn: Turn<'_>) -> Result<(), Error> {
    let Some(cache) = cache else {
        let what = "has its memory in RAM alone, which cannot be written without the cache";
        let hint = "see the error about the cache";
        return Err(Error::state(&paths.name, what, hint));
    };
    carried::begin(paths)?;
    resume(paths, cache, &How::default(), turn.control())?;
    match suspend(paths, Suspending::default(), turn.control()) {
        Ok(_) => {}
        // autostop, which may run by now, did it.
        Err(Error::State { .. }) if condition(paths)? == Condition::Suspended => {}
        Err(error) => return Err(error),
    }
    // If this cannot be written, what was noted before holds for it.
    drop(carried::note(paths));
    Ok(())
}

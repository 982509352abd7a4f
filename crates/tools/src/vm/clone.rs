//! Clones: a second VM from the image of a suspended one, which is not changed.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use brisk_image::{Hold, Image, Progress, State};
use brisk_vm::cache::Cache;

use super::condition::Condition;
use super::definition::Definition;
use super::describe::disks_are_as_noted;
use super::disks::{self, OwnDisk};
use super::error::{Error, file};
use super::first_run::{Failure, FirstRun};
use super::identity::{new_generation, new_uuid, separate};
use super::live::condition;
use super::page_service::looking_after;
use super::paths::VmPaths;
use super::ports::run_steps;
use super::process;
use super::resume::{How, Resumed, open, run_from};
use super::running::Running;
use crate::guest::identity;
use brisk_host::chain;

/// Time limit for init to give the guest its new identity.
const IDENTITY_TIME: Duration = Duration::from_secs(60);

/// Defines the VM `new` like `paths`, and resumes it from the image of `paths`, which stays
/// suspended. The clone gets a name, a network card, randomness and the time of its own, and copies
/// of the disks that it writes to.
///
/// # Errors
/// If `new` exists, `paths` is not suspended or writes to something that cannot be copied, there is
/// no room for the copy, or as of [`resume`](super::resume). Nothing is left of the new VM then.
pub fn resume_clone(
    paths: &VmPaths,
    new: &VmPaths,
    cache: &Cache,
    how: &How,
    control: brisk_image::Control<'_>,
) -> Result<Resumed, Error> {
    let begun = Instant::now();
    let definition = paths.definition()?;
    new.must_be_new()?;
    let now = condition(paths)?;
    if now != Condition::Suspended {
        let (what, hint) = ("is not suspended", "brisk vm suspend writes the image");
        return Err(Error::state(&paths.name, what, hint));
    }
    let path = paths.image(&definition);
    let hold = Hold::take(&path)?;
    let (image, running) = open(paths, hold.file()?, hold.path(), how, cache)?;
    let disks = own_disks(paths, new, &definition, &running)?;
    let own = definition_of(new, &definition, &disks, &path)?;
    new.make_new()?;
    let lock = new.lock("resume --clone").inspect_err(|_| {
        // Only the lock's file can be in it.
        let _ = fs::remove_dir_all(new.state());
    })?;
    // Another command may define a VM of this name at the same time.
    let defined = new.define(&own, true);
    if let Err(error) = defined {
        let _ = new.remove_state(lock);
        return Err(error);
    }
    paths.note(&format!("Clone {} goes on from the image", new.name));
    new.processing("resume", &format!("as a clone, from {}", path.display()));
    let cloning = Cloning {
        new,
        own: &own,
        disks: &disks,
        image: &image,
        how,
        control,
    };
    let result = cloning.run(running, begun);
    match &result {
        Ok(resumed) => {
            new.note(&resumed.line());
            new.note("VM running");
        }
        Err(error) => {
            paths.note(&format!("Clone {} failed: {}", new.name, chain(error)));
            // What went wrong first is what matters.
            let _ = process::end(new);
            let _ = new.remove(lock);
        }
    }
    result.map_err(Error::or_interrupted)
}

/// Finds the disks that the clone needs copies of: two guests that write to one disk destroy it.
fn own_disks(
    paths: &VmPaths,
    new: &VmPaths,
    definition: &Definition,
    running: &Running,
) -> Result<Vec<OwnDisk>, Error> {
    let needed = disks::needed(running, definition, &new.state());
    let needed = needed.map_err(|(what, hint)| Error::state(&paths.name, what, hint))?;
    disks::check(paths, &running.machine, &needed)?;
    Ok(needed)
}

/// The definition of the clone: a copy, except for what must differ.
fn definition_of(
    new: &VmPaths,
    other: &Definition,
    disks: &[OwnDisk],
    taken: &Path,
) -> Result<Definition, Error> {
    let mut own = Definition {
        uuid: Some(new_uuid()?),
        ..other.clone()
    };
    disks::name(disks, &mut own)?;
    if new.image(&own) == taken {
        own.suspend.path = None;
    }
    let image = new.image(&own);
    if brisk_image::state(&image)? != State::Absent {
        return Err(brisk_image::Error::Exists { path: image }.into());
    }
    Ok(own)
}

/// A clone that is being made.
struct Cloning<'a> {
    new: &'a VmPaths,
    own: &'a Definition,
    disks: &'a [OwnDisk],
    /// The image that it goes on from.
    image: &'a Image,
    /// Disks that are what they were, though they do not look so.
    how: &'a How,
    control: brisk_image::Control<'a>,
}

impl Cloning<'_> {
    fn run(&self, mut running: Running, begun: Instant) -> Result<Resumed, Error> {
        let Self {
            new,
            own,
            disks,
            image,
            how,
            control,
        } = self;
        let copied = self.copy_disks()?;
        // Progress counts all as one.
        let all = |progress: Progress| {
            (control.progress)(Progress {
                done: progress.done + copied,
                total: progress.total + copied,
                ..progress
            });
        };
        let control = brisk_image::Control {
            progress: &all,
            cancel: control.cancel,
        };
        let uuid = own.uuid().map_err(|source| new.wrong(source))?;
        let generation = new_generation()?;
        let plan = &mut running.machine;
        disks::give(disks, plan);
        let steps = separate(plan, &new.name, uuid.unwrap_or(generation), generation);
        // The other VM may be removed before this one.
        plan.boot.kernel = new.keep("kernel", &plan.boot.kernel)?;
        plan.boot.initramfs = new.keep("initramfs", &plan.boot.initramfs)?;
        running.nameless = true;
        // Those images are the other VM's.
        running.images.clear();
        let first = FirstRun {
            paths: new,
            image,
            claim: None,
            how,
        };
        let resumed = run_from(first, &mut running, control, begun);
        let resumed = resumed.map_err(Failure::error)?;
        let mut all = identity().map_err(file("read", "/dev/urandom"))?;
        all.extend(steps);
        looking_after(new, || run_steps(new, &all, IDENTITY_TIME))??;
        running.nameless = false;
        running.save(new)?;
        Ok(resumed)
    }

    /// Copies what the guest writes to; how many bytes had to be.
    fn copy_disks(&self) -> Result<u64, Error> {
        let Self { new, disks, .. } = self;
        if disks.is_empty() {
            return Ok(0);
        }
        let begun = Instant::now();
        let copied = disks::make(disks, self.image.header().memory, self.control)?;
        // Nobody who knows of the image writes to them; others may have.
        disks_are_as_noted(self.image, &self.how.accepted_disks)?;
        for disk in *disks {
            new.note(&format!("{disk}"));
        }
        if copied > 0 {
            let megabytes = copied as f64 / 1e6;
            let seconds = begun.elapsed().as_secs_f64().max(1e-9);
            let rate = megabytes / seconds;
            new.note(&format!(
                "copied: {megabytes:.0} MB in {seconds:.2} sec {rate:.1} MB/s"
            ));
        }
        Ok(copied)
    }
}

//! A second machine that goes on from the image of a suspended one, which stays as it is.

use std::path::Path;
use std::time::{Duration, Instant};

use brisk_vm::cache::Cache;
use brisk_vm::image::{self, Hold, Image, Keys, State};

use super::definition::Definition;
use super::error::{Error, file};
use super::home::{Home, new_uuid};
use super::identity::{new_generation, separate};
use super::lifecycle::Running;
use super::live::{self, Condition, condition};
use super::ports::tell;
use super::resume::{Resumed, open, run_from};
use crate::chain;
use crate::run::identity;

/// How long init may take to tell the guest who it is.
const TELLING: Duration = Duration::from_secs(60);

/// Defines the machine `new` as `home` is defined, and has it go on from the image of that, which
/// stays suspended. The guest gets a name, a network card, randomness and the time of its own.
/// `keys` open the image besides this host's.
///
/// # Errors
/// If there is such a machine already, `home` is not suspended, both would write to one disk, or
/// as of [`resume`](super::resume). Nothing is left of the new machine then.
pub fn resume_clone(
    home: &Home,
    new: &Home,
    cache: &Cache,
    keys: &Keys,
    control: image::Control<'_>,
) -> Result<Resumed, Error> {
    let begun = Instant::now();
    let definition = home.definition()?;
    if new.file().exists() {
        return Err(new.exists());
    }
    let now = condition(home)?;
    if now != Condition::Suspended {
        let (what, hint) = ("is not suspended", "brisk vm suspend writes the image");
        return Err(Error::state(&home.name, what, hint));
    }
    let path = home.image(&definition);
    let hold = Hold::take(&path)?;
    let (image, running) = open(home, (hold.file()?, hold.path()), keys, cache)?;
    refuse_shared_disks(home, &definition, &running)?;
    let own = definition_of(new, &definition, &path)?;
    new.prepare()?;
    let _lock = new.lock("resume --clone")?;
    if live::is_there(new)? {
        return Err(Error::runs_already(&new.name));
    }
    new.define(&own, true)?;
    home.note(&format!("Clone {} goes on from the image", new.name));
    new.processing("resume", &format!("as a clone, from {}", path.display()));
    let result = run(new, &own, (&image, running), control, begun);
    match &result {
        Ok(resumed) => {
            new.note(&resumed.line());
            new.note("VM running");
        }
        Err(error) => {
            home.note(&format!("Clone {} failed: {}", new.name, chain(error)));
            // What went wrong first is what matters.
            let _ = live::end(new);
            let _ = new.remove();
        }
    }
    result.map_err(Error::or_interrupted)
}

/// Two guests that write to one disk destroy it.
fn refuse_shared_disks(
    home: &Home,
    definition: &Definition,
    running: &Running,
) -> Result<(), Error> {
    let disk = running.machine.disks.iter().find(|disk| disk.writable);
    let path = match disk {
        Some(disk) => disk.path.display().to_string(),
        // It would be as soon as both are started anew.
        None if definition.rw && definition.root != "none" => definition.root.clone(),
        None => return Ok(()),
    };
    Err(Error::state(
        &home.name,
        format!("writes to {path}, and a clone would write to it, too"),
        "clones are made of machines with --root none or without --rw",
    ))
}

/// The definition of the clone: the other's, but for what must not be the same.
fn definition_of(new: &Home, other: &Definition, taken: &Path) -> Result<Definition, Error> {
    let mut own = Definition {
        uuid: Some(new_uuid()?),
        ..other.clone()
    };
    if new.image(&own) == taken {
        own.suspend.path = None;
    }
    let image = new.image(&own);
    if image::state(&image)? != State::Absent {
        return Err(image::Error::Exists { path: image }.into());
    }
    Ok(own)
}

fn run(
    new: &Home,
    own: &Definition,
    (image, mut running): (&Image, Running),
    control: image::Control<'_>,
    begun: Instant,
) -> Result<Resumed, Error> {
    let uuid = own.uuid().map_err(|source| new.wrong(source))?;
    let generation = new_generation()?;
    let plan = &mut running.machine;
    let steps = separate(plan, &new.name, uuid.unwrap_or(generation), generation);
    // The other machine may be removed before this one.
    plan.kernel = new.keep("kernel", &plan.kernel)?;
    plan.initramfs = new.keep("initramfs", &plan.initramfs)?;
    running.nameless = true;
    let resumed = run_from(new, image, &mut running, control, begun, || Ok(()))?;
    let mut all = identity().map_err(file("read", "/dev/urandom"))?;
    all.extend(steps);
    tell(new, &all, TELLING)?;
    running.nameless = false;
    running.save(new)?;
    Ok(resumed)
}

//! `brisk vm discard`.

use std::fs;
use std::path::Path;

use brisk_image::{Claim, Hold, remove_resumed, resumed_name};

use super::backing_chain;
use super::condition::Condition;
use super::ended::note_end;
use super::error::{Error, file};
use super::lifecycle::ended;
use super::live::condition;
use super::paths::VmPaths;
use super::process;
use super::suspend_record::{self, SuspendRecord, image_missing};

/// Deletes the image of a suspended VM, which is off afterwards, or forgets an image that is gone.
///
/// # Errors
/// If it is not suspended, or the image may be another VM's.
pub fn discard(paths: &VmPaths) -> Result<(), Error> {
    suspend_record::put_back(paths)?;
    let _lock = paths.lock("discard")?;
    note_end(paths);
    let now = condition(paths)?;
    match now {
        Condition::Suspended => {
            let image = paths.image_now()?;
            let mut claim = match Claim::take(&image) {
                Err(error) if error.is_no_space() => {
                    remove_in_place(paths, &image)?;
                    ended(paths);
                    return Ok(());
                }
                other => other?,
            };
            // What somebody else put there is not ours to remove.
            if suspend_record::is_own(paths, &image, process::is_there(paths)?) != Some(true) {
                claim.release()?;
                return Err(not_known(paths, &image));
            }
            paths.processing("discard", "");
            process::end_process(paths)?;
            backing_chain::remove_left(paths, claim.image());
            claim.start()?;
            // A record that stays would have the image missed.
            if let Err(error) = SuspendRecord::remove(paths) {
                claim.undo();
                claim.release()?;
                return Err(error);
            }
            claim.finish()?;
            paths.note("Image removed");
        }
        Condition::CutOff => {
            let usual = paths.image_now()?;
            let image = resumed_name(&usual);
            if suspend_record::owns(paths, &image) != Some(true) {
                return Err(not_known(paths, &image));
            }
            paths.processing("discard", "");
            process::end_process(paths)?;
            SuspendRecord::remove(paths)?;
            remove_resumed(&usual)?;
            paths.note("Image of a resume that was cut off removed");
        }
        Condition::Missing if suspend_record::is_replaced(paths) => {
            return Err(image_missing(paths));
        }
        Condition::Missing => {
            paths.processing("discard", "");
            process::end_process(paths)?;
            // Its base images stay: the image may come back, or be another host's by now.
            SuspendRecord::remove(paths)?;
            paths.forget_memory();
            paths.clear();
            paths.note("Image forgotten");
            return Ok(());
        }
        Condition::Off => {
            let hint = "there is no image to discard";
            return Err(Error::state(&paths.name, "is not suspended", hint));
        }
        _ => {
            let what = format!("is not suspended, but {}", now.name());
            return Err(Error::state(&paths.name, what, "brisk vm kill ends it"));
        }
    }
    ended(paths);
    Ok(())
}

/// Removes a VM's image where not even a name can be changed any more: what is removed makes room
/// again.
fn remove_in_place(paths: &VmPaths, image: &Path) -> Result<(), Error> {
    // Nobody resumes from it meanwhile.
    let held = Hold::take(image)?;
    if suspend_record::is_own(paths, image, process::is_there(paths)?) != Some(true) {
        return Err(not_known(paths, image));
    }
    paths.processing("discard", "");
    process::end_process(paths)?;
    backing_chain::remove_left(paths, image);
    fs::remove_file(held.path()).map_err(file("remove", held.path()))?;
    SuspendRecord::remove(paths)?;
    paths.note("Image removed");
    Ok(())
}

/// Somebody may need what would be removed.
fn not_known(paths: &VmPaths, image: &Path) -> Error {
    Error::state(
        &paths.name,
        format!("may not be the VM in {}", image.display()),
        "if nobody needs that any more, remove it",
    )
}

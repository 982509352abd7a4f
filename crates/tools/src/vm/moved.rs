//! Images that were moved to another place than the definition says.

use super::condition::Condition;
use super::definition::Definition;
use super::error::Error;
use super::live::condition;
use super::paths::VmPaths;
use super::process;
use super::suspend_record::{is_own, missing};

/// Checks that the image of a VM can be looked for where another definition of the VM says.
///
/// # Errors
/// If it is suspended to the place that it has now. An image that is missing from there may be looked
/// for where it is found.
pub fn may_move_image(paths: &VmPaths, to: &Definition) -> Result<(), Error> {
    let now = condition(paths)?;
    let elsewhere = paths.image(to);
    let is_found = || {
        let has_qemu = process::pid(paths).is_some();
        is_own(paths, &elsewhere, has_qemu) == Some(true)
    };
    match now {
        Condition::Suspended | Condition::CutOff => Err(Error::state(
            &paths.name,
            format!(
                "is suspended to {}, and would not be found elsewhere",
                paths.image_now()?.display()
            ),
            "brisk vm resume goes on from there, brisk vm discard removes the image",
        )),
        Condition::Missing if !is_found() => Err(Error::state(
            &paths.name,
            format!(
                "is suspended to {}, which is not there, and {} is not that image",
                missing(paths).unwrap_or_default().display(),
                elsewhere.display()
            ),
            "name the place that it was moved to, or mount its file system; brisk vm discard forgets it",
        )),
        _ => Ok(()),
    }
}

//! VMs that were suspended because the host goes down, and that run again when it is up.

use std::fs;

use brisk_host::files::{self, Durability};

use super::super::condition::Condition;
use super::super::error::{Error, file};
use super::super::paths::{LARGEST, VmPaths};

/// Content of the note while a VM is being suspended: what names its image is not known yet.
const BEGUN: &[u8] = b"being suspended\n";

/// What was noted of a VM before.
pub(super) struct Before(Option<Vec<u8>>);

/// Notes that a VM that runs is to be resumed with the host, whatever ends this process from now
/// on: it is suspended then, or stands still, or runs.
pub(super) fn begin(paths: &VmPaths) -> Result<Before, Error> {
    let path = paths.carried();
    let before = Before(files::read_regular(&path, LARGEST).ok());
    files::replace(&path, BEGUN, Durability::Durable).map_err(file("write", &path))?;
    Ok(before)
}

/// Takes back that a VM is being suspended: another command works on it, or did.
pub(super) fn take_back(paths: &VmPaths, Before(before): Before) {
    match before {
        Some(bytes) => drop(files::replace(&paths.carried(), &bytes, Durability::Atomic)),
        None => forget(paths),
    }
}

/// Notes that a VM, which has just been suspended, is to be resumed when the host is up again.
///
/// The note repeats what names the image: after any other resume or suspend it is another one, and
/// the note is void.
pub(super) fn note(paths: &VmPaths) -> std::io::Result<()> {
    let suspended = files::read_regular(&paths.suspended(), LARGEST)?;
    files::replace(&paths.carried(), &suspended, Durability::Durable)
}

/// Whether a VM in this condition is to be resumed when the host is up.
pub(super) fn is_noted(paths: &VmPaths, now: Condition) -> bool {
    match files::read_regular(&paths.carried(), LARGEST) {
        Ok(noted) if noted == BEGUN => matches!(now, Condition::Suspended | Condition::Paused),
        Ok(noted) => files::read_regular(&paths.suspended(), LARGEST).is_ok_and(|now| now == noted),
        Err(_) => false,
    }
}

/// Forgets what an earlier process began, if the VM runs, or is off: a later suspend is not its own.
pub(super) fn forget_begun(paths: &VmPaths, now: Condition) {
    let is_over = matches!(now, Condition::Running | Condition::Off);
    if is_over && files::read_regular(&paths.carried(), LARGEST).is_ok_and(|noted| noted == BEGUN) {
        forget(paths);
    }
}

/// Forgets the note.
pub(super) fn forget(paths: &VmPaths) {
    // One that stays is void.
    let _ = fs::remove_file(paths.carried());
}

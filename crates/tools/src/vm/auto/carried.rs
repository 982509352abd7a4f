//! VMs that were suspended because the host goes down, and that run again when it is up.

use std::fs;

use brisk_host::files::{self, Durability};

use super::super::paths::VmPaths;

/// Notes that a VM, which has just been suspended, is to be resumed when the host is up again.
///
/// The note repeats what names the image: after any other resume or suspend it is another one, and
/// the note is void.
pub(super) fn note(paths: &VmPaths) -> std::io::Result<()> {
    let suspended = fs::read(paths.suspended())?;
    files::replace(&paths.carried(), &suspended, Durability::Durable)
}

/// Whether a VM is to be resumed when the host is up.
pub(super) fn is_noted(paths: &VmPaths) -> bool {
    let noted = fs::read(paths.carried());
    noted.is_ok_and(|noted| fs::read(paths.suspended()).is_ok_and(|now| now == noted))
}

/// Forgets the note.
pub(super) fn forget(paths: &VmPaths) {
    // One that stays is void.
    let _ = fs::remove_file(paths.carried());
}

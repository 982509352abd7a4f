//! Locks on the disks of a VM that is being suspended.
//!
//! QEMU releases its locks when it has written the device state, and the VM is in its image only
//! seconds later. Until then another guest, or `qemu-img`, could take a disk and write to it. So
//! this process takes the lock that QEMU looks for: its byte for "not shared for writing".

use std::fs::File;
use std::path::PathBuf;

use brisk_sys::{Sharing, is_byte_taken, try_lock_byte};
use brisk_vm::qemu::Disk;

use super::error::Error;

/// The byte that QEMU locks where it writes: `RAW_LOCK_PERM_BASE` and the bit of `BLK_PERM_WRITE`
/// (QEMU's block/file-posix.c).
const WRITES: u64 = 101;
/// The byte that QEMU locks where nobody else may write: `RAW_LOCK_SHARED_BASE` and that bit.
const NO_OTHER_WRITES: u64 = 201;

/// Locks on the disks that a VM writes to. No program that locks disks as QEMU does writes to them
/// while this lives.
pub(super) struct DiskLocks(Vec<(PathBuf, File)>);

impl DiskLocks {
    /// Locks the disks of a VM whose QEMU still has its own locks. Disks whose file system knows no
    /// locks are left out, as by QEMU.
    pub(super) fn take(disks: &[Disk]) -> Self {
        let written = disks.iter().filter(|disk| disk.writable);
        let locked = written.filter_map(|disk| {
            let file = File::open(&disk.path).ok()?;
            let taken = try_lock_byte(&file, NO_OTHER_WRITES, Sharing::Shared).unwrap_or(false);
            taken.then(|| (disk.path.clone(), file))
        });
        Self(locked.collect())
    }

    /// Checks that no other process took a disk after QEMU had released its own locks.
    ///
    /// # Errors
    /// The disk that was taken.
    pub(super) fn check(&self, name: &str) -> Result<(), Error> {
        let taken = |(_, file): &&(PathBuf, File)| is_byte_taken(file, WRITES).unwrap_or(false);
        match self.0.iter().find(taken) {
            None => Ok(()),
            Some((path, _)) => Err(Error::state(
                name,
                format!(
                    "was not suspended: another process writes to {}",
                    path.display()
                ),
                "end that first",
            )),
        }
    }
}

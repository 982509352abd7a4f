//! Removing a VM, and what its QEMU left when it has ended.

use std::fs;

use super::backing_chain;
use super::error::{Error, file};
use super::lock::Lock;
use super::paths::VmPaths;
use super::standing::Standing;

impl VmPaths {
    /// Forgets what a VM had that runs no more.
    pub(super) fn clear(&self) {
        if let Some(memory) = self.named_memory() {
            let _ = fs::remove_file(memory);
        }
        let _ = fs::remove_dir_all(self.runtime());
        let _ = fs::remove_file(self.process());
        // It is of a QEMU that has ended.
        Standing::remove(self);
    }

    /// Removes a VM that does not run, and its lock.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn remove(&self, lock: Lock) -> Result<(), Error> {
        backing_chain::forget(self);
        self.forget_memory();
        self.clear();
        let path = self.file();
        match fs::remove_file(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            other => other.map_err(file("remove", &path))?,
        }
        let _ = fs::remove_file(self.suspended_copy());
        self.remove_state(lock)
    }

    /// Removes the state directory, in which the lock is.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(super) fn remove_state(&self, lock: Lock) -> Result<(), Error> {
        let state = self.state();
        let removed = fs::remove_dir_all(&state);
        drop(lock);
        // NFS and FUSE keep a file that is open in its directory, under another name.
        let removed = removed.or_else(|_| fs::remove_dir_all(&state));
        removed.map_err(file("remove", &state))
    }
}

//! Removing a VM, and what its QEMU left when it has ended.

use std::fs;

use super::backing_chain;
use super::error::{Error, file};
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

    /// Removes a VM that does not run.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn remove(&self) -> Result<(), Error> {
        backing_chain::forget(self);
        self.forget_memory();
        self.clear();
        let path = self.file();
        match fs::remove_file(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            other => other.map_err(file("remove", &path))?,
        }
        let _ = fs::remove_file(self.suspended_copy());
        let state = self.state();
        fs::remove_dir_all(&state).map_err(file("remove", &state))
    }
}

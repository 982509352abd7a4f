//! At most one process releases devices, or puts them back.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use brisk_host::files;
use brisk_sys::{Sharing, try_lock};

/// Taken as long as it lives.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of a directory, which is made if it is not there; none if another process has
    /// it.
    ///
    /// # Errors
    /// If the file of the lock cannot be made.
    pub fn take(directory: &Path) -> io::Result<Option<Self>> {
        fs::create_dir_all(directory)?;
        let file = files::open_lock(&directory.join("quiesce.lock"))?;
        Ok(try_lock(&file, Sharing::Exclusive)?.then_some(Self { _file: file }))
    }
}

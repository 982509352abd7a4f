//! New files of the cache. One without a name leaves nothing when its writer is killed; where there
//! are none, as on NFS, what killed writers have left is removed later.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, linkat, openat};
use tempfile::TempPath;

const PREFIX: &str = ".new-";

/// A file that is not named yet, or not by the name that it is to have.
pub(super) struct New {
    file: File,
    /// Its name, if it has one.
    path: Option<TempPath>,
    directory: PathBuf,
}

impl New {
    pub(super) fn in_directory(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let (file, path) = match openat(CWD, directory, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => {
                let file = File::from(file);
                // It gets a name that begins like those that are cleaned up.
                flock(&file, FlockOperation::LockExclusive)?;
                (file, None)
            }
            Err(_) => named(directory)?,
        };
        Ok(Self {
            file,
            path,
            directory: directory.into(),
        })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Gives it this name, also where another file has it.
    pub(super) fn name(self, name: &Path) -> io::Result<()> {
        let path = match self.path {
            Some(path) => path,
            None => link(&self.file, &self.directory)?,
        };
        path.persist(name).map_err(|error| error.error)
    }
}

/// A name of its own for a file that has none.
fn link(file: &File, directory: &Path) -> io::Result<TempPath> {
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    let made = tempfile::Builder::new()
        .prefix(PREFIX)
        .make_in(directory, |path| {
            Ok(linkat(CWD, &source, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
        });
    Ok(made?.into_temp_path())
}

/// A file with a name, locked as long as it is written: see [`clean`].
fn named(directory: &Path) -> io::Result<(File, Option<TempPath>)> {
    loop {
        let (file, path) = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempfile_in(directory)?
            .into_parts();
        flock(&file, FlockOperation::LockExclusive)?;
        // Whoever cleaned up may have had it first.
        if file.metadata()?.nlink() > 0 {
            return Ok((file, Some(path)));
        }
    }
}

/// Removes what writers that were killed have left.
pub(super) fn clean(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_new = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let Some(file) = (is_new && is_file)
            .then(|| File::open(entry.path()).ok())
            .flatten()
        else {
            continue;
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

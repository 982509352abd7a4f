//! A file that appears whole under its name or not at all.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::error::{Error, io_error};

/// A file without a name, or with a temporary one where the file system knows no such files.
#[derive(Debug)]
pub(super) struct Durable {
    pub(super) file: File,
    path: PathBuf,
    dir: File,
    dir_path: PathBuf,
    name: OsString,
    temporary: Option<OsString>,
}

impl Durable {
    /// A new file in the directory of `path`, readable by its owner only.
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        let (dir_path, name) = split(path)?;
        let dir = File::open(&dir_path).map_err(io_error("open the directory", &dir_path))?;
        let failed = || io_error("create", path);
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let (file, temporary) = match rustix::fs::openat(&dir, ".", flags, mode) {
            Ok(file) => (file, None),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
                let temporary = temporary_name(&name);
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let file = rustix::fs::openat(&dir, &temporary, flags, mode).map_err(failed())?;
                (file, Some(temporary))
            }
            Err(errno) => return Err(failed()(errno)),
        };
        Ok(Self {
            file: file.into(),
            path: path.to_owned(),
            dir,
            dir_path,
            name,
            temporary,
        })
    }

    /// The content is on the disk, though not yet under its name.
    pub(super) fn sync(&self) -> Result<(), Error> {
        self.file.sync_all().map_err(io_error("write", &self.path))
    }

    /// Gives it its name, durably. Call [`Self::sync`] first.
    pub(super) fn publish(mut self, replace: bool) -> Result<(), Error> {
        if self.temporary.is_none() && !replace {
            match self.link(&self.name) {
                Ok(()) => {
                    return self.sync_dir().inspect_err(|_| {
                        let _ = rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty());
                    });
                }
                Err(errno) => return Err(self.refused(errno)),
            }
        }
        if self.temporary.is_none() {
            let temporary = temporary_name(&self.name);
            self.link(&temporary).map_err(|errno| self.refused(errno))?;
            self.temporary = Some(temporary);
        }
        let temporary = self.temporary.as_deref().unwrap_or(OsStr::new(""));
        let flags = if replace {
            RenameFlags::empty()
        } else {
            RenameFlags::NOREPLACE
        };
        rustix::fs::renameat_with(&self.dir, temporary, &self.dir, &self.name, flags)
            .map_err(|errno| self.refused(errno))?;
        self.temporary = None;
        self.sync_dir()
    }

    /// linkat(2): through /proc, as it needs no privilege so.
    fn link(&self, name: &OsStr) -> Result<(), Errno> {
        use std::os::fd::AsRawFd;
        let source = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::linkat(CWD, source, &self.dir, name, AtFlags::SYMLINK_FOLLOW)
    }

    fn refused(&self, errno: Errno) -> Error {
        match errno {
            Errno::EXIST => Error::Exists {
                path: self.path.clone(),
            },
            _ => io_error("create", &self.path)(errno),
        }
    }

    fn sync_dir(&self) -> Result<(), Error> {
        self.dir
            .sync_all()
            .map_err(io_error("write the directory", &self.dir_path))
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = rustix::fs::unlinkat(&self.dir, temporary, AtFlags::empty());
        }
    }
}

/// Directory and name of a file.
pub(super) fn split(path: &Path) -> Result<(PathBuf, OsString), Error> {
    let name = path
        .file_name()
        .ok_or_else(|| Error::invalid(format!("{} names no file", path.display())))?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    Ok((dir.unwrap_or(Path::new(".")).to_owned(), name.to_owned()))
}

/// The directory of a file knows its names for good.
pub(super) fn sync_dir_of(path: &Path) -> Result<(), Error> {
    let (dir, _) = split(path)?;
    let synced = File::open(&dir).and_then(|dir| dir.sync_all());
    synced.map_err(io_error::<io::Error>("write the directory", &dir))
}

fn temporary_name(name: &OsStr) -> OsString {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}-{count}.tmp", std::process::id()));
    temporary
}

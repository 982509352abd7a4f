//! A file that appears whole under its name or not at all.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, io_error};
use crate::naming::{check_name, rename_new};

/// A file without a name, or with a temporary one on file systems without `O_TMPFILE`.
#[derive(Debug)]
pub(crate) struct Durable {
    pub(crate) file: File,
    path: PathBuf,
    dir: File,
    dir_path: PathBuf,
    name: OsString,
    temporary: Option<OsString>,
}

impl Durable {
    /// A new file in the directory of `path`, readable by its owner only.
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
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
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.file.sync_all().map_err(io_error("write", &self.path))
    }

    /// Gives the file its name, durably. Call [`Self::sync`] first.
    ///
    /// # Errors
    /// If it cannot have that name, the directory cannot be written, or the path leads to another
    /// file. A new file is gone then, also after a crash; where one is replaced, the new one may be
    /// there.
    pub(crate) fn publish(mut self, replace: bool) -> Result<(), Error> {
        if self.temporary.is_none() && !replace {
            self.link(&self.name).map_err(|errno| self.refused(errno))?;
            return self.settle().inspect_err(|_| self.retract());
        }
        if self.temporary.is_none() {
            let temporary = temporary_name(&self.name);
            self.link(&temporary).map_err(|errno| self.refused(errno))?;
            self.temporary = Some(temporary);
        }
        let temporary = self.temporary.as_deref().unwrap_or(OsStr::new(""));
        let (dir, name) = (&self.dir, self.name.as_os_str());
        let named = match replace {
            true => rustix::fs::renameat(dir, temporary, dir, name),
            false => rename_new(dir, temporary, name),
        };
        named.map_err(|errno| self.refused(errno))?;
        self.temporary = None;
        match replace {
            true => self.settle(),
            false => self.settle().inspect_err(|_| self.retract()),
        }
    }

    /// Makes the name durable. The directory may have been unmounted since it was opened: nobody
    /// would find the file.
    fn settle(&self) -> Result<(), Error> {
        self.sync_dir()?;
        check_name(&self.file, &self.path).map_err(|_| Error::Hidden {
            path: self.path.clone(),
        })
    }

    /// Removes a name that may or may not be durable. The content is removed, too: after a crash
    /// the name may exist again.
    fn retract(&self) {
        let _ = rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty());
        let _ = self.file.set_len(0).and_then(|()| self.file.sync_all());
    }

    /// Links the file through /proc, which needs no privilege (linkat(2)).
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
pub(crate) fn split(path: &Path) -> Result<(PathBuf, OsString), Error> {
    let name = path
        .file_name()
        .ok_or_else(|| Error::invalid(format!("{} names no file", path.display())))?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    Ok((dir.unwrap_or(Path::new(".")).to_owned(), name.to_owned()))
}

/// The directory of a file knows its names for good.
pub(crate) fn sync_dir_of(path: &Path) -> Result<(), Error> {
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

#[cfg(test)]
mod tests {
    use std::fs;

    use brisk_testkit::{Refusal, apart, refuse};

    use super::*;

    fn names(dir: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    /// The caller of a failed publish continues without the file, which must not come back.
    #[test]
    fn a_file_whose_directory_cannot_be_written_is_gone() {
        for kinds in [
            &[][..],
            &[Refusal::TemporaryFiles],
            &[Refusal::TemporaryFiles, Refusal::RenameFlags],
        ] {
            apart(|| {
                let dir = tempfile::tempdir().unwrap();
                refuse(kinds);
                let durable = Durable::create(&dir.path().join("a.brisk")).unwrap();
                let content = durable.file.try_clone().unwrap();
                content.set_len(4096).unwrap();
                refuse(&[Refusal::sync_of(&durable.dir)]);
                let error = durable.publish(false).unwrap_err();
                assert!(matches!(error, Error::Io { .. }), "{error}");
                assert_eq!(names(dir.path()), [""; 0], "{kinds:?}");
                // After a crash the name may be there, and then with nothing behind it.
                assert_eq!(content.metadata().unwrap().len(), 0, "{kinds:?}");
            });
        }
    }

    #[test]
    fn a_file_in_a_directory_that_is_away_is_gone() {
        for kinds in [&[][..], &[Refusal::TemporaryFiles]] {
            apart(|| {
                let dir = tempfile::tempdir().unwrap();
                let (there, away) = (dir.path().join("there"), dir.path().join("away"));
                fs::create_dir(&there).unwrap();
                refuse(kinds);
                let durable = Durable::create(&there.join("a.brisk")).unwrap();
                // As a file system that is unmounted lazily.
                fs::rename(&there, &away).unwrap();
                fs::create_dir(&there).unwrap();
                let error = durable.publish(false).unwrap_err();
                assert!(matches!(error, Error::Hidden { .. }), "{error}");
                assert_eq!([names(&there), names(&away)], [[""; 0]; 2], "{kinds:?}");
            });
        }
    }

    #[test]
    fn a_name_that_is_taken_stays_where_a_rename_has_no_flags() {
        apart(|| {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.brisk");
            fs::write(&path, "another").unwrap();
            refuse(&[Refusal::TemporaryFiles, Refusal::RenameFlags]);
            let error = Durable::create(&path).unwrap().publish(false).unwrap_err();
            assert!(matches!(error, Error::Exists { .. }), "{error}");
            assert_eq!(fs::read(&path).unwrap(), b"another");
            assert_eq!(names(dir.path()), ["a.brisk"]);
            Durable::create(&path).unwrap().publish(true).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"");
        });
    }
}

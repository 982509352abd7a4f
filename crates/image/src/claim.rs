//! Claims: an image is resumed once.
//!
//! The file's name says how far its resume is:
//!
//! | Name | State | After a crash |
//! |---|---|---|
//! | `db1.brisk` | ready | can be resumed |
//! | `db1.brisk.resuming` | claimed; the guest has not run an instruction | can be resumed |
//! | `db1.brisk.resumed` | the guest may have run | refused: its disks may have changed |
//! | none | the guest has all of its memory | |
//!
//! Each step is one rename(2) and an fsync(2) of the directory, so a crash leaves the state before
//! or the one after. If QEMU refuses to let the guest run, it has not run, and the last step is
//! undone ([`Claim::undo`]). Before the guest's first instruction the name must be `.resumed`,
//! durably; so no crash can make the guest run twice. The file is removed only when the guest does
//! not need it any more; so no crash can lose the image while the guest has not run. The process
//! with the claim has a lock on the open file (`F_OFD_SETLK` of fcntl(2)), which ends with the
//! process: no other process can claim the image meanwhile, and a claim that was left behind can be
//! taken over. The state can be read without a lock, so that reading it never makes a claim fail.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use brisk_sys::{Sharing, is_taken, try_lock};
use rustix::fs::CWD;
use rustix::io::Errno;

use crate::durable::sync_dir_of;
use crate::error::{Error, io_error};
use crate::naming::{check_name, rename_new};
use crate::read::reader::open_unknown;

const RESUMING: &str = ".resuming";
const RESUMED: &str = ".resumed";

/// Progress of an image's resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// No process has claimed it.
    Ready,
    /// Claimed; no guest has run from it.
    Resuming {
        /// Whether a process holds the claim.
        held: bool,
    },
    /// A guest may have run from it.
    Resumed {
        /// Whether the process that resumed it still reads from it.
        held: bool,
    },
    /// There is no such image.
    Absent,
}

/// The right to resume an image, held by this process alone.
#[derive(Debug)]
pub struct Claim {
    file: File,
    image: PathBuf,
    now: PathBuf,
    /// The image's name if no guest runs from it.
    back: PathBuf,
    started: bool,
}

/// A shared lock on an image: no process can claim it meanwhile, and no guest has run from it. Any
/// number of processes can have one.
#[derive(Debug)]
pub struct Hold {
    file: File,
    now: PathBuf,
}

/// Progress of an image's resume. `image` is the usual name.
///
/// # Errors
/// If its directory cannot be read.
pub fn state(image: &Path) -> Result<State, Error> {
    match glance(image)? {
        // It may have been given back while the names were gone through.
        State::Absent => glance(image),
        state => Ok(state),
    }
}

fn glance(image: &Path) -> Result<State, Error> {
    if image.symlink_metadata().is_ok() {
        return Ok(State::Ready);
    }
    if let Some(held) = held(&with(image, RESUMING))? {
        return Ok(State::Resuming { held });
    }
    Ok(match resumed(image)? {
        Some(held) => State::Resumed { held },
        None => State::Absent,
    })
}

/// Whether a process still reads from an image that a guest may have run from; `None` if there is
/// no such image. `image` is the usual name, which may be that of a newer image now.
///
/// # Errors
/// If the image cannot be read.
pub fn resumed(image: &Path) -> Result<Option<bool>, Error> {
    held(&with(image, RESUMED))
}

fn held(path: &Path) -> Result<Option<bool>, Error> {
    match open_unknown(path) {
        Ok(file) => is_taken(&file).map(Some).map_err(io_error("lock", path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("read", path)(error)),
    }
}

/// Path of an image that no guest has run from. `image` is the usual name.
#[must_use]
pub fn resumable(image: &Path) -> Option<PathBuf> {
    let names = [image.to_owned(), with(image, RESUMING)];
    names
        .into_iter()
        .find(|name| name.symlink_metadata().is_ok())
}

/// Path of an image that a guest may have run from. `image` is the usual name.
#[must_use]
pub fn resumed_name(image: &Path) -> PathBuf {
    with(image, RESUMED)
}

/// Removes the image of a VM that has ended, if a process was killed that would have removed it
/// when the guest had all of its memory. An image that a process still reads from is kept.
///
/// # Errors
/// If the image cannot be opened or removed.
pub fn remove_resumed(image: &Path) -> Result<(), Error> {
    let resumed = with(image, RESUMED);
    match lock(&resumed) {
        Ok(_held) => fs::remove_file(&resumed).map_err(io_error("remove", &resumed)),
        Err(Error::InUse { .. }) => Ok(()),
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

impl Hold {
    /// Takes a shared lock on the image whose usual name is `image`. It ends with the process.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process resumes from the image, [`Error::Resumed`] if a guest
    /// has run from it, or if it cannot be opened.
    pub fn take(image: &Path) -> Result<Self, Error> {
        let (file, now) = first(image, Sharing::Shared)?;
        Ok(Self { file, now })
    }

    /// The image, for [`Image::from_file`](super::Image::from_file).
    ///
    /// # Errors
    /// If no more files can be open.
    pub fn file(&self) -> Result<File, Error> {
        self.file.try_clone().map_err(io_error("open", &self.now))
    }

    /// Path of the image.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.now
    }
}

/// Opens and locks the image that no guest has run from, under the name that it has now.
fn first(image: &Path, how: Sharing) -> Result<(File, PathBuf), Error> {
    let absent = |error: &Error| matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound);
    for name in [image.to_owned(), with(image, RESUMING)] {
        match lock_as(&name, how) {
            Err(error) if absent(&error) => {}
            result => return Ok((result?, name)),
        }
    }
    let resumed = with(image, RESUMED);
    Err(match resumed.symlink_metadata() {
        Ok(_) => Error::Resumed { path: resumed },
        Err(_) => io_error("read", image)(io::Error::from(io::ErrorKind::NotFound)),
    })
}

impl Claim {
    /// Claims the image whose usual name is `image`. A claim that a process left behind before its
    /// guest ran is taken over.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process has the claim, [`Error::Resumed`] if a guest has run
    /// from the image, or if it cannot be renamed.
    pub fn take(image: &Path) -> Result<Self, Error> {
        let resuming = with(image, RESUMING);
        let (file, name) = first(image, Sharing::Exclusive)?;
        if name == image {
            rename(image, &resuming).map_err(|error| match error {
                Error::Exists { path } => Error::InTheWay { path },
                error => error,
            })?;
        }
        Ok(Self {
            file,
            image: image.to_owned(),
            now: resuming,
            back: image.to_owned(),
            started: false,
        })
    }

    /// Claims an image that a guest may have run from. The caller has to know that the disks are as
    /// they were at the suspend. `image` is the usual name.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process reads from the image, or if it cannot be opened.
    pub fn take_again(image: &Path) -> Result<Self, Error> {
        let resumed = with(image, RESUMED);
        Ok(Self {
            file: lock(&resumed)?,
            image: image.to_owned(),
            now: resumed.clone(),
            back: resumed,
            started: false,
        })
    }

    /// Waits for the end of the process that reads from the image, and takes over its claim; `None`
    /// if the guest has all of its memory.
    ///
    /// # Errors
    /// If the image cannot be opened.
    pub fn inherit(image: &Path) -> Result<Option<Self>, Error> {
        let resumed = with(image, RESUMED);
        let failed = || io_error("read", &resumed);
        let file = match open(&resumed, Sharing::Exclusive) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed())?,
        };
        brisk_sys::lock(&file, Sharing::Exclusive).map_err(io_error("lock", &resumed))?;
        // Its holder may have removed or renamed it when it was done.
        let ours = file.metadata().map_err(failed())?;
        let named = match fs::metadata(&resumed) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed())?,
        };
        let same = (ours.dev(), ours.ino()) == (named.dev(), named.ino());
        Ok(same.then(|| Self {
            file,
            image: image.to_owned(),
            now: resumed.clone(),
            back: image.to_owned(),
            started: true,
        }))
    }

    /// The image, for [`Image::from_file`](super::Image::from_file).
    ///
    /// # Errors
    /// If no more files can be open.
    pub fn file(&self) -> Result<File, Error> {
        self.file.try_clone().map_err(io_error("open", &self.now))
    }

    /// Present path of the image.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.now
    }

    /// Usual path of the image.
    #[must_use]
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Records durably that the guest may run: from here on no process can resume the image again.
    /// Call this before the guest's first instruction, and wait until it returns.
    ///
    /// # Errors
    /// If that cannot be made durable, or another image that was resumed has that name. The guest
    /// must not run then.
    pub fn start(&mut self) -> Result<(), Error> {
        let resumed = with(&self.image, RESUMED);
        if self.now != resumed {
            // Another one there may be another VM's.
            rename_new(CWD, &*self.now, &*resumed)
                .map_err(|errno| refused(errno, &self.now, &resumed))?;
            self.now = resumed;
        }
        // If that fails, the guest does not run, and the claim goes back as it came.
        sync_dir_of(&self.image)?;
        self.started = true;
        Ok(())
    }

    /// Undoes [`Self::start`], because QEMU has refused to run the guest. The image can be released
    /// then.
    pub fn undo(&mut self) {
        self.started = false;
    }

    /// Removes the image: the guest has all of its memory, and no other image is based on this one.
    ///
    /// # Errors
    /// If the image cannot be removed; it will not be resumed again all the same.
    pub fn finish(mut self) -> Result<(), Error> {
        if !self.started {
            return Err(Error::invalid("a claim is finished before its guest ran"));
        }
        fs::remove_file(&self.now).map_err(io_error("remove", &self.now))?;
        self.now = PathBuf::new();
        sync_dir_of(&self.image)
    }

    /// Ends the claim as [`Self::finish`] does, but keeps the image under the name `base`, which no
    /// file may have: the next image will be based on it.
    ///
    /// # Errors
    /// If there is such a file already, or the image cannot be renamed.
    pub fn keep(mut self, base: &Path) -> Result<(), Error> {
        if !self.started {
            return Err(Error::invalid("a claim is finished before its guest ran"));
        }
        rename(&self.now, base)?;
        self.now = base.to_owned();
        Ok(())
    }

    /// Gives the image its usual name back. The guest has not run.
    ///
    /// # Errors
    /// If the guest may have run, or the file cannot be renamed, in which case the image can still
    /// be claimed.
    pub fn release(mut self) -> Result<(), Error> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<(), Error> {
        if self.started {
            return Err(Error::Resumed {
                path: self.now.clone(),
            });
        }
        if self.now != self.back {
            rename(&self.now, &self.back)?;
            self.now.clone_from(&self.back);
        }
        self.started = true;
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.started {
            let _ = self.put_back();
        }
    }
}

/// Opens and locks the file that has this name now, for this process alone.
pub(crate) fn lock(path: &Path) -> Result<File, Error> {
    lock_as(path, Sharing::Exclusive)
}

fn lock_as(path: &Path, how: Sharing) -> Result<File, Error> {
    let failed = || io_error("read", path);
    let file = open(path, how).map_err(failed())?;
    if !try_lock(&file, how).map_err(io_error("lock", path))? {
        return Err(Error::InUse {
            path: path.to_owned(),
        });
    }
    // Its holder may have renamed or removed it before it let go of it.
    check_name(&file, path)?;
    Ok(file)
}

/// Opens a file for a lock: for writing only if the lock is exclusive.
fn open(path: &Path, how: Sharing) -> io::Result<File> {
    let alone = how == Sharing::Exclusive;
    match alone {
        true => File::options().read(true).write(true).open(path),
        false => open_unknown(path),
    }
}

/// Renames durably to a name that no file has.
fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    rename_new(CWD, from, to).map_err(|errno| refused(errno, from, to))?;
    sync_dir_of(to)
}

fn refused(errno: Errno, from: &Path, to: &Path) -> Error {
    match errno {
        Errno::EXIST => Error::Exists {
            path: to.to_owned(),
        },
        _ => io_error("rename", from)(errno),
    }
}

fn with(image: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(image);
    name.push(suffix);
    name.into()
}

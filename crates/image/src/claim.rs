//! An image is resumed once.
//!
//! Its name says how far that is:
//!
//! | Name | State | After a crash |
//! |---|---|---|
//! | `db1.brisk` | ready | can be resumed |
//! | `db1.brisk.resuming` | claimed; the guest has not run an instruction | can be resumed |
//! | `db1.brisk.resumed` | the guest may have run | refused: its disks may have changed |
//! | none | the guest has all of its memory | |
//!
//! Each step is one rename(2) and an fsync(2) of the directory, so a crash leaves the state
//! before or the one after. If QEMU refuses to let the guest run, it has not run, and the last
//! step is undone ([`Claim::undo`]). Before the guest's first instruction the name must be `.resumed`,
//! durably; so no crash can make it run twice. The file is removed only when the guest does not
//! need it any more; so no crash can lose it while it has not run. Who holds a claim holds a lock
//! on the open file (`F_OFD_SETLK` of fcntl(2)), which ends with the process: nobody else can
//! claim it meanwhile, and a claim that was left behind can be taken over. Whether there is one
//! can be asked without a lock, so that to ask never makes a claim fail.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use brisk_sys::{Sharing, is_taken, try_lock};
use rustix::fs::CWD;
use rustix::io::Errno;

use super::durable::sync_dir_of;
use super::error::{Error, io_error};
use super::naming::rename_new;
use super::reader::open_unknown;

const RESUMING: &str = ".resuming";
const RESUMED: &str = ".resumed";

/// How far the resume of an image is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nobody has claimed it.
    Ready,
    /// Claimed, and no guest has run from it; `held` if the one who claimed it lives.
    Resuming {
        /// Whether a process holds the claim.
        held: bool,
    },
    /// A guest may have run from it; `held` if the one who resumed it still reads from it.
    Resumed {
        /// Whether a process holds the claim.
        held: bool,
    },
    /// There is nothing of it.
    Absent,
}

/// The right to resume an image, held by this process alone.
#[derive(Debug)]
pub struct Claim {
    file: File,
    image: PathBuf,
    now: PathBuf,
    /// Its name if no guest runs from it.
    back: PathBuf,
    started: bool,
}

/// Keeps an image as it is while something is read from it: nobody can claim it meanwhile, and no
/// guest has run from it. Any number of processes can do so at once.
#[derive(Debug)]
pub struct Hold {
    file: File,
    now: PathBuf,
}

/// How far the resume of an image is, by its usual name.
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

/// Whether a process holds the claim on an image that a guest may have run from, by its usual
/// name, whatever has that name now; none if there is no such image.
///
/// # Errors
/// If it cannot be read.
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

/// Where an image is that no guest has run from, by its usual name.
#[must_use]
pub fn resumable(image: &Path) -> Option<PathBuf> {
    let names = [image.to_owned(), with(image, RESUMING)];
    names
        .into_iter()
        .find(|name| name.symlink_metadata().is_ok())
}

/// The name of an image that a guest may have run from, by its usual name.
#[must_use]
pub fn resumed_name(image: &Path) -> PathBuf {
    with(image, RESUMED)
}

/// Removes the image of a machine that has ended, if a process was killed that would have removed
/// it once the guest had all of its memory. One that somebody still reads from stays.
///
/// # Errors
/// If it cannot be opened or removed.
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
    /// Holds an image by its usual name. When the process ends, it holds it no more.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process resumes from it, [`Error::Resumed`] if a guest has run
    /// from it, or if it cannot be opened.
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

    /// Where the image is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.now
    }
}

/// The image under that of its names which says that no guest has run from it, locked.
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
    /// Claims an image by its usual name. A claim that a process left behind before its guest
    /// ran is taken over.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process holds it, [`Error::Resumed`] if a guest has run from
    /// it, or if it cannot be renamed.
    pub fn take(image: &Path) -> Result<Self, Error> {
        let resuming = with(image, RESUMING);
        let (file, name) = first(image, Sharing::Exclusive)?;
        if name == image {
            rename(image, &resuming)?;
        }
        Ok(Self {
            file,
            image: image.to_owned(),
            now: resuming,
            back: image.to_owned(),
            started: false,
        })
    }

    /// Claims an image that a guest may have run from, by its usual name. The caller has to know
    /// that the disks are as they were when it was written.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process reads from it, or if it cannot be opened.
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

    /// Takes over from a process that was ended while its guest still read from the image, and
    /// waits as long as that lives; none if the guest has all of its memory.
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

    /// Where the image is now.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.now
    }

    /// Its usual name.
    #[must_use]
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// The guest is about to run: from here on nobody can resume the image again. Call this,
    /// and wait for it, before the guest's first instruction.
    ///
    /// # Errors
    /// If that cannot be made durable, or another image that was resumed has that name; the guest
    /// must not run then.
    pub fn start(&mut self) -> Result<(), Error> {
        let resumed = with(&self.image, RESUMED);
        if self.now != resumed {
            // Another one there may be another machine's.
            rename_new(CWD, &*self.now, &*resumed)
                .map_err(|errno| refused(errno, &self.now, &resumed))?;
            self.now = resumed;
        }
        // If that fails, the guest does not run, and the claim goes back as it came.
        sync_dir_of(&self.image)?;
        self.started = true;
        Ok(())
    }

    /// The guest has certainly not run after [`Self::start`]: QEMU has refused to let it. The image
    /// can be given back.
    pub fn undo(&mut self) {
        self.started = false;
    }

    /// The guest has all of its memory, and no other image is based on this one: it is removed.
    ///
    /// # Errors
    /// If it cannot be removed; it will not be resumed again all the same.
    pub fn finish(mut self) -> Result<(), Error> {
        if !self.started {
            return Err(Error::invalid("a claim is finished before its guest ran"));
        }
        fs::remove_file(&self.now).map_err(io_error("remove", &self.now))?;
        self.now = PathBuf::new();
        sync_dir_of(&self.image)
    }

    /// As [`Self::finish`], but the image is kept under another name, which is not taken: the
    /// next one will be based on it.
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

    /// Gives the image back under its usual name. The guest has not run.
    ///
    /// # Errors
    /// If the guest may have run, or the file cannot be renamed. It can be claimed even so.
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
pub(super) fn lock(path: &Path) -> Result<File, Error> {
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
    let ours = file.metadata().map_err(failed())?;
    let named = fs::metadata(path).map_err(failed())?;
    if (ours.dev(), ours.ino()) != (named.dev(), named.ino()) {
        return Err(Error::InUse {
            path: path.to_owned(),
        });
    }
    Ok(file)
}

/// A file can be locked for one process alone only where it is open for writing.
fn open(path: &Path, how: Sharing) -> io::Result<File> {
    let alone = how == Sharing::Exclusive;
    match alone {
        true => File::options().read(true).write(true).open(path),
        false => open_unknown(path),
    }
}

/// Renames durably to a name that is not taken.
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

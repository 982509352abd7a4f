//! Names of open files: whether one still has its name, and renaming to a name that is not taken,
//! also on file systems without `RENAME_NOREPLACE`.
//!
//! NFS, 9p and some FUSE file systems refuse renameat2(2) with flags (`EINVAL`). There, but for FUSE,
//! the new name is made with link(2), which fails where it is taken, and the old one is removed. A crash
//! between both leaves one file with two names; the next call with these names removes the old one.

use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, fstatfs, linkat, openat, renameat, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::error::{Error, io_error};

/// Checks that an open file still has this name.
///
/// # Errors
/// [`Error::InUse`] if another one has it.
pub(crate) fn check_name(file: &File, path: &Path) -> Result<(), Error> {
    let failed = || io_error("read", path);
    let ours = file.metadata().map_err(failed())?;
    let named = fs::metadata(path).map_err(failed())?;
    match (ours.dev(), ours.ino()) == (named.dev(), named.ino()) {
        true => Ok(()),
        false => Err(Error::InUse {
            path: path.to_owned(),
        }),
    }
}

/// Renames a file in one directory to a name that must not be taken.
///
/// # Errors
/// `EEXIST` if another file has that name.
pub(crate) fn rename_new<P: Arg + Copy>(dir: impl AsFd, from: P, to: P) -> Result<(), Errno> {
    let dir = dir.as_fd();
    match renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) if is_same(dir, from, to) => unlinkat(dir, from, AtFlags::empty()),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => link_new(dir, from, to),
        other => other,
    }
}

fn link_new<P: Arg + Copy>(dir: impl AsFd, from: P, to: P) -> Result<(), Errno> {
    let dir = dir.as_fd();
    if is_on_fuse(dir, from) {
        return rename_if_free(dir, from, to);
    }
    match linkat(dir, from, dir, to, AtFlags::empty()) {
        Ok(()) => unlinkat(dir, from, AtFlags::empty()).inspect_err(|_| {
            let _ = unlinkat(dir, to, AtFlags::empty());
        }),
        Err(Errno::EXIST) if is_same(dir, from, to) => unlinkat(dir, from, AtFlags::empty()),
        // No hard links either.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
            rename_if_free(dir, from, to)
        }
        Err(errno) => Err(errno),
    }
}

/// Renames to a name that no file has now. Whoever writes here holds the VM's lock.
fn rename_if_free<P: Arg + Copy>(dir: BorrowedFd<'_>, from: P, to: P) -> Result<(), Errno> {
    match statat(dir, to, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Err(Errno::EXIST),
        Err(Errno::NOENT) => renameat(dir, from, dir, to),
        Err(errno) => Err(errno),
    }
}

/// Whether a file is in a FUSE file system. Some of them, such as sshfs, number names and not files: a
/// link would be another file, and the lock on the open one would not be the new name's.
fn is_on_fuse<P: Arg>(dir: BorrowedFd<'_>, path: P) -> bool {
    /// `FUSE_SUPER_MAGIC` of linux/magic.h.
    const MAGIC: u32 = 0x6573_5546;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat(dir, path, flags, Mode::empty()).and_then(fstatfs);
    found.is_ok_and(|stat| stat.f_type as u32 == MAGIC)
}

/// Most symbolic links that are followed (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// The path that a file has if `path` names a symbolic link to it, whether the file is there or not:
/// the names of an image's resume are beside the file, and a link must not be renamed in its place.
/// A circle of links is returned as it is.
#[must_use]
pub fn real_path(path: PathBuf) -> PathBuf {
    let mut real = path.clone();
    for _ in 0..MOST_LINKS {
        let Ok(target) = fs::read_link(&real) else {
            return real;
        };
        real = match real.parent() {
            Some(directory) => directory.join(target),
            None => Path::new("/").join(target),
        };
    }
    path
}

/// Whether two different names are names of one file.
fn is_same<P: Arg + Copy>(dir: impl AsFd, one: P, other: P) -> bool {
    let file = |name| statat(dir.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let ids = |name| file(name).map(|stat| (stat.st_dev, stat.st_ino));
    ids(one).is_some_and(|id| ids(other) == Some(id))
}

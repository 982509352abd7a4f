//! Locks of open files, which end with the last descriptor of an opening.
#![expect(
    unsafe_code,
    reason = "rustix has only the locks that belong to a process"
)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::checked;

/// Modes of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Others may share the lock. The file must be open for reading.
    Shared,
    /// No other lock is possible. The file must be open for writing.
    Exclusive,
}

/// Locks a file if no other lock is in the way (`F_OFD_SETLK` of fcntl(2)); whether it did.
/// Descriptors that were duplicated from this one, also in other processes, have this lock, too.
///
/// # Errors
/// If the file system knows no locks, or the file is not open for that mode.
pub fn try_lock(file: &File, sharing: Sharing) -> io::Result<bool> {
    try_to(file, whole(sharing))
}

/// Locks one byte of a file, as [`try_lock`] does a whole one. The byte may be beyond the file's
/// end.
///
/// # Errors
/// As of [`try_lock`].
pub fn try_lock_byte(file: &File, offset: u64, sharing: Sharing) -> io::Result<bool> {
    try_to(file, byte(sharing, offset))
}

fn try_to(file: &File, mut what: libc::flock) -> io::Result<bool> {
    match fcntl(file, libc::F_OFD_SETLK, &mut what) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        // The other answer that the manual names.
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Locks a file as [`try_lock`] does, and waits until no other lock is in the way (`F_OFD_SETLKW`).
///
/// # Errors
/// As of [`try_lock`].
pub fn lock(file: &File, sharing: Sharing) -> io::Result<()> {
    loop {
        match fcntl(file, libc::F_OFD_SETLKW, &mut whole(sharing)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Whether another opening has an exclusive lock on the file (`F_OFD_GETLK`). The query takes no
/// lock.
///
/// # Errors
/// If the file system knows no locks.
pub fn is_taken(file: &File) -> io::Result<bool> {
    let mut what = whole(Sharing::Shared);
    fcntl(file, libc::F_OFD_GETLK, &mut what)?;
    Ok(i32::from(what.l_type) != libc::F_UNLCK)
}

/// Whether another opening has a lock of any kind on one byte of a file (`F_OFD_GETLK`). The file
/// must be open for reading.
///
/// # Errors
/// As of [`is_taken`].
pub fn is_byte_taken(file: &File, offset: u64) -> io::Result<bool> {
    let mut what = byte(Sharing::Exclusive, offset);
    fcntl(file, libc::F_OFD_GETLK, &mut what)?;
    Ok(i32::from(what.l_type) != libc::F_UNLCK)
}

fn byte(sharing: Sharing, offset: u64) -> libc::flock {
    libc::flock {
        l_start: offset as libc::off_t,
        l_len: 1,
        ..whole(sharing)
    }
}

/// Range of a lock on all of a file, however long it becomes.
fn whole(sharing: Sharing) -> libc::flock {
    let kind = match sharing {
        Sharing::Shared => libc::F_RDLCK,
        Sharing::Exclusive => libc::F_WRLCK,
    };
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

fn fcntl(file: &File, command: libc::c_int, what: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the structure is valid and outlives the call.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(what)) })
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    /// Two openings of a file, which have nothing to do with each other.
    fn twice() -> (File, File) {
        let file = File::from(memfd_create("locks", MemfdFlags::CLOEXEC).unwrap());
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let other = File::options().read(true).write(true).open(path).unwrap();
        (file, other)
    }

    #[test]
    fn one_alone_or_many_together() {
        let (one, other) = twice();
        assert!(try_lock(&one, Sharing::Shared).unwrap());
        assert!(!try_lock(&other, Sharing::Exclusive).unwrap());
        assert!(try_lock(&other, Sharing::Shared).unwrap());
        assert!(!is_taken(&other).unwrap());
        drop(other);
        assert!(try_lock(&one, Sharing::Exclusive).unwrap());
    }

    #[test]
    fn bytes_are_locked_each_for_itself() {
        let (one, other) = twice();
        assert!(try_lock_byte(&one, 201, Sharing::Shared).unwrap());
        assert!(
            try_lock_byte(&other, 201, Sharing::Shared).unwrap(),
            "it is shared"
        );
        assert!(is_byte_taken(&other, 201).unwrap());
        assert!(!is_byte_taken(&other, 200).unwrap());
        assert!(!try_lock(&other, Sharing::Exclusive).unwrap());
        drop(one);
        assert!(!is_byte_taken(&other, 201).unwrap());
    }

    #[test]
    fn a_byte_is_in_the_way_of_that_byte_only() {
        let (one, other) = twice();
        let alone = |file, offset| try_lock_byte(file, offset, Sharing::Exclusive);
        assert!(alone(&one, u64::from(u32::MAX)).unwrap());
        assert!(!alone(&other, u64::from(u32::MAX)).unwrap());
        assert!(alone(&other, 0).unwrap());
        assert!(!try_lock(&one, Sharing::Exclusive).unwrap());
    }

    #[test]
    fn to_ask_changes_nothing_and_the_last_descriptor_counts() {
        let (one, other) = twice();
        assert!(!is_taken(&other).unwrap());
        lock(&one, Sharing::Exclusive).unwrap();
        assert!(is_taken(&other).unwrap());
        assert!(!is_taken(&one).unwrap(), "its own is in nobody's way");
        let copy = one.try_clone().unwrap();
        drop(one);
        assert!(is_taken(&other).unwrap());
        drop(copy);
        assert!(!is_taken(&other).unwrap());
        assert!(try_lock(&other, Sharing::Exclusive).unwrap());
    }
}

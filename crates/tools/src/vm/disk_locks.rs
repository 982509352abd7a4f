//! Locks on the disks of a VM that is being suspended.
//!
//! QEMU releases its locks when it has written the device state, and the VM is in its image only
//! seconds later. Until then another guest, or `qemu-img`, could take a disk and write to it. So
//! this process takes the lock that QEMU looks for: its byte for "not shared for writing".

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use brisk_sys::{Sharing, is_byte_taken, try_lock_byte};
use brisk_vm::qemu::Disk;

use super::error::Error;

/// The byte that QEMU locks where it writes: `RAW_LOCK_PERM_BASE` and the bit of `BLK_PERM_WRITE`
/// (QEMU's block/file-posix.c).
const WRITES: u64 = 101;
/// The byte that QEMU locks where nobody else may write: `RAW_LOCK_SHARED_BASE` and that bit.
const NO_OTHER_WRITES: u64 = 201;

/// Locks on the disks that a VM writes to. No program that locks disks as QEMU does writes to them
/// while this lives.
pub(super) struct DiskLocks(Vec<(PathBuf, File)>);

impl DiskLocks {
    /// Locks the disks of a VM whose QEMU still has its own locks. Disks whose file system knows no
    /// locks are left out, as by QEMU.
    pub(super) fn take(disks: &[Disk]) -> Self {
        let written = disks.iter().filter(|disk| disk.writable);
        let locked = written.filter_map(|disk| {
            let file = File::open(&disk.path).ok()?;
            let taken = try_lock_byte(&file, NO_OTHER_WRITES, Sharing::Shared).unwrap_or(false);
            taken.then(|| (disk.path.clone(), file))
        });
        Self(locked.collect())
    }

    /// Checks, while QEMU has its locks, that no other process has locked a disk that QEMU writes to: it
    /// could not take it back if the guest is to go on.
    ///
    /// # Errors
    /// The disk.
    pub(super) fn check_others(name: &str, disks: &[Disk]) -> Result<(), Error> {
        let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
        let is_shared = |disk: &&Disk| {
            let meta = fs::metadata(&disk.path);
            meta.is_ok_and(|meta| locks_of(&locks, meta.dev(), meta.ino()) > 1)
        };
        match disks.iter().filter(|disk| disk.writable).find(is_shared) {
            None => Ok(()),
            Some(disk) => Err(Error::state(
                name,
                format!(
                    "cannot be suspended: another process has a lock on {}",
                    disk.path.display()
                ),
                "end that first, such as qemu-img; others cannot lock a disk that they may not read",
            )),
        }
    }

    /// Checks that no other process took a disk after QEMU had released its own locks.
    ///
    /// # Errors
    /// The disk that was taken.
    pub(super) fn check(&self, name: &str) -> Result<(), Error> {
        let taken = |(_, file): &&(PathBuf, File)| is_byte_taken(file, WRITES).unwrap_or(false);
        match self.0.iter().find(taken) {
            None => Ok(()),
            Some((path, _)) => Err(Error::state(
                name,
                format!(
                    "was not suspended: another process writes to {}",
                    path.display()
                ),
                "end that first",
            )),
        }
    }
}

/// Number of locks on the byte of who writes to a file, of the lines of `/proc/locks` (proc(5)).
fn locks_of(locks: &str, device: u64, inode: u64) -> usize {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    let is_one = |line: &&str| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let [.., found, first, last] = words[..] else {
            return false;
        };
        let has = first.parse().is_ok_and(|first: u64| first <= WRITES)
            && (last == "EOF" || last.parse().is_ok_and(|last: u64| last >= WRITES));
        found == file && has
    };
    locks.lines().filter(is_one).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_the_byte_of_writers_are_counted() {
        let locks = "\
            1: OFDLCK ADVISORY  READ  -1 fd:01:77 101 101\n\
            2: OFDLCK ADVISORY  READ  -1 fd:01:77 100 100\n\
            3: OFDLCK ADVISORY  READ  -1 fd:01:77 100 103\n\
            4: OFDLCK ADVISORY  READ  -1 fd:01:78 101 101\n\
            4: -> OFDLCK ADVISORY  WRITE -1 fd:01:77 0 EOF\n\
            5: FLOCK  ADVISORY  WRITE 17 fd:01:77\n";
        let device = rustix::fs::makedev(0xfd, 1);
        assert_eq!(locks_of(locks, device, 77), 3);
        assert_eq!(locks_of(locks, device, 78), 1);
        assert_eq!(locks_of(locks, device, 79), 0);
    }

    #[test]
    fn a_lock_of_another_process_is_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let disk = Disk {
            path: file.path().to_owned(),
            format: brisk_vm::qemu::DiskFormat::Raw,
            backing: Vec::new(),
            device: false,
            writable: true,
            sector_size: 512,
        };
        let check = || DiskLocks::check_others("a", std::slice::from_ref(&disk));
        let lock = || {
            let file = File::open(&disk.path).unwrap();
            assert!(try_lock_byte(&file, WRITES, Sharing::Shared).unwrap());
            file
        };
        let _qemu = lock();
        check().unwrap();
        let other = lock();
        assert!(check().is_err());
        drop(other);
        check().unwrap();
    }
}

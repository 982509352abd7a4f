//! Guest memory that is a file: shared with virtiofsd, or kept for a snapshot.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, SeekFrom, seek, sendfile};
use rustix::io::Errno;

use super::tmpfs::detached;
use crate::holes::each_stretch;

/// Memory of `bytes` that has a name in `/proc/self/fd` and nowhere else.
///
/// Of huge pages where that is allowed, which is to root: by default the kernel gives shared
/// memory in pages of 4 KiB, and taking and returning those costs a guest a tenth of a second.
pub(super) fn file(bytes: u64) -> io::Result<OwnedFd> {
    let file = empty(bytes)?;
    populate(file.try_clone()?, bytes);
    Ok(file)
}

/// A thread that fills memory.
pub(super) type Filling = JoinHandle<io::Result<()>>;

/// The same with what is in the first `bytes` of another file, which another thread copies while
/// QEMU starts.
pub(super) fn copy(from: OwnedFd, bytes: u64) -> io::Result<(OwnedFd, Filling)> {
    let file = empty(bytes)?;
    let to = file.try_clone()?;
    Ok((file, thread::spawn(move || copy_data(&from, &to, bytes))))
}

/// Copies what is not a hole.
fn copy_data(from: &OwnedFd, to: &OwnedFd, bytes: u64) -> io::Result<()> {
    each_stretch(from, bytes, |Range { start, end }| {
        seek(to, SeekFrom::Start(start))?;
        let mut at = start;
        while at < end {
            let left = usize::try_from(end - at).unwrap_or(usize::MAX);
            match sendfile(to, from, Some(&mut at), left) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    })
}

/// With huge pages if that can be.
fn empty(bytes: u64) -> io::Result<OwnedFd> {
    without_name(bytes, true)
}

/// Memory of `bytes` that has no name and goes with its last descriptor; of huge pages if they are
/// wanted and allowed.
///
/// # Errors
/// If the kernel has no memory for it.
pub fn without_name(bytes: u64, huge_pages: bool) -> io::Result<OwnedFd> {
    match huge_pages.then(|| huge(bytes)) {
        Some(Ok(file)) => Ok(file),
        _ => small(bytes),
    }
}

/// A file without a name in a file system of its own.
fn huge(bytes: u64) -> rustix::io::Result<OwnedFd> {
    let mount = detached(&[("huge", "always"), ("size", &bytes.to_string())])?;
    // For everyone, because QEMU opens it again as another user; only who has the descriptor can.
    let mode = Mode::from_raw_mode(0o666);
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(&mount, ".", flags, mode)?;
    rustix::fs::fchmod(&fd, mode)?;
    rustix::fs::ftruncate(&fd, bytes)?;
    Ok(fd)
}

fn small(bytes: u64) -> io::Result<OwnedFd> {
    let fd =
        rustix::fs::memfd_create("brisk-ram", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, bytes)?;
    // A guest whose memory shrinks under QEMU kills it.
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(fd)
}

/// What every boot touches, bytes from the start and how many: where a PVH kernel, its early data
/// and the first memory after it lie, and the memory of the firmware.
const START: [(u64, u64); 2] = [(16 << 20, 68 << 20), (0, 2 << 20)];

/// How much at the top holds the initramfs and what the kernel allocates first, bytes.
const TOP: u64 = 18 << 20;

/// How much is asked for at once, bytes.
const STEP: u64 = 4 << 20;

/// Has another thread allocate what every boot touches, while QEMU starts: one fault at a time
/// costs the guest more, and much more where the host is a guest itself that has given its free
/// memory back.
pub(super) fn populate(memory: OwnedFd, bytes: u64) {
    thread::spawn(move || {
        for (start, len) in START.into_iter().chain([(bytes.saturating_sub(TOP), TOP)]) {
            let end = bytes.min(start + len);
            for offset in (start..end).step_by(STEP as usize) {
                // It is a head start and no more: without it the guest takes the faults.
                let len = STEP.min(end - offset);
                let _ = brisk_sys::populate(&memory, offset, len as usize);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fd: &OwnedFd, bytes: u64) {
        let stat = rustix::fs::fstat(fd).expect("stat");
        assert_eq!(u64::try_from(stat.st_size), Ok(bytes));
        rustix::io::pwrite(fd, b"end", bytes - 3).expect("the last bytes can be written");
    }

    #[test]
    fn memory_is_all_there() {
        let bytes = 8 << 20;
        check(&file(bytes).expect("a file"), bytes);
        check(&small(bytes).expect("a memfd"), bytes);
    }

    #[test]
    fn a_copy_has_the_data_and_the_holes() {
        let bytes = 8 << 20;
        let from = small(bytes + 4096).expect("a memfd");
        for (offset, text) in [(0, "start"), (5 << 20, "middle"), (bytes, "behind")] {
            rustix::io::pwrite(&from, text.as_bytes(), offset).expect("can be written");
        }
        let (file, filling) = copy(from, bytes).expect("a copy");
        filling.join().expect("no panic").expect("all is copied");
        check(&file, bytes);
        let mut found = [0; 6];
        for (offset, text) in [(0, b"start\0"), (5 << 20, b"middle"), (3 << 20, &[0; 6])] {
            rustix::io::pread(&file, &mut found, offset).expect("can be read");
            assert_eq!(&found, text);
        }
        let small = rustix::fs::fstat(&file).expect("stat").st_blocks * 512;
        assert!(u64::try_from(small).expect("a size") < bytes, "{small}");
    }

    #[test]
    fn huge_pages_are_there_or_forbidden() {
        let bytes = 8 << 20;
        match huge(bytes) {
            Ok(fd) => check(&fd, bytes),
            Err(error) => assert_eq!(error, rustix::io::Errno::PERM),
        }
    }
}

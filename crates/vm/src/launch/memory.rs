//! Guest memory that is a file: shared with virtiofsd, or kept for a snapshot.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};

use super::tmpfs::detached;

/// Memory of `bytes` that has a name in `/proc/self/fd` and nowhere else.
///
/// Of huge pages where that is allowed, which is to root: by default the kernel gives shared
/// memory in pages of 4 KiB, and taking and returning those costs a guest a tenth of a second.
pub(super) fn file(bytes: u64) -> io::Result<OwnedFd> {
    let file = match huge(bytes) {
        Ok(file) => file,
        Err(_) => small(bytes)?,
    };
    populate(file.try_clone()?, bytes);
    Ok(file)
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
fn populate(memory: OwnedFd, bytes: u64) {
    std::thread::spawn(move || {
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
    fn huge_pages_are_there_or_forbidden() {
        let bytes = 8 << 20;
        match huge(bytes) {
            Ok(fd) => check(&fd, bytes),
            Err(error) => assert_eq!(error, rustix::io::Errno::PERM),
        }
    }
}

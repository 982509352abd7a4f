//! Guest memory in a file: shared with virtiofsd, or kept as a template.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, SeekFrom, seek, sendfile};
use rustix::io::Errno;

use super::tmpfs::detached;
use crate::holes::each_stretch;

/// Guest memory of `bytes`, whose only name is in `/proc/self/fd`.
///
/// It has huge pages where that is allowed, as it is to root: by default the kernel gives shared
/// memory in pages of 4 KiB, and allocating and returning those costs a guest a tenth of a second.
pub(super) fn file(bytes: u64) -> io::Result<OwnedFd> {
    let file = without_name(bytes, true)?;
    populate(file.try_clone()?, bytes);
    Ok(file)
}

/// A thread that fills memory.
pub(super) type Filling = JoinHandle<io::Result<()>>;

/// Guest memory with the first `bytes` of another file, which another thread copies while QEMU
/// starts; of huge pages if they are wanted and allowed.
pub(super) fn copy(from: OwnedFd, bytes: u64, huge_pages: bool) -> io::Result<(OwnedFd, Filling)> {
    let file = without_name(bytes, huge_pages)?;
    let to = file.try_clone()?;
    Ok((file, thread::spawn(move || copy_data(&from, &to, bytes))))
}

/// Copies data, and leaves holes.
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

/// Memory of `bytes` that has no name and is freed with its last descriptor; of huge pages if they
/// are wanted and allowed.
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
    let mode = Mode::from_raw_mode(0o600);
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(&mount, ".", flags, mode)?;
    rustix::fs::ftruncate(&fd, bytes)?;
    Ok(fd)
}

fn small(bytes: u64) -> io::Result<OwnedFd> {
    let fd =
        rustix::fs::memfd_create("brisk-ram", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    // They are made with all rights for all.
    rustix::fs::fchmod(&fd, Mode::from_raw_mode(0o600))?;
    rustix::fs::ftruncate(&fd, bytes)?;
    // A guest whose memory shrinks under QEMU kills it.
    rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(fd)
}

/// Whether memory of [`without_name`] may have huge pages: for root, where mounts are allowed.
#[must_use]
pub fn has_huge_pages() -> bool {
    huge(u64::from(STEP) << 20).is_ok()
}

/// Range of a PVH kernel, MiB.
const KERNEL: Range<u32> = 16..56;
/// Range of the firmware, MiB.
const FIRMWARE: Range<u32> = 0..2;
/// Memory at the top for the initramfs and the kernel's first allocations, MiB.
const TOP: u32 = 18;
/// Range of the kernel's later allocations, MiB.
const AFTER: Range<u32> = 56..84;

/// Memory that QEMU takes for itself while a guest boots, with some reserve, MiB.
const OWN: u32 = 80;
/// Memory that QEMU takes for a guest that is restored from a template and does little, MiB.
const OWN_WARM: u32 = 24;

/// Number of quick allocations after which no more slow ones are expected.
const ENOUGH: u32 = 3;

/// Size of one allocation, MiB: a huge page.
const STEP: u32 = 2;

/// Time from which on an allocation counts as slow: the outer host had to find the memory. 0.3 ms
/// are usual, and 5 ms where the outer host has to find the memory first.
const SLOW: Duration = Duration::from_micros(1200);

/// Has another thread allocate the memory that every boot touches, while QEMU starts. Single page
/// faults cost the guest more, and much more in nested virtualisation where free memory was given
/// back to the outer host. There the thread also allocates memory for QEMU itself.
///
/// It only saves time: without it the guest takes the faults.
pub(super) fn populate(memory: OwnedFd, bytes: u64) {
    let top = u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
    thread::spawn(move || {
        let started = Instant::now();
        let pages = pages(top);
        let done = |start: &&u32| allocate(&memory, **start).is_ok();
        let number = pages.iter().take_while(done).count();
        if started.elapsed() > SLOW * number as u32 {
            find(OWN);
        }
    });
}

/// Has another thread allocate memory for a QEMU whose guest is restored from a template.
pub(super) fn head_start() {
    thread::spawn(|| find(OWN_WARM));
}

/// Allocates huge pages, up to this many MiB or until allocations are quick, and frees them: QEMU
/// gets the pages that were freed last.
fn find(most: u32) {
    let Ok(file) = huge(u64::from(most) << 20) else {
        return;
    };
    let mut quick = 0;
    for start in (0..most).step_by(STEP as usize) {
        let started = Instant::now();
        if allocate(&file, start).is_err() {
            return;
        }
        quick = if started.elapsed() > SLOW {
            0
        } else {
            quick + 1
        };
        if quick == ENOUGH {
            return;
        }
    }
}

/// Pages of a memory of `top` MiB to allocate, the most useful first.
fn pages(top: u32) -> Vec<u32> {
    let starts = |range: Range<u32>| range.step_by(STEP as usize);
    let mut kernel: Vec<_> = starts(KERNEL).collect();
    // QEMU fills the kernel's place from its beginning. Who follows it waits for each of its
    // pages, and who comes from the end halves its way.
    kernel.reverse();
    let rest = [FIRMWARE, top.saturating_sub(TOP)..top, AFTER];
    let all = kernel.into_iter().chain(rest.into_iter().flat_map(starts));
    all.filter(|start| start.saturating_add(STEP) <= top)
        .collect()
}

/// Has the kernel allocate a huge page at `start` MiB.
fn allocate(memory: &OwnedFd, start: u32) -> rustix::io::Result<()> {
    brisk_sys::populate(memory, u64::from(start) << 20, (STEP << 20) as usize)
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
    fn what_is_allocated_lies_in_the_memory() {
        assert_eq!(pages(256)[..2], [54, 52]);
        assert_eq!(pages(256).last(), Some(&82));
        assert_eq!(pages(256).len(), (40 + 2 + 18 + 28) / 2);
        assert!(pages(256).contains(&254) && pages(256).contains(&0));
        for top in [0, 1, 2, 17, 40, 85] {
            assert!(pages(top).iter().all(|start| start + STEP <= top), "{top}");
        }
        assert!(pages(u32::MAX).len() < 50);
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
        let (file, filling) = copy(from, bytes, true).expect("a copy");
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

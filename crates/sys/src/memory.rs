//! Allocation of the pages of files in memory.
#![expect(unsafe_code, reason = "maps memory")]

use std::os::fd::AsFd;
use std::ptr;

use rustix::io;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// Has the kernel allocate the pages of `len` bytes at `offset` of a file in memory, both multiples
/// of the page size. Pages that were not written are filled with zeros; others keep their content.
///
/// # Errors
///
/// `EINVAL` before Linux 5.14, which does not know `MADV_POPULATE_WRITE`, and errors of `mmap(2)`
/// and `madvise(2)`.
pub fn populate(file: impl AsFd, offset: u64, len: usize) -> io::Result<()> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses a free place; nothing is ever read or written through it.
    let start = unsafe {
        mmap(
            ptr::null_mut(),
            len,
            protection,
            MapFlags::SHARED,
            file,
            offset,
        )
    }?;
    // Without it a core dump contains the guest's memory.
    // SAFETY: the range was mapped above and is known to nobody else.
    let _ = unsafe { madvise(start, len, Advice::LinuxDontDump) };
    // SAFETY: as above.
    let populated = unsafe { madvise(start, len, Advice::LinuxPopulateWrite) };
    // SAFETY: the same range, which nothing refers to.
    unsafe { munmap(start, len) }?;
    populated
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};

    use super::*;

    #[test]
    fn pages_are_allocated_and_keep_their_content() {
        let file = memfd_create("memory", MemfdFlags::CLOEXEC).expect("a file");
        ftruncate(&file, 1 << 20).expect("space");
        rustix::io::pwrite(&file, b"kept", 0x11000).expect("a page");
        let before = fstat(&file).expect("stat").st_blocks;
        populate(&file, 0x10000, 0x10000).expect("Linux 5.14");
        let after = fstat(&file).expect("stat").st_blocks;
        assert!(after >= before + 15 * 8, "{before} {after}");
        let mut found = [0; 5];
        rustix::io::pread(&file, &mut found, 0x11000).expect("a page");
        assert_eq!(&found, b"kept\0");
    }
}

//! QEMU's trace of the TBs of a guest, from which the code for TB pretranslation is taken.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};

/// Most bytes of a trace; a boot of Debian's kernel has 5 MB.
const LONGEST: u64 = 64 << 20;

/// QEMU's trace of the TBs that a guest translates, and the memory of that guest.
#[derive(Debug)]
pub struct TbTrace {
    trace: File,
    memory: File,
}

impl TbTrace {
    /// Prepares a trace for a guest with this memory; also the file for QEMU to trace to.
    pub(super) fn of(memory: OwnedFd) -> io::Result<(Self, OwnedFd)> {
        let trace = memfd_create("brisk-trace", MemfdFlags::CLOEXEC)?;
        let theirs = trace.try_clone()?;
        let (trace, memory) = (trace.into(), memory.into());
        Ok((Self { trace, memory }, theirs))
    }

    /// Present content of a range of the guest's memory, of which all is below 3 GiB.
    ///
    /// # Errors
    /// If the memory does not have the range.
    pub fn memory(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        self.memory.read_exact_at(&mut bytes, range.start)?;
        Ok(bytes)
    }

    /// The trace so far.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn traced(&self) -> io::Result<Vec<u8>> {
        let length = self.trace.metadata()?.len().min(LONGEST);
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.trace.read_at(&mut bytes[filled..], filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

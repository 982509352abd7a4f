//! Reading of guest memory from its file, without reading holes.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::memory::PAGE_SIZE;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// What a chunk's range of the file holds.
pub(crate) enum Range {
    /// Nothing up to this offset, which may be far behind the chunk.
    Hole(u64),
    /// The chunk was read.
    Data,
}

/// Fills `chunk` from `start`, unless the range is a hole. The file's own position moves.
///
/// Only where data begins is asked for. Where it ends would be found by tmpfs page by page, under
/// a lock, and a guest's memory may be one stretch; to read a hole costs less.
pub(crate) fn read_chunk(memory: &File, start: u64, chunk: &mut [u8]) -> io::Result<Range> {
    let first = next_data(memory, start)?.unwrap_or(u64::MAX);
    if first >= start + chunk.len() as u64 {
        return Ok(Range::Hole(first));
    }
    let (hole, data) = chunk.split_at_mut((first - start) as usize);
    hole.fill(0);
    memory.read_exact_at(data, first)?;
    Ok(Range::Data)
}

/// Bytes of the file that are no holes.
pub(crate) fn data_bytes(memory: &File, size: u64) -> io::Result<u64> {
    let blocks = memory.metadata()?.blocks();
    Ok(blocks.saturating_mul(512).min(size))
}

/// Where data begins at or behind an offset, down to a whole page.
pub(crate) fn next_data(file: &File, from: u64) -> io::Result<Option<u64>> {
    match seek(file, SeekFrom::Data(from)) {
        Ok(at) => Ok(Some((at - at % PAGE_SIZE).max(from))),
        // The end of the file, or a file that knows no holes.
        Err(Errno::NXIO) => Ok(None),
        Err(Errno::INVAL) => Ok(Some(from)),
        Err(errno) => Err(errno.into()),
    }
}

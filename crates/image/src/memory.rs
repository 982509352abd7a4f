//! Reading of guest memory from its file, without reading holes.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::header::PAGE;

/// Content of a chunk's range of the file.
pub(super) enum Range {
    /// A hole up to this offset, which may be far behind the chunk.
    Hole(u64),
    /// The chunk was read.
    Data,
}

/// Fills `chunk` from `start`, unless the range is a hole. The file's own position moves.
///
/// Only the next begin of data is looked up (SEEK_DATA). tmpfs finds an end of data page by page,
/// under a lock, and a guest's memory may be one range; reading a hole costs less.
pub(super) fn read_chunk(memory: &File, start: u64, chunk: &mut [u8]) -> io::Result<Range> {
    let first = next_data(memory, start)?.unwrap_or(u64::MAX);
    if first >= start + chunk.len() as u64 {
        return Ok(Range::Hole(first));
    }
    let (hole, data) = chunk.split_at_mut((first - start) as usize);
    hole.fill(0);
    memory.read_exact_at(data, first)?;
    Ok(Range::Data)
}

/// Bytes of the file that are not holes.
pub(super) fn data_bytes(memory: &File, size: u64) -> io::Result<u64> {
    let blocks = memory.metadata()?.blocks();
    Ok(blocks.saturating_mul(512).min(size))
}

/// Offset of the first data at or behind an offset, rounded down to a page.
pub(super) fn next_data(file: &File, from: u64) -> io::Result<Option<u64>> {
    match seek(file, SeekFrom::Data(from)) {
        Ok(at) => Ok(Some((at - at % PAGE as u64).max(from))),
        // The end of the file, or a file that knows no holes.
        Err(Errno::NXIO) => Ok(None),
        Err(Errno::INVAL) => Ok(Some(from)),
        Err(errno) => Err(errno.into()),
    }
}

//! Estimate of an image's size and of the room for it, from samples of the memory.

use std::fs::File;
use std::path::Path;

use crate::durable::split;
use crate::error::{Error, io_error};
use crate::format::chunk;
use crate::format::codec::{Compression, Encoder};
use crate::format::head;
use crate::format::header::DEFAULT_CHUNK;
use crate::format::pages;
use crate::memory::{PAGE, PAGE_SIZE, Pages};
use crate::write::memory::{self, Range};

/// Number of chunks in the sample.
const SAMPLES: u64 = 24;

/// Estimated size of an image, and the free space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Likely size in bytes, from samples.
    pub likely: u64,
    /// Most bytes that the image can have.
    pub most: u64,
    /// Free bytes of the file system, for this user.
    pub free: u64,
}

impl Estimate {
    /// Whether the space may not be enough: worth a warning.
    #[must_use]
    pub fn is_tight(&self) -> bool {
        self.likely + self.likely / 8 > self.free
    }

    /// Whether the space would not be enough even if the samples were wrong by half.
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        self.likely / 2 > self.free
    }
}

/// Bytes of a memory's file that are not holes, most bytes of its image, and free bytes of the file
/// system.
struct Bounds {
    data: u64,
    most: u64,
    free: u64,
}

fn bounds(
    path: &Path,
    memory: &File,
    size: u64,
    leave_out: Option<&Pages>,
) -> Result<Bounds, Error> {
    let (dir, _) = split(path)?;
    let stat = rustix::fs::statvfs(&dir).map_err(io_error("examine", &dir))?;
    let data = memory::data_bytes(memory, size);
    let data = data.map_err(io_error("read the memory for", path))?;
    let left_out = leave_out.map_or(0, Pages::len) * PAGE_SIZE;
    let overhead = size / 2048 + (1 << 20) + head::BLOB_PIECE;
    Ok(Bounds {
        data,
        most: data.min(size.saturating_sub(left_out)) + data / 64 + overhead,
        free: stat.f_bavail.saturating_mul(stat.f_frsize),
    })
}

/// Whether an image fits, however little of the memory can be compressed.
pub(crate) fn fits(
    path: &Path,
    memory: &File,
    size: u64,
    leave_out: Option<&Pages>,
) -> Result<bool, Error> {
    bounds(path, memory, size, leave_out).map(|bounds| bounds.most <= bounds.free)
}

/// Bytes that are free beyond those that the image of a memory may take.
pub(crate) fn spare(path: &Path, memory: &File, size: u64) -> Result<u64, Error> {
    bounds(path, memory, size, None).map(|bounds| bounds.free.saturating_sub(bounds.most))
}

/// Estimates the size of a memory's image at a path; takes some tens of milliseconds.
///
/// # Errors
/// If the memory cannot be read, or the directory does not exist.
pub fn estimate(
    path: &Path,
    memory: &File,
    size: u64,
    leave_out: Option<&Pages>,
    compression: Compression,
) -> Result<Estimate, Error> {
    let Bounds { data, most, free } = bounds(path, memory, size, leave_out)?;
    let ratio = sample(memory, size, leave_out, compression);
    let ratio = ratio.map_err(io_error("read the memory for", path))?;
    let likely = (data as f64 * ratio) as u64;
    Ok(Estimate { likely, most, free })
}

/// Compressed bytes for each byte of data, over chunks from all of it.
fn sample(
    memory: &File,
    size: u64,
    leave_out: Option<&Pages>,
    compression: Compression,
) -> std::io::Result<f64> {
    let step = (size / SAMPLES)
        .max(1)
        .next_multiple_of(DEFAULT_CHUNK.into());
    let mut encoder = Encoder::new(compression)?;
    let mut chunk = vec![0; DEFAULT_CHUNK as usize];
    let mut bitmap = vec![0; pages::bitmap_len(chunk.len())];
    let mut out = vec![0; chunk::sealed_bound(chunk.len())];
    let (mut before, mut after) = (0, 0);
    for index in 0..SAMPLES {
        // The first data behind each step.
        let Some(start) = memory::next_data(memory, index * step)? else {
            break;
        };
        if start >= size {
            break;
        }
        let length = (size - start).min(DEFAULT_CHUNK.into()) as usize;
        let chunk = &mut chunk[..length];
        if let Range::Hole(_) = memory::read_chunk(memory, start, chunk)? {
            continue;
        }
        let first = start / PAGE_SIZE;
        let kept = pages::gather(chunk, &mut bitmap, |page| {
            leave_out.is_some_and(|pages| pages.contains(first + page as u64))
        });
        before += length;
        after += chunk::encode(&mut encoder, &bitmap, &chunk[..kept * PAGE], &mut out)?;
    }
    Ok(if before == 0 {
        0.0
    } else {
        after as f64 / before as f64
    })
}

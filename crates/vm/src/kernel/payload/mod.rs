//! Decompression of kernels, up to [`MAX_SIZE`].

mod lz4;

use std::io::{self, Read};

use super::compression::Compression;
use super::error::Reason;

pub(crate) use lz4::blocks as lz4_blocks;

/// Largest kernel, compressed or not, in bytes. A bomb is refused here; an `allyesconfig` kernel
/// without debug information is below 200 MB.
pub const MAX_SIZE: usize = 1 << 30;

impl Compression {
    /// Decompresses; `size` is the size that the kernel's build announces, and checked.
    ///
    /// # Errors
    ///
    /// If the data is corrupt, or its content larger than [`MAX_SIZE`].
    pub fn decompress(self, data: &[u8], size: Option<u32>) -> Result<Vec<u8>, Reason> {
        self.decompress_within(data, size, MAX_SIZE)
    }

    /// Decompresses as [`Self::decompress`] does, with the limit `max`.
    ///
    /// # Errors
    ///
    /// See [`Self::decompress`].
    pub fn decompress_within(
        self,
        data: &[u8],
        size: Option<u32>,
        max: usize,
    ) -> Result<Vec<u8>, Reason> {
        let failed = |source| Reason::Decompress {
            compression: self,
            source,
        };
        let expected = size.map(|size| size as usize);
        if expected.is_some_and(|size| size > max) {
            return Err(Reason::TooLarge);
        }
        // A hostile size must not take memory that its data never fills.
        let mut out = Vec::with_capacity(expected.unwrap_or(0).min(data.len().saturating_mul(16)));
        let whole = match self {
            Self::Gzip => all(flate2::read::GzDecoder::new(data), &mut out, max),
            Self::Xz => all(liblzma::read::XzDecoder::new(data), &mut out, max),
            Self::Lzma => liblzma::stream::Stream::new_lzma_decoder(u64::MAX)
                .map_err(io::Error::from)
                .and_then(|s| all(liblzma::read::XzDecoder::new_stream(data, s), &mut out, max)),
            Self::Zstd => zstd::Decoder::with_buffer(data).and_then(|d| all(d, &mut out, max)),
            Self::Lz4 => lz4::decompress(data, &mut out, max),
            Self::Bzip2 => all(bzip2::read::BzDecoder::new(data), &mut out, max),
        }
        .map_err(failed)?;
        if !whole {
            return Err(Reason::TooLarge);
        }
        match expected {
            Some(expected) if expected != out.len() => Err(Reason::Size {
                compression: self,
                expected: expected as u64,
                found: out.len() as u64,
            }),
            _ => Ok(out),
        }
    }
}

/// Reads to the end; `false` if more than `max` bytes came.
fn all(reader: impl Read, out: &mut Vec<u8>, max: usize) -> io::Result<bool> {
    reader.take(max as u64 + 1).read_to_end(out)?;
    Ok(out.len() <= max)
}

fn corrupt(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
pub(in crate::kernel) mod tests;

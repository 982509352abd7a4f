//! Encoding of a chunk before it is sealed: a byte for its compression, the bitmap of its pages,
//! its bytes.

use std::io;

use crate::error::Error;
use crate::format::codec::{self, Decoder, Encoder, Stored};
use crate::format::header::Header;
use crate::format::pages;
use crate::format::seal::TAG;
use crate::memory::PAGE;

/// Room for a sealed chunk of so many bytes.
pub(crate) fn sealed_bound(chunk: usize) -> usize {
    1 + pages::bitmap_len(chunk) + codec::bound(chunk) + TAG
}

/// Compresses pages into `out`; the length. Room for the tag is left behind it.
pub(crate) fn encode(
    encoder: &mut Encoder,
    bitmap: &[u8],
    bytes: &[u8],
    out: &mut [u8],
) -> io::Result<usize> {
    let (prefix, body) = out.split_at_mut(1 + bitmap.len());
    let (stored, length) = encoder.encode(bytes, body)?;
    prefix[0] = stored as u8;
    prefix[1..].copy_from_slice(bitmap);
    Ok(prefix.len() + length)
}

/// Decodes a chunk: the bitmap of its pages, and the pages one after the other in `out`.
///
/// `None` if it is not what [`encode`] writes; that can only be if who sealed it did not keep
/// to the format.
pub(crate) fn decode<'a>(
    decoder: &mut Decoder,
    header: &Header,
    index: u64,
    plain: &'a [u8],
    out: &mut [u8],
) -> Option<&'a [u8]> {
    let length = header.chunk_len(index);
    let (stored, rest) = plain.split_first()?;
    let (bitmap, body) = rest.split_at_checked(pages::bitmap_len(length))?;
    let last = length / PAGE;
    let beyond = (last..bitmap.len() * 8).any(|page| pages::is_set(bitmap, page));
    let kept = pages::count(bitmap);
    if beyond || kept == 0 {
        return None;
    }
    let out = out.get_mut(..kept * PAGE)?;
    decoder
        .decode(Stored::from_byte(*stored)?, body, out)
        .then_some(bitmap)
}

/// What reading a chunk needs beside where it goes.
pub(crate) struct Scratch {
    pub(crate) sealed: Vec<u8>,
    pub(crate) bitmap: Vec<u8>,
    pub(crate) decoder: Decoder,
    /// Room for a chunk to compare with.
    pub(crate) chunk: Vec<u8>,
}

impl Scratch {
    pub(crate) fn new(chunk: usize) -> Result<Self, Error> {
        let decoder =
            Decoder::new().map_err(|_| Error::invalid("no memory to take chunks apart"))?;
        Ok(Self {
            sealed: Vec::new(),
            bitmap: vec![0; pages::bitmap_len(chunk)],
            decoder,
            chunk: Vec::new(),
        })
    }
}

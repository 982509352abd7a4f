//! LZ4's legacy frame, the one that `lz4 -l` and the kernel's build write.
//!
//! Source: "Legacy frame" in the LZ4 frame format description.

use std::io::{self, Read};

use super::corrupt;
use crate::kernel::compression::LZ4;

/// Every block but the last holds this many bytes.
const BLOCK: usize = 8 << 20;

/// Appends the content of a frame; `false` if it is larger than `max`.
pub(super) fn decompress(mut data: &[u8], out: &mut Vec<u8>, max: usize) -> io::Result<bool> {
    while let Some((word, rest)) = data.split_first_chunk::<4>() {
        data = rest;
        // Frames may be concatenated.
        if *word == LZ4 {
            continue;
        }
        let (block, rest) = data
            .split_at_checked(u32::from_le_bytes(*word) as usize)
            .ok_or_else(|| corrupt("a block reaches beyond the end"))?;
        data = rest;
        let start = out.len();
        out.resize(start + BLOCK, 0);
        // The block's size is not known before; it only limits what is written.
        let size =
            ::lz4::block::decompress_to_buffer(block, Some(BLOCK as i32), &mut out[start..])?;
        out.truncate(start + size);
        if out.len() > max {
            return Ok(false);
        }
    }
    if data.is_empty() {
        Ok(true)
    } else {
        Err(corrupt("a block size is cut off"))
    }
}

/// The content of a frame that is read bit by bit, to the end of its reader or to zeros behind it,
/// as the kernel does with an initramfs (`lib/decompress_unlz4.c`).
pub(crate) fn blocks<R: Read>(inner: R) -> impl Read {
    Blocks {
        inner,
        content: Vec::new(),
        at: 0,
    }
}

struct Blocks<R> {
    inner: R,
    /// What came out of the last block.
    content: Vec<u8>,
    /// How much of that was read.
    at: usize,
}

impl<R: Read> Blocks<R> {
    /// The word before a block; none at the end.
    fn word(&mut self) -> io::Result<Option<[u8; 4]>> {
        let mut word = Vec::new();
        self.inner.by_ref().take(4).read_to_end(&mut word)?;
        match word.try_into() {
            Ok(word) => Ok(Some(word)),
            // Fewer bytes are no word for the kernel either.
            Err(_) => Ok(None),
        }
    }

    fn next(&mut self) -> io::Result<bool> {
        self.at = 0;
        self.content.clear();
        let Some(word) = self.word()? else {
            return Ok(false);
        };
        if word == LZ4 {
            return Ok(true);
        }
        let size = u32::from_le_bytes(word) as usize;
        if size == 0 {
            return Ok(false);
        }
        // A block that does not get smaller is a little larger than its content.
        if size > BLOCK + BLOCK / 128 {
            return Err(corrupt("a block is too large"));
        }
        let mut block = Vec::new();
        self.inner
            .by_ref()
            .take(size as u64)
            .read_to_end(&mut block)?;
        if block.len() < size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.content.resize(BLOCK, 0);
        let size =
            ::lz4::block::decompress_to_buffer(&block, Some(BLOCK as i32), &mut self.content)?;
        self.content.truncate(size);
        Ok(true)
    }
}

impl<R: Read> Read for Blocks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.content.len() {
            if !self.next()? {
                return Ok(0);
            }
        }
        let rest = &self.content[self.at..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}

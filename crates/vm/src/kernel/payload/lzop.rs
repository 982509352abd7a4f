//! lzop's container, as `lib/decompress_unlzo.c` of the kernel reads it.

use std::io;

use super::{corrupt, lzo};

pub(super) const MAGIC: &[u8] = b"\x89LZO\0\r\n\x1a\n";

/// First version whose header has the extra fields.
const WITH_LEVEL: u16 = 0x0940;
const HAS_FILTER: u32 = 0x0800;
/// Checksums before a block: Adler-32 and CRC-32 of its content.
const CONTENT_SUMS: [u32; 2] = [0x0001, 0x0100];
/// The same of its compressed form, if it is compressed.
const BLOCK_SUMS: [u32; 2] = [0x0002, 0x0200];
/// lzop's largest block.
const MAX_BLOCK: u32 = 64 << 20;

/// Appends the content; `false` if it is larger than `max`.
pub(super) fn decompress(data: &[u8], out: &mut Vec<u8>, max: usize) -> io::Result<bool> {
    let mut input = Input(data);
    let flags = header(&mut input)?;
    loop {
        let size = input.u32()?;
        if size == 0 {
            return Ok(true);
        }
        let packed = input.u32()?;
        if size > MAX_BLOCK || packed > size {
            return Err(corrupt("a block has an impossible size"));
        }
        let sums = |kinds: [u32; 2]| 4 * kinds.iter().filter(|kind| flags & **kind != 0).count();
        input.take(sums(CONTENT_SUMS))?;
        if packed < size {
            input.take(sums(BLOCK_SUMS))?;
        }
        if out.len() + size as usize > max {
            return Ok(false);
        }
        let block = input.take(packed as usize)?;
        if packed == size {
            out.extend_from_slice(block);
        } else {
            lzo::decompress(block, out, size as usize)?;
        }
    }
}

fn header(input: &mut Input<'_>) -> io::Result<u32> {
    input.take(MAGIC.len())?;
    let version = input.u16()?;
    let library_and_needed = if version >= WITH_LEVEL { 4 } else { 2 };
    let method_and_level = if version >= WITH_LEVEL { 2 } else { 1 };
    input.take(library_and_needed + method_and_level)?;
    let flags = input.u32()?;
    if flags & HAS_FILTER != 0 {
        return Err(corrupt(
            "it uses a filter, which the kernel cannot undo either",
        ));
    }
    let mode_and_times = if version >= WITH_LEVEL { 12 } else { 8 };
    input.take(mode_and_times)?;
    let name = input.take(1)?[0];
    input.take(usize::from(name) + 4)?;
    Ok(flags)
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| corrupt("it ends within a block"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> io::Result<u16> {
        self.take(2).map(|b| u16::from_be_bytes([b[0], b[1]]))
    }

    fn u32(&mut self) -> io::Result<u32> {
        self.take(4)
            .map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }
}

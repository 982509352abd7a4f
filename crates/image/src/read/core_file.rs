//! Guest memory as an ELF core file, for gdb(1) and crash(8).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Error, io_error};
use crate::format::description::Range;
use crate::memory::{PAGE, PAGE_SIZE};
use crate::pipeline::Control;
use crate::read::load::Piece;
use crate::read::reader::Image;

/// Sizes of the headers of ELF64 (System V ABI, chapter 4 and 5).
const FILE_HEADER: usize = 64;
const SEGMENT: usize = 56;

const ET_CORE: u16 = 4;
const EM_X86_64: u16 = 62;
const PT_LOAD: u32 = 1;
const RWX: u32 = 7;

/// Writes the memory as a core file with a segment for each range of physical addresses; zero
/// pages are holes. Virtual addresses are the physical ones: registers and page tables of the
/// guest are in its device state, which is QEMU's.
///
/// # Errors
/// See [`Image::load`].
pub(crate) fn write_core(
    image: &Image,
    into: &File,
    path: &Path,
    threads: usize,
    control: Control<'_>,
) -> Result<(), Error> {
    let ranges = image.description().ranges(image.header().memory);
    let (headers, pieces) = layout(&ranges);
    image.load_pieces(into, path, &pieces, threads, control)?;
    into.write_all_at(&headers, 0)
        .map_err(io_error("write", path))
}

/// The headers, and the place of each range in the file.
fn layout(ranges: &[Range]) -> (Vec<u8>, Vec<Piece>) {
    let mut out = Vec::new();
    // Magic, 64 bits, little endian, version 1, no ABI.
    out.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    out.extend(ET_CORE.to_le_bytes());
    out.extend(EM_X86_64.to_le_bytes());
    out.extend(1_u32.to_le_bytes());
    // Entry, program headers, section headers.
    for offset in [0, FILE_HEADER as u64, 0] {
        out.extend(offset.to_le_bytes());
    }
    out.extend(0_u32.to_le_bytes());
    // Sizes and numbers of headers; the ranges of a description are limited to 1024.
    let segments = ranges.len() as u16;
    for half in [FILE_HEADER as u16, SEGMENT as u16, segments, 0, 0, 0] {
        out.extend(half.to_le_bytes());
    }
    let mut to = (FILE_HEADER + SEGMENT * ranges.len()).next_multiple_of(PAGE) as u64;
    let mut pieces = Vec::new();
    for range in ranges {
        out.extend(PT_LOAD.to_le_bytes());
        out.extend(RWX.to_le_bytes());
        let (address, length) = (range.address, range.length);
        for word in [to, address, address, length, length, PAGE_SIZE] {
            out.extend(word.to_le_bytes());
        }
        pieces.push(Piece {
            from: range.offset,
            to,
            length,
        });
        to += length;
    }
    (out, pieces)
}

//! LZ4's legacy frame, the one that `lz4 -l` and the kernel's build write.
//!
//! Source: "Legacy frame" in the LZ4 frame format description.

use std::io;

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

//! The order in which a guest needed its pages after a resume, as bytes and as pages.

use std::ops::Range;

use crate::format::head::MAX_BLOB;
use crate::memory::Pages;

/// How many pages of the working set an image has a second time, at most: 64 MiB.
pub const WORKING_PAGES: usize = 16 << 10;

/// 16 bytes for each range: its first page and how many they are.
pub(crate) fn encode(ranges: &[Range<u64>]) -> Vec<u8> {
    let numbers = ranges
        .iter()
        .flat_map(|range| [range.start, range.end.saturating_sub(range.start)]);
    numbers.flat_map(u64::to_le_bytes).collect()
}

/// Ranges from the bytes that [`encode`] makes; `None` if one is outside of the memory.
pub(crate) fn decode(bytes: &[u8], pages: u64) -> Option<Vec<Range<u64>>> {
    if bytes.len() % 16 != 0 {
        return None;
    }
    let ranges = bytes.chunks_exact(16).map(|bytes| {
        let start = u64::from_le_bytes(*bytes.first_chunk()?);
        let count = u64::from_le_bytes(*bytes.last_chunk()?);
        let end = start.checked_add(count)?;
        (end <= pages).then_some(start..end)
    });
    ranges.collect()
}

/// Ranges without the pages that the image leaves out: there is nothing to have of them, neither
/// soon nor later.
pub(crate) fn without(ranges: &[Range<u64>], left_out: Option<&Pages>) -> Vec<Range<u64>> {
    let Some(left_out) = left_out else {
        return ranges.to_vec();
    };
    let mut kept: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        let mut open = false;
        for page in range.clone().filter(|page| !left_out.contains(*page)) {
            match kept.last_mut() {
                Some(last) if open && last.end == page => last.end += 1,
                _ => kept.push(page..page + 1),
            }
            open = true;
        }
    }
    kept.truncate(MAX_BLOB as usize / 16);
    kept
}

/// Pages whose contents are stored a second time, one after the other, so that they are there
/// soon: the first ones.
pub(crate) fn first_pages(ranges: &[Range<u64>]) -> Vec<u64> {
    let pages = ranges.iter().cloned().flatten();
    pages.take(WORKING_PAGES).collect()
}

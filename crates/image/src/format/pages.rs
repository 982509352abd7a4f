//! Pages of a chunk: bitmap and contents of those that are not zero.

use crate::memory::{PAGE, is_zero};

/// Bytes of the bitmap of so many bytes of memory.
pub(crate) fn bitmap_len(bytes: usize) -> usize {
    (bytes / PAGE).div_ceil(8)
}

pub(crate) fn is_set(bitmap: &[u8], page: usize) -> bool {
    bitmap[page / 8] >> (page % 8) & 1 == 1
}

pub(crate) fn count(bitmap: &[u8]) -> usize {
    bitmap.iter().map(|byte| byte.count_ones() as usize).sum()
}

/// Moves the pages of a chunk that are neither zero nor left out to its start; sets their bits
/// and says how many they are.
pub(crate) fn gather(
    chunk: &mut [u8],
    bitmap: &mut [u8],
    left_out: impl Fn(usize) -> bool,
) -> usize {
    bitmap.fill(0);
    let mut kept = 0;
    for page in 0..chunk.len() / PAGE {
        let at = page * PAGE;
        if left_out(page) || is_zero(&chunk[at..at + PAGE]) {
            continue;
        }
        if kept != page {
            chunk.copy_within(at..at + PAGE, kept * PAGE);
        }
        bitmap[page / 8] |= 1 << (page % 8);
        kept += 1;
    }
    kept
}

/// The reverse: puts pages from the start of a chunk where they belong, zeroes elsewhere.
pub(crate) fn scatter(chunk: &mut [u8], bitmap: &[u8]) {
    let mut kept = count(bitmap);
    for page in (0..chunk.len() / PAGE).rev() {
        let at = page * PAGE;
        if !is_set(bitmap, page) {
            chunk[at..at + PAGE].fill(0);
            continue;
        }
        kept -= 1;
        if kept != page {
            chunk.copy_within(kept * PAGE..(kept + 1) * PAGE, at);
        }
    }
}

/// Neighbouring pages that are set, as (first, number).
pub(crate) fn runs(bitmap: &[u8]) -> impl Iterator<Item = (usize, usize)> + '_ {
    let pages = bitmap.len() * 8;
    let mut page = 0;
    std::iter::from_fn(move || {
        let first = (page..pages).find(|page| is_set(bitmap, *page))?;
        let end = (first..pages)
            .find(|page| !is_set(bitmap, *page))
            .unwrap_or(pages);
        page = end;
        Some((first, end - first))
    })
}

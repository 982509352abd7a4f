//! Sets of pages, and the pages of a chunk that are not zero.

use crate::format::header::PAGE;

/// A set of pages of a guest's memory: 32 KiB for each GiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pages {
    bits: Vec<u64>,
    pages: u64,
}

impl Pages {
    /// The empty set of pages of a memory of this many bytes.
    #[must_use]
    pub fn none(memory: u64) -> Self {
        let pages = memory.div_ceil(PAGE as u64);
        Self {
            bits: vec![0; pages.div_ceil(64) as usize],
            pages,
        }
    }

    /// Adds a page by its number; pages beyond the memory are ignored.
    pub fn insert(&mut self, page: u64) {
        if page < self.pages {
            self.bits[(page / 64) as usize] |= 1 << (page % 64);
        }
    }

    /// Adds pages by their numbers.
    pub fn insert_all(&mut self, pages: std::ops::Range<u64>) {
        for page in pages.start..pages.end.min(self.pages) {
            self.insert(page);
        }
    }

    /// Whether the page is in the set.
    #[must_use]
    pub fn contains(&self, page: u64) -> bool {
        page < self.pages && self.bits[(page / 64) as usize] >> (page % 64) & 1 == 1
    }

    /// Number of pages in the set.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.bits
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bits.iter().all(|word| *word == 0)
    }

    /// Whether all of these pages are among them.
    pub(crate) fn all(&self, mut pages: std::ops::Range<u64>) -> bool {
        pages.all(|page| self.contains(page))
    }

    /// Whether one of these pages is among them. Chunks begin at a multiple of 8 pages.
    pub(crate) fn any(&self, mut pages: std::ops::Range<u64>) -> bool {
        pages.any(|page| self.contains(page))
    }
}

/// Whether all bytes are zero. Most other pages show that in the first line.
#[must_use]
pub fn is_zero(page: &[u8]) -> bool {
    let lines = page.chunks_exact(64);
    let rest = lines.remainder();
    lines.into_iter().all(|line| {
        let words = line.chunks_exact(8);
        let folded = words.fold(0, |all, word| {
            all | u64::from_ne_bytes(word.try_into().expect("words have eight bytes"))
        });
        folded == 0
    }) && rest.iter().all(|byte| *byte == 0)
}

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

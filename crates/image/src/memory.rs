//! Guest memory as pages: their size, sets and ranges of them, and the test for zeros.
//!
//! Page numbers count from the beginning of the memory.

use std::ops::Range;

/// Bytes of a page, of the guest and of the host: the base page of x86-64.
pub const PAGE: usize = 4096;
/// Bytes of a page, for offsets and addresses.
pub const PAGE_SIZE: u64 = PAGE as u64;

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
        let pages = memory.div_ceil(PAGE_SIZE);
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
    pub fn insert_all(&mut self, pages: Range<u64>) {
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

    /// Whether all of these pages are in the set.
    pub(crate) fn all(&self, mut pages: Range<u64>) -> bool {
        pages.all(|page| self.contains(page))
    }

    /// Whether one of these pages is in the set.
    pub(crate) fn any(&self, mut pages: Range<u64>) -> bool {
        pages.any(|page| self.contains(page))
    }
}

/// Whether all bytes are zero. Most pages that are not show that in their first cache line.
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

/// Appends a page to a list of ranges: to its last range if the page follows that.
pub fn push_page(ranges: &mut Vec<Range<u64>>, page: u64) {
    match ranges.last_mut() {
        Some(last) if last.end == page => last.end += 1,
        _ => ranges.push(page..page + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_follows_the_last_range_lengthens_it() {
        let mut ranges = Vec::new();
        for page in [4, 5, 9, 8, 9] {
            push_page(&mut ranges, page);
        }
        assert_eq!(ranges, [4..6, 9..10, 8..10]);
    }

    #[test]
    fn one_byte_anywhere_makes_a_page_other_than_zero() {
        let mut page = [0; PAGE + 3];
        assert!(is_zero(&page) && is_zero(&[]));
        for at in [0, 63, 64, PAGE - 1, PAGE + 2] {
            page[at] = 1;
            assert!(!is_zero(&page), "{at}");
            page[at] = 0;
        }
    }
}

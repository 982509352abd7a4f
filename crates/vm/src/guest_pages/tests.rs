use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use proptest::prelude::*;

use super::*;
use brisk_image::{Forecast, PAGE};

const SIZE: u64 = 16 << 20;
const PAGES: u64 = SIZE / PAGE_SIZE;
/// Where things are in the guest: all below the page structures.
const NOTE: u64 = 0x1000;
const TOP: u64 = 0x2000;
const NODES: u64 = 0x7000;
const NODE: u64 = 0x8000;
const ROOTS: u64 = 0x9000;
const SECTIONS: u64 = 0xa000;
const STRUCTURES: u64 = 2 << 20;
/// The kernel's addresses of all memory, and of the structures.
const DIRECT: u64 = 0xffff_8880_0000_0000;
const MAP: u64 = 0xffff_ea00_0000_0000;
const BUDDY: i64 = -129;
const IN_TABLE: u64 = 0x63;

/// A kernel's memory, with the sizes that Linux 6.12 has on x86-64 where they matter.
struct Guest {
    file: File,
    lines: Vec<String>,
}

impl Guest {
    /// With these blocks of free pages: the first one and the size of each.
    fn new(blocks: &[(u64, u32)]) -> Self {
        let file = tempfile::tempfile().unwrap();
        file.set_len(SIZE).unwrap();
        let lines = [
            format!("SYMBOL(mem_section)={:x}", DIRECT + ROOTS),
            "OFFSET(mem_section.section_mem_map)=0".into(),
            "SIZE(page)=64".into(),
            "OFFSET(page._refcount)=52".into(),
            "OFFSET(page._mapcount)=48".into(),
            "OFFSET(page.private)=40".into(),
            "OFFSET(page.flags)=0".into(),
            "OFFSET(page.compound_head)=8".into(),
            "OFFSET(page.mapping)=24".into(),
            "NUMBER(PG_lru)=5".into(),
            "NUMBER(PG_swapbacked)=17".into(),
            format!("NUMBER(PAGE_BUDDY_MAPCOUNT_VALUE)={BUDDY}"),
            "LENGTH(zone.free_area)=11".into(),
            "SIZE(free_area)=88".into(),
            "SIZE(zone)=1536".into(),
            "OFFSET(zone.free_area)=256".into(),
            "OFFSET(pglist_data.node_zones)=0".into(),
            "OFFSET(pglist_data.nr_zones)=3072".into(),
            format!("SYMBOL(node_data)={:x}", DIRECT + NODES),
            "LENGTH(node_data)=4".into(),
            format!("SYMBOL(init_top_pgt)={:x}", 0xffff_ffff_8000_0000 + TOP),
            "NUMBER(phys_base)=0".into(),
            "NUMBER(pgtable_l5_enabled)=0".into(),
            "NUMBER(sme_mask)=0".into(),
        ];
        let guest = Self {
            file,
            lines: lines.to_vec(),
        };
        // One table for each of the two, with large pages.
        guest.put(TOP + (DIRECT >> 39 & 0x1ff) * 8, 0x3000 | IN_TABLE);
        guest.put(0x3000, IN_TABLE | 1 << 7);
        guest.put(TOP + (MAP >> 39 & 0x1ff) * 8, 0x4000 | IN_TABLE);
        guest.put(0x4000, 0x5000 | IN_TABLE);
        guest.put(0x5000, STRUCTURES | IN_TABLE | 1 << 7);
        guest.put(ROOTS, DIRECT + SECTIONS);
        guest.put(SECTIONS, MAP | 0xf);
        guest.put(NODES, DIRECT + NODE);
        guest.put(NODE + 3072, 2);
        for page in 0..PAGES {
            guest.set(page, 1, -1, 0);
        }
        for &(first, order) in blocks {
            for page in first..first + (1 << order) {
                guest.set(page, 0, -1, 0);
            }
            guest.set(first, 0, BUDDY as i32, order);
            guest.count(order, 1);
        }
        guest
    }

    fn put(&self, address: u64, value: u64) {
        let bytes = value.to_le_bytes();
        self.file.write_all_at(&bytes, address).unwrap();
    }

    /// Its references, kind and order.
    fn set(&self, page: u64, count: i32, kind: i32, order: u32) {
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&order.to_le_bytes());
        bytes[8..12].copy_from_slice(&kind.to_le_bytes());
        bytes[12..16].copy_from_slice(&count.to_le_bytes());
        let at = STRUCTURES + page * 64 + 40;
        self.file.write_all_at(&bytes, at).unwrap();
    }

    /// As many more, in the second zone.
    fn count(&self, order: u32, more: u64) {
        let at = NODE + 1536 + 256 + u64::from(order) * 88 + 80;
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, at).unwrap();
        self.put(at, u64::from_le_bytes(bytes).wrapping_add(more));
    }

    fn free(&self) -> Result<Pages, Unknown> {
        self.ask(free_pages)
    }

    fn expected(&self) -> Result<Forecast, Unknown> {
        self.ask(forecast)
    }

    /// What a page is for: its flags, the first page of the large one it is in, what it is of.
    fn describe(&self, page: u64, flags: u64, head: u64, mapping: u64) {
        let at = STRUCTURES + page * 64;
        for (offset, value) in [(0, flags), (8, head), (24, mapping)] {
            self.put(at + offset, value);
        }
    }

    fn ask<T>(
        &self,
        what: fn(Memory<'_>, VmcoreinfoLocation) -> Result<T, Unknown>,
    ) -> Result<T, Unknown> {
        let place = VmcoreinfoLocation::parse("0x0000000000001000 1024").unwrap();
        self.with_note(|memory| what(memory, place))
    }

    fn with_note<T>(&self, what: impl FnOnce(Memory<'_>) -> T) -> T {
        let text = self.lines.join("\n");
        let mut note = Vec::new();
        for word in [11, text.len() as u32, 0] {
            note.extend(word.to_le_bytes());
        }
        note.extend(b"VMCOREINFO\0\0");
        note.extend(text.as_bytes());
        let mut file = &self.file;
        file.seek(SeekFrom::Start(NOTE)).unwrap();
        file.write_all(&note).unwrap();
        let ranges = [Range {
            offset: 0,
            address: 0,
            length: SIZE,
        }];
        let memory = Memory {
            file: &self.file,
            ranges: &ranges,
        };
        what(memory)
    }
}

/// Blocks that do not lie in each other, beyond the structures.
fn blocks() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let aligned = |(page, order): (u64, u32)| (page >> order << order, order);
    let any = (1024..PAGES - 1024, 0..11_u32).prop_map(aligned);
    prop::collection::vec(any, 0..40).prop_map(|mut blocks| {
        blocks.sort_unstable();
        let mut end = 1024;
        blocks.retain(|(first, order)| {
            let fits = *first >= end && first + (1 << order) <= PAGES;
            if fits {
                end = first + (1 << order);
            }
            fits
        });
        blocks
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn all_free_pages_are_found_and_no_others(blocks in blocks()) {
        let mut expected = Pages::none(SIZE);
        for (first, order) in &blocks {
            expected.insert_all(*first..first + (1 << order));
        }
        prop_assert_eq!(Guest::new(&blocks).free().unwrap(), expected);
    }

    #[test]
    fn a_note_of_anything_is_no_trouble(
        line in 0..24_usize,
        value in prop_oneof!["[0-9a-fx-]{0,20}", "-?[0-9]{1,19}", "[0-9a-f]{16}"],
    ) {
        let mut guest = Guest::new(&[(2048, 3)]);
        let (name, _) = guest.lines[line].split_once('=').unwrap();
        guest.lines[line] = format!("{name}={value}");
        // A guess, whatever it is.
        let _ = guest.expected();
        // Nothing but what is free, whatever it says.
        if let Ok(pages) = guest.free() {
            let others = (0..PAGES).filter(|page| !(2048..2056).contains(page));
            prop_assert_eq!(others.filter(|page| pages.contains(*page)).count(), 0);
        }
    }
}

#[test]
fn what_the_kernel_counts_otherwise_is_not_free() {
    let guest = Guest::new(&[(2048, 3), (3000, 0)]);
    assert_eq!(guest.free().unwrap().len(), 9);
    guest.count(3, 1);
    let miscounted = Unknown::Miscounted {
        order: 3,
        found: 1,
        counted: 2,
    };
    assert_eq!(guest.free(), Err(miscounted));
}

#[test]
fn a_block_with_a_page_in_use_is_refused() {
    let guest = Guest::new(&[(2048, 3)]);
    guest.set(2053, 1, -1, 0);
    assert_eq!(guest.free(), Err(Unknown::Used(2053)));
}

#[test]
fn a_block_where_none_can_be_is_refused() {
    for (page, order) in [(2049, 3), (2048, 11), (PAGES - 1, 1)] {
        let guest = Guest::new(&[]);
        guest.set(page, 0, BUDDY as i32, order);
        let strange = Err(Unknown::Strange("block of free pages"));
        assert_eq!(guest.free(), strange, "{page} {order}");
    }
}

#[test]
fn encrypted_memory_is_not_looked_at() {
    let mut guest = Guest::new(&[]);
    let mask = guest.lines.len() - 1;
    guest.lines[mask] = "NUMBER(sme_mask)=140737488355328".into();
    let strange = Unknown::Strange("mask of encrypted memory");
    assert_eq!(guest.free(), Err(strange));
}

#[test]
fn what_a_guest_will_have_left() {
    const LISTED: u64 = 1 << 5;
    const SWAP: u64 = 1 << 17;
    const FILE: u64 = 0xffff_8880_0001_0000;
    let guest = Guest::new(&[(2048, 3)]);
    let head = MAP + 3000 * 64;
    // A process's own page; a large one; a file's page, and one that a process has mapped; the
    // kernel's, which is on no list; a file's page that is none any more.
    guest.describe(1500, LISTED | SWAP, 0, FILE | 1);
    guest.describe(3000, LISTED | SWAP, 0, FILE | 1);
    for tail in 3001..3004 {
        guest.set(tail, 0, -1, 0);
        guest.describe(tail, 0, head | 1, 0);
    }
    guest.describe(1600, LISTED, 0, FILE);
    guest.describe(1601, LISTED, 0, FILE);
    guest.set(1601, 2, 0, 0);
    guest.describe(1700, SWAP, 0, FILE);
    guest.describe(1800, LISTED, 0, 0);
    // A large page of a file.
    guest.describe(3500, LISTED, 0, FILE);
    guest.set(3501, 0, -1, 0);
    guest.describe(3501, 0, (MAP + 3500 * 64) | 1, 0);
    let forecast = guest.expected().unwrap();
    // Of the groups of eight pages, one has four such pages.
    let lasting = (0..PAGES / 8).filter(|group| forecast.lasts(group * 8..group * 8 + 8));
    assert_eq!(lasting.collect::<Vec<_>>(), [3000 / 8]);
    let gone: Vec<u64> = (0..PAGES).filter(|page| !forecast.keeps(*page)).collect();
    let free = 2048..2056;
    let expected: Vec<u64> = [1600].into_iter().chain(free).chain(3500..3502).collect();
    assert_eq!(gone, expected);
}

#[test]
fn a_kernel_that_tells_too_little_is_no_trouble() {
    for name in [
        "PG_swapbacked",
        "page.mapping",
        "page.compound_head",
        "page.flags",
        "PG_lru",
    ] {
        let mut guest = Guest::new(&[(2048, 3)]);
        guest.lines.retain(|line| !line.contains(name));
        let missing =
            matches!(guest.expected(), Err(Unknown::Missing(what)) if what.contains(name));
        assert!(missing, "{name}");
        assert_eq!(guest.free().unwrap().len(), 8);
    }
}

/// Content of each page.
fn contents(file: &File) -> Vec<Vec<u8>> {
    let page = |page| {
        let mut bytes = vec![0; PAGE];
        file.read_exact_at(&mut bytes, page * PAGE_SIZE).unwrap();
        bytes
    };
    (0..PAGES).map(page).collect()
}

#[test]
fn what_is_free_or_zero_is_given_back_and_nothing_else() {
    let guest = Guest::new(&[(2048, 3), (3000, 0)]);
    let used = [1030, 2047, 2056, 2999, 3001, PAGES - 1];
    for page in used.into_iter().chain([2048, 2055, 3000]) {
        guest.file.write_all_at(b"data", page * PAGE_SIZE).unwrap();
    }
    guest
        .file
        .write_all_at(&[0; 8192], 1500 * PAGE_SIZE)
        .unwrap();
    let (before, left) = guest.with_note(|memory| (contents(memory.file), trim(memory).unwrap()));
    let after = contents(&guest.file);
    for (page, (before, after)) in before.iter().zip(&after).enumerate() {
        let free = (2048..2056).contains(&page) || page == 3000;
        match free {
            true => assert!(after.iter().all(|byte| *byte == 0), "{page}"),
            false => assert!(before == after, "{page}"),
        }
    }
    let data = after
        .iter()
        .filter(|page| page.iter().any(|byte| *byte != 0));
    assert_eq!(left, data.count() as u64 * PAGE_SIZE);
    let mut stored = 0;
    let stretch = |stretch: std::ops::Range<u64>| {
        stored += stretch.end - stretch.start;
        Ok(())
    };
    crate::holes::each_stretch(&guest.file, SIZE, stretch).unwrap();
    assert_eq!(stored, left);
}

#[test]
fn without_a_note_that_is_right_only_zeros_are_given_back() {
    let mut guest = Guest::new(&[(2048, 3)]);
    guest.file.write_all_at(b"data", 2050 * PAGE_SIZE).unwrap();
    guest
        .file
        .write_all_at(&[0; 8192], 1500 * PAGE_SIZE)
        .unwrap();
    guest.count(3, 1);
    let before = contents(&guest.file);
    let left = guest.with_note(|memory| trim(memory).unwrap());
    assert_eq!(contents(&guest.file)[2..], before[2..]);
    assert_eq!(contents(&guest.file)[2050][..4], *b"data");
    guest.lines.clear();
    assert_eq!(guest.with_note(|memory| trim(memory).unwrap()), left);
}

//! Free pages of a stopped Linux guest, read from its kernel's page allocator.
//!
//! VMCOREINFO, the kernel's note for crash dumps
//! (`Documentation/admin-guide/kdump/vmcoreinfo.rst`), says where the allocator's structures are;
//! makedumpfile leaves free pages out by it, too. Only x86-64 is supported. The guest is not
//! trusted: every block of free pages must look like one, and of each size there must be as many as
//! the kernel counts. If not, no page is taken for free. A guest that lies about both only harms
//! itself.

mod forecast;
mod trim;
mod vmcoreinfo;
mod walk;

use std::fs::File;

use brisk_image::{PAGE_SIZE, Pages, Range};

pub use forecast::forecast;
pub use trim::trim;
pub use vmcoreinfo::{Vmcoreinfo, VmcoreinfoLocation};
use walk::Tables;

/// Most bytes of page structures that are read at once.
const PIECE: u64 = 2 << 20;
/// Sizes of blocks, as powers of two of pages, that a kernel may have.
const ORDERS: usize = 32;
/// Most nodes and zones that are read.
const MAX_NODES: u64 = 1024;
const MAX_ZONES: u64 = 8;

/// Reason why free pages are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unknown {
    /// VMCOREINFO lacks an entry.
    #[error("the guest's kernel does not publish {0}")]
    Missing(String),
    /// A value that no kernel has.
    #[error("the guest's kernel publishes a {0} that cannot be")]
    Strange(&'static str),
    /// Memory that is not there, or cannot be read.
    #[error("the guest's memory at {0:#x} cannot be read")]
    Unreadable(u64),
    /// The blocks that were found do not match the kernel's count.
    #[error("{found} blocks of 2^{order} pages look free, and the guest's kernel counts {counted}")]
    Miscounted {
        /// Size of the blocks.
        order: usize,
        /// Number of blocks by the pages.
        found: u64,
        /// Number of blocks by the allocator's lists.
        counted: u64,
    },
    /// A block whose pages are not all free.
    #[error("the page {0:#x} of a free block is in use")]
    Used(u64),
}

/// A guest's memory by its physical addresses.
#[derive(Debug, Clone, Copy)]
pub struct Memory<'a> {
    /// The file.
    pub file: &'a File,
    /// Places of the file in the guest's physical memory.
    pub ranges: &'a [Range],
}

/// Free pages of the memory's file. The guest must be stopped.
///
/// # Errors
/// If the allocator's structures are not understood; then no page is known to be free.
pub fn free_pages(memory: Memory<'_>, place: VmcoreinfoLocation) -> Result<Pages, Unknown> {
    let note = Vmcoreinfo::read(memory, place)?;
    let tables = Tables::new(memory, &note)?;
    let counted = counted(&tables, &note)?;
    let mut blocks = Blocks {
        layout: Layout::of(&note)?,
        found: [0; ORDERS],
        pages: Pages::none(memory.end()),
        until: 0,
    };
    let size = blocks.layout.size;
    let mut take = |structure: Option<&[u8]>, page, range: &Range| match structure {
        Some(structure) => blocks.take(structure, page, range),
        None if page < blocks.until => Err(Unknown::Used(page)),
        None => Ok(()),
    };
    each_structure(memory, &tables, &note, size, &mut take)?;
    let mut both = blocks.found.iter().zip(counted).enumerate();
    match both.find(|(_, (found, counted))| **found != *counted) {
        None => Ok(blocks.pages),
        Some((order, (found, counted))) => Err(Unknown::Miscounted {
            order,
            found: *found,
            counted,
        }),
    }
}

/// Callback for the structure of a page, if it exists, with the page's number and the range that it
/// is in.
type Take<'a> = dyn FnMut(Option<&[u8]>, u64, &Range) -> Result<(), Unknown> + 'a;

/// Calls `take` for the `struct page` of each page of the guest. Where a page of the structures is
/// missing, `take` is called once for it, with `None`.
fn each_structure(
    memory: Memory<'_>,
    tables: &Tables<'_>,
    note: &Vmcoreinfo,
    length: u64,
    take: &mut Take<'_>,
) -> Result<(), Unknown> {
    let base = vmemmap(tables, note)?;
    let mut bytes = Vec::new();
    for range in memory.ranges {
        let (mut page, end) = (
            range.address / PAGE_SIZE,
            (range.address + range.length) / PAGE_SIZE,
        );
        while page < end {
            let at = base.wrapping_add(page * length);
            let Some((address, left)) = tables.translate(at) else {
                // No structures for these: a hole, or memory that the kernel does not have.
                take(None, page, range)?;
                page = (page + 1).max(page + (PAGE_SIZE - at % PAGE_SIZE) / length);
                continue;
            };
            let wanted = ((end - page) * length).min(PIECE);
            bytes.resize((left.min(wanted) / length * length) as usize, 0);
            if bytes.is_empty() {
                return Err(Unknown::Strange("size of a page's structure"));
            }
            memory.read(address, &mut bytes)?;
            for structure in bytes.chunks_exact(length as usize) {
                take(Some(structure), page, range)?;
                page += 1;
            }
        }
    }
    Ok(())
}

/// Number in the memory's file of a page of the guest.
fn in_file(page: u64, range: &Range) -> u64 {
    (range.offset + page * PAGE_SIZE - range.address) / PAGE_SIZE
}

/// Layout of `struct page`.
struct Layout {
    size: u64,
    count: usize,
    kind: usize,
    order: usize,
    buddy: u32,
    orders: u64,
}

impl Layout {
    fn of(note: &Vmcoreinfo) -> Result<Self, Unknown> {
        let size = note.number("SIZE(page)")?;
        let field = |name, bytes| field(note, size, name, bytes);
        let orders = note.number("LENGTH(zone.free_area)")?;
        if orders == 0 || orders > ORDERS as u64 {
            return Err(Unknown::Strange("number of block sizes"));
        }
        Ok(Self {
            count: field("OFFSET(page._refcount)", 4)?,
            // Where free pages have their kind, pages in use have their count of mappings.
            kind: field("OFFSET(page._mapcount)", 4)?,
            order: field("OFFSET(page.private)", 8)?,
            buddy: note.number("NUMBER(PAGE_BUDDY_MAPCOUNT_VALUE)")? as u32,
            orders,
            size,
        })
    }
}

/// Offset of a field of `bytes` bytes in `struct page`, which has `size` bytes.
fn field(note: &Vmcoreinfo, size: u64, name: &str, bytes: u64) -> Result<usize, Unknown> {
    let at = note.number(name)?;
    let fits = (32..=256).contains(&size) && at <= size - bytes;
    fits.then_some(at as usize)
        .ok_or(Unknown::Strange("size of a page's structure"))
}

/// Four bytes of a page's structure, at a [`field`].
fn word(structure: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*structure[at..].first_chunk().expect("fields are checked"))
}

/// Eight bytes of a page's structure, at a [`field`].
fn long(structure: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*structure[at..].first_chunk().expect("fields are checked"))
}

/// Free blocks that were found so far.
struct Blocks {
    layout: Layout,
    found: [u64; ORDERS],
    pages: Pages,
    /// The end of the block that the next page is in.
    until: u64,
}

impl Blocks {
    fn take(&mut self, structure: &[u8], page: u64, range: &Range) -> Result<(), Unknown> {
        let end = (range.address + range.length) / PAGE_SIZE;
        let layout = &self.layout;
        let unused = word(structure, layout.count) == 0;
        let is_head = unused && word(structure, layout.kind) == layout.buddy;
        if page < self.until {
            return match unused && !is_head {
                true => Ok(()),
                false => Err(Unknown::Used(page)),
            };
        }
        if !is_head {
            return Ok(());
        }
        let order = long(structure, layout.order);
        if order >= layout.orders || page % (1 << order) != 0 || page + (1 << order) > end {
            return Err(Unknown::Strange("block of free pages"));
        }
        self.found[order as usize] += 1;
        self.until = page + (1 << order);
        let first = in_file(page, range);
        self.pages.insert_all(first..first + (1 << order));
        Ok(())
    }
}

/// Virtual address of the array of all `struct page`.
fn vmemmap(tables: &Tables<'_>, note: &Vmcoreinfo) -> Result<u64, Unknown> {
    if let Ok(address) = note.address("vmemmap") {
        return Ok(address);
    }
    // Before Linux 6.11 only through the first section, whose lowest bits are flags.
    let sections = tables.word(note.address("mem_section")?)?;
    let map =
        tables.word(sections.wrapping_add(note.number("OFFSET(mem_section.section_mem_map)")?))?;
    Ok(map & !(PAGE_SIZE - 1))
}

/// Number of free blocks of each size by the kernel's count (`nr_free` of `struct free_area`, its
/// last field).
fn counted(tables: &Tables<'_>, note: &Vmcoreinfo) -> Result<[u64; ORDERS], Unknown> {
    let mut counted = [0_u64; ORDERS];
    let nodes = match note.address("node_data") {
        Ok(table) => {
            let count = note.number("LENGTH(node_data)")?.min(MAX_NODES);
            let nodes = (0..count).map(|node| tables.word(table.wrapping_add(node * 8)));
            nodes.collect::<Result<_, _>>()?
        }
        Err(_) => vec![note.address("contig_page_data")?],
    };
    let (area, orders) = (
        note.number("SIZE(free_area)")?,
        note.number("LENGTH(zone.free_area)")?,
    );
    let zones = note.number("OFFSET(pglist_data.node_zones)")?;
    let first = note.number("OFFSET(zone.free_area)")?;
    let size = note.number("SIZE(zone)")?;
    if !(16..=4096).contains(&area) || orders > ORDERS as u64 || size > 1 << 20 {
        return Err(Unknown::Strange("size of a zone"));
    }
    for node in nodes.into_iter().filter(|node| *node != 0) {
        let count = tables.word(node.wrapping_add(note.number("OFFSET(pglist_data.nr_zones)")?))?;
        // It is an int.
        let count = (count & u64::from(u32::MAX)).min(MAX_ZONES);
        for zone in 0..count {
            let areas = node
                .wrapping_add(zones)
                .wrapping_add(zone * size)
                .wrapping_add(first);
            for (order, total) in (1..=orders).zip(&mut counted) {
                let free = tables.word(areas.wrapping_add(order * area - 8))?;
                *total = total.saturating_add(free);
            }
        }
    }
    Ok(counted)
}

impl Memory<'_> {
    /// End of the range in the file.
    fn end(&self) -> u64 {
        let ends = self.ranges.iter();
        ends.map(|range| range.offset + range.length)
            .max()
            .unwrap_or(0)
    }

    /// Fills `out` from a physical address.
    fn read(&self, address: u64, out: &mut [u8]) -> Result<(), Unknown> {
        use std::os::unix::fs::FileExt;
        let unreadable = Unknown::Unreadable(address);
        let range = self.ranges.iter().find(|range| {
            let within = address.checked_sub(range.address);
            within.is_some_and(|at| at < range.length && out.len() as u64 <= range.length - at)
        });
        let range = range.ok_or_else(|| unreadable.clone())?;
        let offset = range.offset + (address - range.address);
        let read = self.file.read_exact_at(out, offset);
        read.map_err(|_| unreadable)
    }
}

#[cfg(test)]
mod tests;

//! Forecast of the pages of a running guest that will be left after it has dropped its page cache.

use super::{
    Layout, Memory, Tables, Unknown, Vmcoreinfo, VmcoreinfoLocation, each_structure, field,
    in_file, long, word,
};
use brisk_image::Forecast;

/// Use of a page, as its `struct page` shows it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Nothing.
    Free,
    /// A file's content, which no process has mapped.
    Cache,
    /// A process's own memory, or a file of a tmpfs.
    Own,
    Other,
}

/// Fields of `struct page` that show the use of a page, besides those that show whether it is free.
struct Fields {
    flags: usize,
    /// Offset of `compound_head`, in pages of a large folio that are not its first.
    head: usize,
    mapping: usize,
    /// Flag of pages on the LRU lists.
    listed: u64,
    /// Flag of pages without a file on a disk behind them.
    backed_by_swap: u64,
}

impl Fields {
    fn of(note: &Vmcoreinfo, size: u64) -> Result<Self, Unknown> {
        let field = |name| field(note, size, name, 8);
        let bit = |name| {
            let number = note.number(name)?;
            let fits = u32::try_from(number).ok();
            fits.and_then(|number| 1_u64.checked_shl(number))
                .ok_or(Unknown::Strange("flag of a page"))
        };
        Ok(Self {
            flags: field("OFFSET(page.flags)")?,
            head: field("OFFSET(page.compound_head)")?,
            mapping: field("OFFSET(page.mapping)")?,
            listed: bit("NUMBER(PG_lru)")?,
            backed_by_swap: bit("NUMBER(PG_swapbacked)")?,
        })
    }
}

/// Forecasts which pages will be left. The guest runs meanwhile, and a guest may lie: only the time
/// that a suspend takes may depend on the forecast.
///
/// # Errors
/// If the kernel's structures are not understood.
pub fn forecast(memory: Memory<'_>, place: VmcoreinfoLocation) -> Result<Forecast, Unknown> {
    let note = Vmcoreinfo::read(memory, place)?;
    let tables = Tables::new(memory, &note)?;
    let layout = Layout::of(&note)?;
    let fields = Fields::of(&note, layout.size)?;
    let mut forecast = Forecast::none(memory.end());
    let mut last = Use::Other;
    each_structure(
        memory,
        &tables,
        &note,
        layout.size,
        &mut |structure, page, range| {
            // Without a structure all up to the next one is unknown, and not expected.
            last = structure.map_or(Use::Free, |bytes| used(bytes, &layout, &fields, last));
            if matches!(last, Use::Own | Use::Other) {
                forecast.keep(in_file(page, range), last == Use::Own);
            }
            Ok(())
        },
    )?;
    Ok(forecast)
}

/// What a page is for, when the one before it is for `last`.
fn used(bytes: &[u8], layout: &Layout, fields: &Fields, last: Use) -> Use {
    let has = |flag| long(bytes, fields.flags) & flag != 0;
    if long(bytes, fields.head) & 1 == 1 {
        // Large pages are for one thing.
        last
    } else if word(bytes, layout.count) == 0 {
        Use::Free
    } else if !has(fields.listed) {
        Use::Other
    } else if has(fields.backed_by_swap) {
        Use::Own
    } else if word(bytes, layout.kind) == u32::MAX && long(bytes, fields.mapping) != 0 {
        Use::Cache
    } else {
        Use::Other
    }
}

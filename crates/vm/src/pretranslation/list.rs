//! List of blocks that the second processor visits.

use std::collections::HashSet;

use brisk_sys::pretranslation_layout::{HOLD, KERNEL_STACK, SET_CR4, SET_STACK, WAIT};

use super::kernel::Kernel;
use super::walk::Walker;

/// Fewest blocks that are worth a processor.
const FEWEST: usize = 1000;
/// Of this many blocks in a row, early in a boot, [`TAKEN`] are pretranslated.
const OF: usize = 7;
/// Blocks of [`OF`] that are pretranslated. The first processor translates the others meanwhile,
/// and does not catch up. Later it has been busy with other work, and is far behind.
const TAKEN: usize = 6;
/// A guest restored from a template does little else than translate: there one block of this many.
const OF_AFTER_BOOT: usize = 2;
/// Most blocks of such a guest: those of a short command.
const MOST_AFTER_BOOT: usize = 20_000;
/// CR4 before the kernel has set up its floating-point unit: PAE.
const CR4_PAE: u32 = 1 << 5;
/// CR4 after that: OSFXSR.
const CR4_OSFXSR: u32 = 1 << 9;
/// Blocks in a window that is searched for blocks that were translated before.
const WINDOW: usize = 64;
/// Blocks of a window that were translated before, from which on the window counts as repeated.
const AGAIN: usize = 60;

/// Blocks to visit.
pub(super) struct List {
    /// Words for the pretranslator, without the end mark.
    pub(super) words: Vec<u32>,
    /// Addresses on the pages that are mapped.
    pub(super) blocks: Vec<u64>,
}

impl List {
    /// Makes a list from the blocks in the order of their translation; `None` if it is too short.
    ///
    /// The list has two stops: code that is translated before the kernel patches it is translated
    /// in vain, and slows the patching down, because QEMU looks for translations of what is
    /// overwritten.
    pub(super) fn new(kernel: &Kernel<'_>, blocks: Vec<u64>) -> Option<Self> {
        let change = change(&blocks)?;
        let (early, late) = blocks.split_at(change);
        let (traced, site) = tracing(kernel, early).unwrap_or_default();
        let (first, second) = early.split_at(traced);
        let mut walker = Walker::new(kernel, &blocks);
        let mut words = some(&mut walker, first);
        words.extend(wait(kernel, site));
        words.extend(some(&mut walker, second));
        words.extend([SET_CR4, CR4_PAE | CR4_OSFXSR]);
        words.extend(wait(kernel, kernel.last_call_patched()));
        words.extend(with_stacks(&mut walker, late, 1));
        (words.len() >= FEWEST).then_some(Self { words, blocks })
    }

    /// A list without blocks, which the host writes later.
    pub(super) fn later() -> Self {
        Self {
            words: vec![HOLD],
            blocks: Vec::new(),
        }
    }

    /// Makes a list from the blocks of a guest that was restored from a template after its kernel
    /// had patched itself.
    pub(super) fn after_boot(kernel: &Kernel<'_>, mut blocks: Vec<u64>) -> Option<Self> {
        blocks.truncate(MOST_AFTER_BOOT);
        let mut walker = Walker::new(kernel, &blocks);
        let mut words = vec![SET_CR4, CR4_PAE | CR4_OSFXSR];
        words.extend(with_stacks(&mut walker, &blocks, OF_AFTER_BOOT));
        (words.len() >= FEWEST).then_some(Self { words, blocks })
    }
}

/// The blocks that can be visited, without those that are left to the first processor.
fn some(walker: &mut Walker<'_>, blocks: &[u64]) -> Vec<u32> {
    let safe = blocks.iter().filter(|&&block| walker.is_safe(block));
    let taken = safe.enumerate().filter(|(at, _)| at % OF < TAKEN);
    taken.map(|(_, block)| *block as u32).collect()
}

/// One of `of` blocks that can be visited, with the stack segments that they were translated for. A
/// block that was translated twice was first translated for the kernel's segment, then for none,
/// which an interrupt of a program leaves. QEMU distinguishes the two.
fn with_stacks(walker: &mut Walker<'_>, blocks: &[u64], of: usize) -> Vec<u32> {
    let mut seen = HashSet::new();
    let firsts = blocks.iter().map(|block| (block, seen.insert(block)));
    let safe = firsts.filter(|(block, _)| walker.is_safe(**block));
    let mut stack = KERNEL_STACK;
    let mut words = Vec::new();
    for (block, first) in safe.step_by(of) {
        let wanted = if first { KERNEL_STACK } else { 0 };
        if wanted != stack {
            words.extend([SET_STACK, wanted]);
            stack = wanted;
        }
        words.push(*block as u32);
    }
    words
}

/// Words that wait for an instruction to be patched.
fn wait(kernel: &Kernel<'_>, site: Option<u64>) -> Vec<u32> {
    let expected = site.and_then(|site| Some((site, kernel.patched(site)?)));
    expected.map_or(Vec::new(), |(site, bytes)| vec![WAIT, site as u32, bytes])
}

/// Index at which the kernel sets up its floating-point unit: the processor is in another mode
/// then, and all blocks are translated once more; other repetitions are rare. Soon after that the
/// kernel patches itself.
fn change(blocks: &[u64]) -> Option<usize> {
    let mut seen = HashSet::new();
    let again: Vec<bool> = blocks.iter().map(|block| !seen.insert(block)).collect();
    let mut windows = again.chunks_exact(WINDOW);
    let window = windows.position(|w| w.iter().filter(|again| **again).count() >= AGAIN)?;
    Some(window.saturating_sub(1) * WINDOW)
}

/// Index at which the calls of function tracing are removed: before, a block begins after each such
/// call. Also the highest of those that were executed, since they are removed in order.
fn tracing(kernel: &Kernel<'_>, blocks: &[u64]) -> Option<(usize, Option<u64>)> {
    let call = |block: &u64| {
        let site = block.checked_sub(5)?;
        kernel.is_traced(site).then_some(site)
    };
    let last = blocks.iter().rposition(|block| call(block).is_some())?;
    Some((last + 1, blocks.iter().filter_map(call).max()))
}

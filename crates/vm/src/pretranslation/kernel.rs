//! The kernel's code: its addresses, and its bytes before and after patching.

use std::ops::Range;

use object::LittleEndian as LE;
use object::elf::{PF_W, PF_X};
use object::read::elf::ProgramHeader;

use crate::kernel::elf::{data, loads, pvh_entry, segments};

/// Where the kernel is linked (`__START_KERNEL_map`), 2 GiB to the end of the address space.
const LINKED: u64 = 0xffff_ffff_8000_0000;
/// A call of an address.
const CALL: u8 = 0xe8;
/// No operation, in five bytes.
const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0, 0];
/// Longest instruction, bytes.
const LONGEST: usize = 15;

/// A kernel and its code outside of the init sections. The memory of init sections is reused later,
/// and a second processor that is slow would execute what was written there.
pub(super) struct Kernel<'a> {
    addresses: Range<u64>,
    physical: u64,
    original: &'a [u8],
    /// The code after patching; empty if unknown.
    patched: &'a [u8],
    /// Physical address of its entry.
    pub(super) entry: u32,
}

impl<'a> Kernel<'a> {
    /// `patched`: the code, from its beginning, after the kernel has booted.
    pub(super) fn new(vmlinux: &'a [u8], patched: &'a [u8]) -> Option<Self> {
        let entry = u32::try_from(pvh_entry(vmlinux)?).ok()?;
        let mut texts = loads(segments(vmlinux).ok()?).filter(|segment| {
            let flags = segment.p_flags(LE);
            let code = flags.contains(PF_X) && !flags.contains(PF_W);
            code && segment.p_vaddr(LE) >= LINKED
        });
        let (Some(text), None) = (texts.next(), texts.next()) else {
            return None;
        };
        let original = data(text, vmlinux).ok()?;
        let start = text.p_vaddr(LE);
        Some(Self {
            addresses: start..start.checked_add(original.len() as u64)?,
            physical: text.p_paddr(LE),
            original,
            patched,
            entry,
        })
    }

    /// Whether code outside of the init sections is at an address.
    pub(super) fn holds(&self, address: u64) -> bool {
        self.addresses.contains(&address)
    }

    /// Guest-physical memory of the code.
    pub(super) fn text(&self) -> Range<u64> {
        self.physical..self.physical + self.original.len() as u64
    }

    /// Physical address of the page that an address is on.
    pub(super) fn page(&self, address: u64) -> Option<u64> {
        Some((self.physical + self.offset(address)? as u64) & !0xfff)
    }

    fn offset(&self, address: u64) -> Option<usize> {
        let within = self.holds(address);
        within.then(|| (address - self.addresses.start) as usize)
    }

    /// Bytes of the instruction at an address and after it, before patching and after.
    pub(super) fn forms(&self, address: u64) -> impl Iterator<Item = &'a [u8]> {
        let at = self.offset(address).unwrap_or(usize::MAX);
        let [original, patched] = [self.original, self.patched].map(|bytes| {
            let bytes = bytes.get(at..).unwrap_or_default();
            &bytes[..bytes.len().min(LONGEST)]
        });
        let patched = if patched == original { &[] } else { patched };
        [original, patched]
            .into_iter()
            .filter(|bytes| !bytes.is_empty())
    }

    /// The first bytes of an instruction after patching.
    pub(super) fn patched(&self, address: u64) -> Option<u32> {
        let bytes = self.patched.get(self.offset(address)?..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    }

    /// Whether a function begins there with a call of function tracing that is removed.
    pub(super) fn is_traced(&self, address: u64) -> bool {
        self.offset(address).is_some_and(|at| {
            self.original.get(at) == Some(&CALL)
                && self.patched.get(at..).is_some_and(|b| b.starts_with(&NOP))
        })
    }

    /// The last of the calls of paravirtual functions that are replaced by instructions, which
    /// happens in the order of their addresses.
    pub(super) fn last_call_patched(&self) -> Option<u64> {
        let mut pairs = self.original.windows(2).zip(self.patched);
        let last = pairs.rposition(|(bytes, patched)| {
            matches!(*bytes, [0xff, 0x14 | 0x15]) && *patched != 0xff
        })?;
        Some(self.addresses.start + last as u64)
    }
}

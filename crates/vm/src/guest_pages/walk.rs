//! Walk through the kernel's page tables (Intel SDM volume 3, 4.5).

use super::{Memory, Unknown, Vmcoreinfo};

/// Where the kernel's own code and data are mapped (`__START_KERNEL_map`).
const KERNEL: u64 = 0xffff_ffff_8000_0000;
const PRESENT: u64 = 1;
/// The entry is no table but memory.
const LARGE: u64 = 1 << 7;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

pub(super) struct Tables<'a> {
    memory: Memory<'a>,
    top: u64,
    levels: u32,
}

impl<'a> Tables<'a> {
    pub(super) fn new(memory: Memory<'a>, note: &Vmcoreinfo) -> Result<Self, Unknown> {
        // Addresses in tables have another bit where memory is encrypted.
        if note.number("NUMBER(sme_mask)").unwrap_or(0) != 0 {
            return Err(Unknown::Strange("mask of encrypted memory"));
        }
        let top = note.address("init_top_pgt")?.wrapping_sub(KERNEL);
        let five = note.number("NUMBER(pgtable_l5_enabled)").unwrap_or(0) == 1;
        Ok(Self {
            memory,
            top: top.wrapping_add(note.number("NUMBER(phys_base)")?),
            levels: if five { 5 } else { 4 },
        })
    }

    /// Physical address, and the number of bytes that are contiguous from there.
    pub(super) fn translate(&self, address: u64) -> Option<(u64, u64)> {
        let mut table = self.top;
        for level in (0..self.levels).rev() {
            let shift = 12 + 9 * level;
            let index = address >> shift & 0x1ff;
            let mut entry = [0; 8];
            let at = table.wrapping_add(index * 8);
            self.memory.read(at, &mut entry).ok()?;
            let entry = u64::from_le_bytes(entry);
            if entry & PRESENT == 0 {
                return None;
            }
            if level == 0 || (level <= 2 && entry & LARGE != 0) {
                let size = 1 << shift;
                let within = address & (size - 1);
                return Some(((entry & ADDRESS & !(size - 1)) + within, size - within));
            }
            table = entry & ADDRESS;
        }
        None
    }

    /// Eight bytes at a virtual address of the kernel's; they must not cross a page.
    pub(super) fn word(&self, address: u64) -> Result<u64, Unknown> {
        let unreadable = || Unknown::Unreadable(address);
        let (at, left) = self.translate(address).ok_or_else(unreadable)?;
        if left < 8 {
            return Err(unreadable());
        }
        let mut bytes = [0; 8];
        self.memory.read(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

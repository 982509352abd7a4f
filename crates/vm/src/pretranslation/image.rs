//! Memory of the second processor, and the ELF file that starts it.

use std::collections::BTreeMap;

use brisk_image::{PAGE, PAGE_SIZE};
use brisk_sys::pretranslation_layout::{
    END, GDT, GDT_EARLY, GDT_LATE, IDT, IDT_POINTER, KERNEL, KERNEL_STACK, NEXT, PATIENCE,
    SET_STACK, STACK, STACK_SEGMENT, TABLES, TABLES_EARLY, TSS,
};
use brisk_sys::{PRETRANSLATION_BASE, PRETRANSLATION_VIRTUAL, Pretranslator, pretranslator};

use super::kernel::Kernel;
use super::list::List;

/// Most bytes of memory, for code, page tables and list: to 0x90000, well below the extended BIOS
/// data area; the kernel's own needs below 1 MiB have room beneath and above.
pub(super) const MAX: u64 = 0x6_0000;
/// Number of times that a wait looks whether the kernel has patched its code, 4 to 10 ns each: ten
/// times as long as the kernel takes.
const LOOKS: u32 = 400_000_000;

/// The ELF file; `None` if it would be too large, or brisk has no code for it.
pub(super) fn elf(kernel: &Kernel<'_>, list: &List) -> Option<Vec<u8>> {
    let entry = PRETRANSLATION_BASE + pretranslator()?.entry;
    Some(wrapped(&memory(kernel, list)?, entry))
}

/// Initial content of the memory from [`PRETRANSLATION_BASE`].
pub(super) fn memory(kernel: &Kernel<'_>, list: &List) -> Option<Vec<u8>> {
    let program = pretranslator()?;
    let mut memory = Memory::new();
    memory.bytes[..program.code.len()].copy_from_slice(program.code);
    tables(&mut memory, kernel, list)?;
    let start = memory.bytes.len();
    let room = usize::try_from(MAX).ok()?.checked_sub(start)? / size_of::<u32>();
    // What does not fit is left out, from the end, where commands are those of stack segments.
    let most = room.checked_sub(1)?.min(list.words.len());
    let words = &list.words[..most];
    let whole = words.strip_suffix(&[SET_STACK]).unwrap_or(words);
    for word in whole.iter().chain([&END]) {
        memory.bytes.extend(word.to_le_bytes());
    }
    memory.put(NEXT, PRETRANSLATION_VIRTUAL + start as u64);
    memory.put32(KERNEL, kernel.entry);
    memory.put32(PATIENCE, LOOKS);
    memory.put32(STACK_SEGMENT, KERNEL_STACK);
    descriptors(&mut memory, &program);
    Some(memory.bytes)
}

/// Memory of the second processor, from [`PRETRANSLATION_BASE`].
struct Memory {
    bytes: Vec<u8>,
}

impl Memory {
    /// Code, data, and the two highest page tables.
    fn new() -> Self {
        Self {
            bytes: vec![0; (TABLES + PAGE_SIZE) as usize],
        }
    }

    fn put(&mut self, at: u64, value: u64) {
        self.bytes[at as usize..][..8].copy_from_slice(&value.to_le_bytes());
    }

    fn put32(&mut self, at: u64, value: u32) {
        self.bytes[at as usize..][..4].copy_from_slice(&value.to_le_bytes());
    }

    fn put16(&mut self, at: u64, value: u16) {
        self.bytes[at as usize..][..2].copy_from_slice(&value.to_le_bytes());
    }

    /// A new page table, and its offset.
    fn table(&mut self) -> u64 {
        let at = self.bytes.len() as u64;
        self.bytes.resize(self.bytes.len() + PAGE, 0);
        at
    }
}

const PRESENT: u64 = 1;
const WRITABLE: u64 = 2;
/// A page of 2 MiB.
const LARGE: u64 = 0x80;

/// Index of an address in the page table of a level, the lowest being 0.
const fn index(address: u64, level: u32) -> u64 {
    (address >> (12 + 9 * level)) & 0x1ff
}

/// Writes the page tables: this memory at [`PRETRANSLATION_VIRTUAL`], and the kernel's pages with
/// code where the kernel has them.
fn tables(memory: &mut Memory, kernel: &Kernel<'_>, list: &List) -> Option<()> {
    let mut known = BTreeMap::new();
    let own = (0..MAX / PAGE_SIZE).map(|page| page * PAGE_SIZE);
    for page in own {
        let leaf = (PRETRANSLATION_BASE + page) | PRESENT | WRITABLE;
        map(memory, &mut known, PRETRANSLATION_VIRTUAL + page, leaf);
    }
    for address in &list.blocks {
        map(
            memory,
            &mut known,
            *address,
            kernel.page(*address)? | PRESENT,
        );
    }
    // While paging is switched on, the code is where it was.
    let all = memory.bytes[TABLES as usize..][..PAGE].to_vec();
    memory.bytes[TABLES_EARLY as usize..][..PAGE].copy_from_slice(&all);
    let [middle, low] = [memory.table(), memory.table()];
    let entry = |table: u64| (PRETRANSLATION_BASE + table) | PRESENT | WRITABLE;
    memory.put(TABLES_EARLY, entry(middle));
    memory.put(middle, entry(low));
    memory.put(low, LARGE | PRESENT | WRITABLE);
    (memory.bytes.len() as u64 <= MAX).then_some(())
}

/// Maps a page, with the page tables that it needs.
fn map(memory: &mut Memory, known: &mut BTreeMap<(u32, u64), u64>, address: u64, leaf: u64) {
    let mut table = TABLES;
    for level in (1..=3).rev() {
        let place = (level, address >> (12 + 9 * level));
        let next = *known.entry(place).or_insert_with(|| memory.table());
        let entry = (PRETRANSLATION_BASE + next) | PRESENT | WRITABLE;
        memory.put(table + 8 * index(address, level), entry);
        table = next;
    }
    memory.put(table + 8 * index(address, 0), leaf);
}

/// Writes segments, task state and interrupt table.
fn descriptors(memory: &mut Memory, program: &Pretranslator) {
    let task = PRETRANSLATION_VIRTUAL + TSS;
    let task_low = 0x0000_8900_0000_0067 | (task & 0xff_ffff) << 16 | (task >> 24 & 0xff) << 56;
    let segments = [
        0,
        0x00cf_9b00_0000_ffff,
        0x00cf_9300_0000_ffff,
        0x00cf_9300_0000_ffff,
        0x00af_9b00_0000_ffff,
        task_low,
        task >> 32,
    ];
    for (at, segment) in (GDT..).step_by(8).zip(segments) {
        memory.put(at, segment);
    }
    let limit = (segments.len() * 8 - 1) as u16;
    memory.put16(GDT_EARLY, limit);
    memory.put32(GDT_EARLY + 2, (PRETRANSLATION_BASE + GDT) as u32);
    memory.put16(GDT_LATE, limit);
    memory.put(GDT_LATE + 2, PRETRANSLATION_VIRTUAL + GDT);
    // The first stack of the interrupt stack table; no I/O permissions.
    memory.put(TSS + 0x24, PRETRANSLATION_VIRTUAL + STACK);
    memory.put16(TSS + 0x66, 0x68);
    let handler = PRETRANSLATION_VIRTUAL + program.fault;
    let vectors = 32;
    for vector in 0..vectors {
        // A 64-bit interrupt gate for segment 0x20, with that stack.
        let gate = (handler & 0xffff) | 0x20 << 16 | 0x8e01 << 32 | (handler >> 16 & 0xffff) << 48;
        memory.put(IDT + 16 * vector, gate);
        memory.put(IDT + 16 * vector + 8, handler >> 32);
    }
    memory.put16(IDT_POINTER, (vectors * 16 - 1) as u16);
    memory.put(IDT_POINTER + 2, PRETRANSLATION_VIRTUAL + IDT);
}

/// An ELF with one segment and the note of a PVH kernel.
fn wrapped(memory: &[u8], entry: u64) -> Vec<u8> {
    const NOTE: usize = 0x100;
    let mut note = Vec::new();
    for word in [4_u32, 8, 18] {
        note.extend(word.to_le_bytes());
    }
    note.extend(b"Xen\0");
    note.extend(entry.to_le_bytes());
    let length = memory.len() as u64;
    let mut elf = Vec::with_capacity(PAGE + memory.len());
    elf.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    // An executable for x86-64; two program headers after this one.
    elf.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for word in [PRETRANSLATION_BASE, 64, 0] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 2, 0, 64, 0, 0, 0, 0, 0]);
    // Type and flags, offset, addresses, sizes, alignment: loaded, and the note.
    let mut header = |kind: u32, flags: u32, words: [u64; 6]| {
        elf.extend(kind.to_le_bytes());
        elf.extend(flags.to_le_bytes());
        for word in words {
            elf.extend(word.to_le_bytes());
        }
    };
    header(
        1,
        7,
        [
            PAGE_SIZE,
            PRETRANSLATION_BASE,
            PRETRANSLATION_BASE,
            length,
            length,
            PAGE_SIZE,
        ],
    );
    let size = note.len() as u64;
    header(4, 4, [NOTE as u64, 0, 0, size, size, 4]);
    elf.resize(NOTE, 0);
    elf.extend(note);
    elf.resize(PAGE, 0);
    elf.extend(memory);
    elf
}

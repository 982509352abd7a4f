//! Code that a second processor of a guest executes for TB pretranslation.
//!
//! Machine code that only the guest runs; here it is data. `brisk_vm::pretranslation` explains how
//! it is used and why, and makes the page of data that the code works with.

/// Physical address of the code: the kernel is kept from using this memory, and a processor can
/// start below 1 MiB.
pub const PRETRANSLATION_BASE: u64 = 0x3_0000;
/// Virtual address of [`PRETRANSLATION_BASE`], where no kernel has code or data of its own.
pub const PRETRANSLATION_VIRTUAL: u64 = 0xffff_9f00_0000_0000;

/// Offsets of the code's data, from [`PRETRANSLATION_BASE`]. The data are on pages without code,
/// since QEMU takes a write to a page with code for a change of the code.
pub mod pretranslation_layout {
    /// Virtual address of the next word of the list: 64 bits. A word has 32 bits: the lower half of
    /// a block's address, in the upper 2 GiB, or one of the commands below.
    pub const NEXT: u64 = 0x1000;
    /// Address that the processor jumps to: 64 bits.
    pub const TARGET: u64 = 0x1008;
    /// Physical address of the kernel's entry: 32 bits.
    pub const KERNEL: u64 = 0x1010;
    /// Number of blocks that were visited: 32 bits.
    pub const VISITED: u64 = 0x1014;
    /// Number of waits that ended before the kernel had patched its code: 32 bits.
    pub const MISSED: u64 = 0x1018;
    /// Number of times that a wait looks at the kernel's code: 32 bits. It is no time, because on a
    /// busy host the kernel is slow, and so is this count.
    pub const PATIENCE: u64 = 0x101c;
    /// Segments: null, 32-bit code (8), data (0x10), the kernel's stack segment (0x18), 64-bit
    /// code (0x20), task (0x28, 16 bytes).
    pub const GDT: u64 = 0x1020;
    /// Length and physical address of the segments, for `lgdt` before paging.
    pub const GDT_EARLY: u64 = 0x1060;
    /// Length and virtual address of the segments.
    pub const GDT_LATE: u64 = 0x1070;
    /// Length and virtual address of the interrupt table.
    pub const IDT_POINTER: u64 = 0x1080;
    /// Stack segment with which blocks are visited: 32 bits.
    pub const STACK_SEGMENT: u64 = 0x1090;
    /// Word that [`HOLD`] waits for: 32 bits. The host writes [`GO`], or another number than zero,
    /// at which the processor halts.
    pub const SIGNAL: u64 = 0x1094;
    /// Task state, for the stack that faults switch to.
    pub const TSS: u64 = 0x1100;
    /// Interrupt table, 32 entries.
    pub const IDT: u64 = 0x1200;
    /// The stack's upper end.
    pub const STACK: u64 = 0x2000;
    /// Page tables with an identity mapping, while paging is switched on.
    pub const TABLES_EARLY: u64 = 0x2000;
    /// Page tables without the identity mapping.
    pub const TABLES: u64 = 0x3000;

    /// The following word is the new CR4.
    pub const SET_CR4: u32 = 1;
    /// End of the list.
    pub const END: u32 = 2;
    /// The following words are an address, and the value that the kernel will write there.
    pub const WAIT: u32 = 3;
    /// Wait until the host has written more of the list, and other page tables.
    pub const HOLD: u32 = 4;
    /// The following word is the stack segment.
    pub const SET_STACK: u32 = 5;

    /// The kernel's stack segment.
    pub const KERNEL_STACK: u32 = 0x18;
    /// The list continues.
    pub const GO: u32 = 1;
    /// Port of QEMU's `fw_cfg` that selects an entry; the data port is the next one.
    pub const SELECTOR: u16 = 0x510;
    /// Number of the `fw_cfg` entry (whether there is a boot menu) that is not zero if there is
    /// more to pretranslate for this guest.
    pub const MENU: u16 = 0x0e;
}

/// Machine code of the pretranslator.
#[derive(Debug, Clone, Copy)]
pub struct Pretranslator {
    /// Machine code for [`PRETRANSLATION_BASE`], less than a page. It begins with the code that the
    /// second processor executes first, in real mode.
    pub code: &'static [u8],
    /// Offset of the code that the first processor executes, entered like a PVH kernel.
    pub entry: u64,
    /// Offset of the handler of all exceptions.
    pub fault: u64,
}

#[cfg(not(target_arch = "x86_64"))]
/// No code: the assembler of the host does not know such instructions.
#[must_use]
pub const fn pretranslator() -> Option<Pretranslator> {
    None
}

#[cfg(target_arch = "x86_64")]
pub use x86::pretranslator;

#[cfg(target_arch = "x86_64")]
mod x86 {
    #![expect(unsafe_code, reason = "refers to what the assembler made")]

    use super::pretranslation_layout::{
        END, GDT_EARLY, GDT_LATE, GO, HOLD, IDT_POINTER, KERNEL, MENU, MISSED, NEXT, PATIENCE,
        SELECTOR, SET_CR4, SET_STACK, SIGNAL, STACK_SEGMENT, TABLES, TABLES_EARLY, TARGET, VISITED,
    };
    use super::{PRETRANSLATION_BASE, PRETRANSLATION_VIRTUAL, Pretranslator};

    std::arch::global_asm!(
        ".pushsection .rodata.brisk_pretranslator, \"a\", @progbits",
        ".globl brisk_pretranslator_start, brisk_pretranslator_fault, brisk_pretranslator_entry, brisk_pretranslator_end",
        ".hidden brisk_pretranslator_start, brisk_pretranslator_fault, brisk_pretranslator_entry, brisk_pretranslator_end",
        ".balign 16",
        "brisk_pretranslator_start:",
        // The second processor, after its start-up message: CS is the base, the rest is zero.
        ".code16",
        "cli",
        "lgdtl %cs:{GDT_EARLY}",
        "movl %cr0, %eax",
        "orb $1, %al",
        "movl %eax, %cr0",
        "ljmpl $0x08, $({BASE} + (2f - brisk_pretranslator_start))",
        ".code32",
        "2:",
        "movl $0x10, %eax",
        "movl %eax, %ds",
        "movl %eax, %ss",
        // PAE, as long mode needs it; nothing else yet, like the kernel.
        "movl $0x20, %eax",
        "movl %eax, %cr4",
        "movl ${BASE} + {TABLES_EARLY}, %eax",
        "movl %eax, %cr3",
        // EFER: long mode, system calls, no-execute.
        "movl $0xc0000080, %ecx",
        "rdmsr",
        "orl $0x901, %eax",
        "wrmsr",
        // PG AM WP NE ET MP PE, as the kernel has it: a block is translated for a processor in a
        // certain mode.
        "movl $0x80050033, %eax",
        "movl %eax, %cr0",
        "ljmpl $0x20, $({BASE} + (2f - brisk_pretranslator_start))",
        ".code64",
        "2:",
        "movabsq $({VIRTUAL} + (2f - brisk_pretranslator_start)), %rax",
        "jmpq *%rax",
        "2:",
        "lgdt brisk_pretranslator_start + {GDT_LATE}(%rip)",
        "movl ${BASE} + {TABLES}, %eax",
        "movq %rax, %cr3",
        "lidt brisk_pretranslator_start + {IDT_POINTER}(%rip)",
        "movl $0x28, %eax",
        "ltr %ax",
        "xorl %eax, %eax",
        "movl %eax, %ds",
        "movl %eax, %es",
        "movl %eax, %fs",
        "movl %eax, %gs",
        // Every exception comes here, on a stack of its own and with a null stack segment.
        "brisk_pretranslator_fault:",
        "movl brisk_pretranslator_start + {STACK_SEGMENT}(%rip), %eax",
        "movl %eax, %ss",
        "pushq $2",
        "popfq",
        "3:",
        "movq brisk_pretranslator_start + {NEXT}(%rip), %rsi",
        "movl (%rsi), %edi",
        "addq $4, %rsi",
        "movq %rsi, brisk_pretranslator_start + {NEXT}(%rip)",
        "testl %edi, %edi",
        "jns 7f",
        "movslq %edi, %rdi",
        "incl brisk_pretranslator_start + {VISITED}(%rip)",
        "movq %rdi, brisk_pretranslator_start + {TARGET}(%rip)",
        // With nothing in the registers every access to memory is one to an address that is not
        // mapped.
        "xorl %eax, %eax",
        "xorl %ebx, %ebx",
        "xorl %ecx, %ecx",
        "xorl %edx, %edx",
        "xorl %esi, %esi",
        "xorl %edi, %edi",
        "xorl %ebp, %ebp",
        "xorl %esp, %esp",
        "xorl %r8d, %r8d",
        "xorl %r9d, %r9d",
        "xorl %r10d, %r10d",
        "xorl %r11d, %r11d",
        "xorl %r12d, %r12d",
        "xorl %r13d, %r13d",
        "xorl %r14d, %r14d",
        "xorl %r15d, %r15d",
        "jmpq *brisk_pretranslator_start + {TARGET}(%rip)",
        "7:",
        "cmpl ${END}, %edi",
        "je 9f",
        "cmpl ${HOLD}, %edi",
        "je 5f",
        "movl (%rsi), %ecx",
        "addq $4, %rsi",
        "movq %rsi, brisk_pretranslator_start + {NEXT}(%rip)",
        "cmpl ${SET_CR4}, %edi",
        "jne 8f",
        "movq %rcx, %cr4",
        "jmp 3b",
        "8:",
        "cmpl ${SET_STACK}, %edi",
        "jne 8f",
        "movl %ecx, brisk_pretranslator_start + {STACK_SEGMENT}(%rip)",
        "movl %ecx, %ss",
        "jmp 3b",
        // Until the kernel has patched what is there.
        "8:",
        "movslq %ecx, %rdi",
        "movl (%rsi), %ecx",
        "addq $4, %rsi",
        "movq %rsi, brisk_pretranslator_start + {NEXT}(%rip)",
        "movl brisk_pretranslator_start + {PATIENCE}(%rip), %ebx",
        "4:",
        "cmpl %ecx, (%rdi)",
        "je 3b",
        "decl %ebx",
        "jnz 4b",
        "incl brisk_pretranslator_start + {MISSED}(%rip)",
        "jmp 3b",
        "5:",
        "movl brisk_pretranslator_start + {SIGNAL}(%rip), %eax",
        "testl %eax, %eax",
        "jz 5b",
        "cmpl ${GO}, %eax",
        "jne 9f",
        "movw ${SELECTOR}, %dx",
        "movw ${MENU}, %ax",
        "outw %ax, %dx",
        "incw %dx",
        "inb %dx, %al",
        "testb %al, %al",
        "jz 9f",
        // What was mapped is no longer what is.
        "movq %cr3, %rax",
        "movq %rax, %cr3",
        "jmp 3b",
        "9:",
        "cli",
        "hlt",
        "jmp 9b",
        // The first processor, in protected mode without paging, EBX with the boot parameters.
        ".code32",
        "brisk_pretranslator_entry:",
        // To all but self: INIT, then start at the base.
        "movl $0xfee00300, %eax",
        "movl $0x000c4500, (%eax)",
        "movl $0x000c4600 + ({BASE} >> 12), (%eax)",
        // Without its local APIC, as on a machine that has none, interrupts come from the PIC.
        "movl $0x1b, %ecx",
        "rdmsr",
        "andl $0xfffff7ff, %eax",
        "wrmsr",
        "jmpl *{BASE} + {KERNEL}",
        "brisk_pretranslator_end:",
        ".code64",
        ".popsection",
        BASE = const PRETRANSLATION_BASE,
        VIRTUAL = const PRETRANSLATION_VIRTUAL,
        NEXT = const NEXT,
        TARGET = const TARGET,
        KERNEL = const KERNEL,
        VISITED = const VISITED,
        MISSED = const MISSED,
        PATIENCE = const PATIENCE,
        GDT_EARLY = const GDT_EARLY,
        GDT_LATE = const GDT_LATE,
        IDT_POINTER = const IDT_POINTER,
        TABLES_EARLY = const TABLES_EARLY,
        TABLES = const TABLES,
        SET_CR4 = const SET_CR4,
        SET_STACK = const SET_STACK,
        STACK_SEGMENT = const STACK_SEGMENT,
        SIGNAL = const SIGNAL,
        HOLD = const HOLD,
        GO = const GO,
        MENU = const MENU,
        SELECTOR = const SELECTOR,
        END = const END,
        options(att_syntax),
    );

    // SAFETY: labels of the assembly above; only their addresses are used, and what lies between
    // the first and the last is initialised and never written.
    unsafe extern "C" {
        static brisk_pretranslator_start: u8;
        static brisk_pretranslator_fault: u8;
        static brisk_pretranslator_entry: u8;
        static brisk_pretranslator_end: u8;
    }

    /// The machine code, on machines whose assembler can make it.
    #[must_use]
    pub fn pretranslator() -> Option<Pretranslator> {
        let start = &raw const brisk_pretranslator_start;
        let offset = |label: *const u8| label.addr() - start.addr();
        let length = offset(&raw const brisk_pretranslator_end);
        // SAFETY: the bytes from the first label to the last, in a section of constants.
        let code = unsafe { std::slice::from_raw_parts(start, length) };
        Some(Pretranslator {
            code,
            entry: offset(&raw const brisk_pretranslator_entry) as u64,
            fault: offset(&raw const brisk_pretranslator_fault) as u64,
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_code_fits_into_its_page() {
            let program = pretranslator().unwrap();
            assert!(program.code.len() < 4096, "{}", program.code.len());
            // cli, in real mode; then what 64-bit code and 32-bit code begin with.
            assert_eq!(program.code[0], 0xfa);
            let at = |offset: u64| &program.code[offset as usize..];
            assert_eq!(at(program.fault)[..2], [0x8b, 0x05]);
            assert_eq!(at(program.entry)[..5], [0xb8, 0, 0x03, 0xe0, 0xfe]);
        }
    }
}

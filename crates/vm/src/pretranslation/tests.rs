use std::os::unix::fs::FileExt;

use proptest::prelude::*;

use super::image;
use super::kernel::Kernel;
use super::list::List;
use super::walk::Walker;
use super::*;
use crate::kernel::pvh_entry;
use brisk_sys::PRETRANSLATION_VIRTUAL;
use brisk_sys::pretranslation_layout::{
    END, GO, HOLD, KERNEL_STACK, NEXT, SET_CR4, SET_STACK, SIGNAL, TABLES, WAIT,
};

const TEXT: u64 = 0xffff_ffff_8100_0000;
const INIT: u64 = 0xffff_ffff_8200_0000;
const PAGES: usize = 8;

/// A kernel with code that stays and code that does not, and a PVH note.
fn vmlinux(text: &[u8], init: &[u8]) -> Vec<u8> {
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
    for word in [0x100_0000_u64, 64, 0] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 3, 0, 64, 0, 0, 0, 0, 0]);
    let note = b"\x04\0\0\0\x04\0\0\0\x12\0\0\0Xen\0\x50\x08\x00\x01";
    let size = (PAGES * 4096) as u64;
    let segments = [
        (1_u32, 5_u32, 0x1000, TEXT, size),
        (1, 7, 0x1000 + size, INIT, size),
        (4, 4, 0x200, 0, note.len() as u64),
    ];
    for (kind, flags, offset, address, size) in segments {
        elf.extend(kind.to_le_bytes());
        elf.extend(flags.to_le_bytes());
        for word in [offset, address, address & 0x7fff_ffff, size, size, 4] {
            elf.extend(word.to_le_bytes());
        }
    }
    elf.resize(0x200, 0);
    elf.extend(note);
    elf.resize(0x1000, 0);
    for code in [text, init] {
        elf.extend(code);
        elf.resize(elf.len() + PAGES * 4096 - code.len(), 0xcc);
    }
    elf
}

/// Whether a block at the beginning of the code that stays can be visited, with its page mapped.
fn is_safe(original: &[u8], patched: &[u8]) -> bool {
    let elf = vmlinux(original, &[]);
    let kernel = Kernel::new(&elf, patched).unwrap();
    Walker::new(&kernel, &[TEXT]).is_safe(TEXT)
}

#[test]
fn a_block_that_comes_to_memory_is_safe() {
    let safe: [&[u8]; 8] = [
        b"\x48\x8b\x03",                 // mov (%rbx),%rax
        b"\x55",                         // push %rbp
        b"\xc3",                         // ret
        b"\x89\xc8\xe8\x00\x00\x00\x00", // mov; call
        b"\x74\x01\x55\x55",             // je to a push, or to one
        b"\xe9\x00\x10\x00\x00",         // jmp to a page that is not mapped
        b"\x0f\x0b",                     // ud2
        b"\x8b\x05\x00\x20\x00\x00",     // mov 0x2000(%rip),%eax
    ];
    for code in safe {
        assert!(is_safe(code, &[]), "{code:02x?}");
    }
}

#[test]
fn a_block_that_may_do_something_is_not() {
    let risky: [&[u8]; 17] = [
        b"\xfa\x55",                         // cli
        b"\x0f\x30\x55",                     // wrmsr
        b"\x0f\x22\xdf\x55",                 // mov %rdi,%cr3
        b"\xee\x55",                         // out %al,(%dx)
        b"\xf4",                             // hlt
        b"\x0f\x01\xf8\x55",                 // swapgs
        b"\x0f\x05\x55",                     // syscall
        b"\x8e\xd0\x55",                     // mov %eax,%ss
        b"\xff\xe0",                         // jmp *%rax
        b"\xeb\xfe",                         // jmp to itself
        b"\xff\xc9\x75\xfc\x55",             // dec %ecx; jnz to it
        b"\x74\x01\x55\xfa\x55",             // je to cli
        b"\x8b\x05\x10\x00\x00\x00",         // mov 0x10(%rip),%eax: code, which is mapped
        b"\xf3\x90\xeb\xfc",                 // pause; jmp to it
        b"\x48\xc7\xc0\x10\x00\x00\x81\x55", // mov $ffffffff81000010,%rax
        b"\x48\x8d\x05\x10\x00\x00\x00\x55", // lea 0x10(%rip),%rax
        b"\x8b\x04\xc5\x10\x00\x00\x81",     // mov ffffffff81000010(,%rax,8),%eax
    ];
    for code in risky {
        assert!(!is_safe(code, &[]), "{code:02x?}");
    }
}

#[test]
fn what_is_patched_is_looked_at_in_both_forms() {
    // call *0x…; and the mov %rdi,%cr3 that it may become.
    let call: &[u8] = b"\xff\x14\x25\x00\x00\x00\x01";
    let instruction: &[u8] = b"\x0f\x22\xdf\x90\x90\x90\x90\x55";
    assert!(is_safe(call, &[]));
    assert!(!is_safe(call, instruction));
    assert!(!is_safe(instruction, call));
}

#[test]
fn a_kernel_that_is_not_as_known_is_refused() {
    assert!(Kernel::new(b"\x7fELF", &[]).is_none());
    let mut own = vmlinux(&[], &[]);
    assert_eq!(
        text(&own),
        Some(0x100_0000..0x100_0000 + PAGES as u64 * 4096)
    );
    // The code that stays becomes writable.
    own[64 + 4] = 7;
    assert!(text(&own).is_none());
    assert!(from_trace(&own, &[], b"").is_none());
}

/// A kernel whose function every 16 bytes begins with a call that is taken out, and its patched
/// code; at its end a call that is replaced.
fn functions() -> (Vec<u8>, Vec<u8>) {
    let count = PAGES * 4096 / 16 - 1;
    let function = |start: &[u8]| [start, &[0x55; 11]].concat();
    let mut text = function(b"\xe8\0\0\0\0").repeat(count);
    let mut patched = function(b"\x0f\x1f\x44\0\0").repeat(count);
    text.extend(b"\xff\x14\x25\0\0\0\x01");
    patched.extend(b"\xfa\x90\x90\x90\x90\x90\x90");
    text.resize(PAGES * 4096, 0xcc);
    patched.resize(PAGES * 4096, 0xcc);
    (text, patched)
}

/// Functions before and after their calls are taken out, and all once more in another mode.
fn boot() -> Vec<u64> {
    let functions = |range: Range<u64>| range.map(|at| TEXT + 16 * at);
    let before = functions(0..700).flat_map(|at| [at, at + 5]);
    let after = functions(700..1400);
    let again = functions(0..1400);
    before.chain(after).chain(again).collect()
}

fn traced(blocks: &[u64]) -> Vec<u8> {
    let line = |block: &u64| format!("translate_block tb:0x1, pc:{block:#x}, tb_code:0x2\n");
    blocks.iter().map(line).collect::<String>().into_bytes()
}

#[test]
fn the_list_waits_for_each_patching_and_changes_the_mode() {
    let (text, patched) = functions();
    let elf = vmlinux(&text, &[]);
    let kernel = Kernel::new(&elf, &patched).unwrap();
    let words = List::new(&kernel, boot()).unwrap().words;
    // Until the highest call executed so far is taken out.
    let wait = words.iter().position(|word| *word == WAIT).unwrap();
    assert_eq!(words[wait + 1], (TEXT + 16 * 699) as u32);
    assert_eq!(words[wait + 2], u32::from_le_bytes(*b"\x0f\x1f\x44\0"));
    // Of the 1400 blocks before, 6 of 7.
    assert_eq!(wait, 1200);
    let change = words.iter().position(|word| *word == SET_CR4).unwrap();
    assert_eq!(words[change + 1], 0x220);
    let last = (TEXT + PAGES as u64 * 4096 - 16) as u32;
    let replaced = u32::from_le_bytes(*b"\xfa\x90\x90\x90");
    assert_eq!(words[change + 2..change + 5], [WAIT, last, replaced]);
    // It is found a window or two early.
    let early = change - wait - 3;
    assert!((600 - 2 * 64..=600).contains(&early), "{early}");
    assert_eq!(words[..2], [TEXT as u32, TEXT as u32 + 5]);
    assert_eq!(words[6], (TEXT + 16 * 3 + 5) as u32);
}

#[test]
fn a_short_boot_is_not_worth_it() {
    let (text, patched) = functions();
    let elf = vmlinux(&text, &[]);
    let trace = |blocks: &[u64]| from_trace(&elf, &patched, &traced(blocks));
    assert!(trace(&boot()).is_some());
    assert!(trace(&boot()[..300]).is_none());
    // Never in another mode.
    assert!(trace(&boot()[..2100]).is_none());
}

/// Follows the page tables from [`TABLES`], as the processor does.
fn look_up(memory: &[u8], address: u64) -> Option<u64> {
    let mut table = TABLES;
    for level in (0..4).rev() {
        let at = table + 8 * (address >> (12 + 9 * level) & 0x1ff);
        let entry = u64::from_le_bytes(*memory[at as usize..].first_chunk().unwrap());
        if entry & 1 == 0 {
            return None;
        }
        if level == 0 {
            return Some(entry);
        }
        table = (entry & !0xfff) - PRETRANSLATION_BASE;
    }
    None
}

#[test]
fn only_code_that_was_executed_is_mapped_and_nothing_of_the_kernel_can_be_written() {
    let (text, patched) = functions();
    let vmlinux = vmlinux(&text, &[]);

    let mut blocks = boot();
    blocks.push(INIT + 7);
    let file = from_trace(&vmlinux, &patched, &traced(&blocks)).unwrap();
    let memory = &file[4096..];
    assert!(memory.len() as u64 <= image::MAX);
    let executed = 1400 * 16 / 4096;
    for page in 0..PAGES as u64 {
        let entry = look_up(memory, TEXT + page * 4096);
        let expected = (page <= executed).then_some(0x100_0000 + page * 4096 + 1);
        assert_eq!(entry, expected, "{page}");
    }
    // It is given to others when the kernel has booted.
    assert_eq!(look_up(memory, INIT), None);
    assert_eq!(
        look_up(memory, PRETRANSLATION_VIRTUAL),
        Some(PRETRANSLATION_BASE + 3)
    );
    for nothing in [0, 0x1000, PRETRANSLATION_BASE, TEXT - 4096, u64::MAX - 8] {
        assert_eq!(look_up(memory, nothing), None, "{nothing:#x}");
    }
    let last = memory.len() - 4;
    assert_eq!(memory[last..], END.to_le_bytes());
}

/// What of each function follows its call, once, and that of the first ones again.
fn after_boot(again: Range<u64>) -> Vec<u64> {
    (0..1400)
        .chain(again)
        .map(|at| TEXT + 16 * at + 5)
        .collect()
}

#[test]
fn after_boot_every_other_block_is_visited_and_what_came_twice_without_a_stack_segment() {
    let (text, patched) = functions();
    let elf = vmlinux(&text, &[]);
    let kernel = Kernel::new(&elf, &patched).unwrap();
    let list = |blocks| List::after_boot(&kernel, blocks).map(|list| list.words);
    let words = list(after_boot(0..700)).unwrap();
    assert_eq!(words[..2], [SET_CR4, 0x220]);
    let block = |at: u64| (TEXT + 16 * at + 5) as u32;
    assert_eq!(words[2..4], [block(0), block(2)]);
    assert_eq!(words[702..704], [SET_STACK, 0]);
    assert_eq!(words[704], block(0));
    assert_eq!(words.len(), 704 + 350);
    // And back.
    let mut blocks = after_boot(0..600);
    blocks.extend((0..200).map(|at| TEXT + 16 * at));
    let words = list(blocks).unwrap();
    assert_eq!(words[1004..1006], [SET_STACK, KERNEL_STACK]);
    assert_eq!(words[1006], TEXT as u32);
    // Too few, and no more than there is room for.
    assert!(list(after_boot(0..500)).is_none());
    let many = list(after_boot(0..1400).repeat(20)).unwrap();
    assert_eq!(many.len(), 2 + 700 + 2 + 9300);
}

#[test]
fn a_list_that_does_not_fit_ends_with_a_block() {
    let (text, patched) = functions();
    let elf = vmlinux(&text, &[]);
    let kernel = Kernel::new(&elf, &patched).unwrap();
    // Wherever it is cut, no command is without its word.
    for start in 0..3 {
        let change = [SET_STACK, 0, TEXT as u32];
        let count = image::MAX as usize / size_of_val(&change);
        let words = [vec![TEXT as u32; start], change.repeat(count)].concat();
        let blocks = vec![TEXT];
        let memory = image::memory(&kernel, &List { words, blocks }).unwrap();
        let left = image::MAX as usize - memory.len();
        assert!(left < 8, "{left}");
        let word = |back: usize| {
            let at = memory.len() - 4 * back;
            u32::from_le_bytes(*memory[at..].first_chunk().unwrap())
        };
        assert_eq!(word(1), END);
        assert!(word(2) == TEXT as u32 || word(3) == SET_STACK, "{start}");
        assert_ne!(word(2), SET_STACK, "{start}");
    }
}

#[test]
fn a_template_gets_its_list_if_that_is_worth_it() {
    let (text, patched) = functions();
    let elf = vmlinux(&text, &[]);
    let file = tempfile::tempfile().unwrap();
    file.set_len(0x200_0000).unwrap();
    file.write_all_at(&patched, 0x100_0000).unwrap();
    let read = |at: u64, length: usize| {
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, at).unwrap();
        bytes
    };
    let template = TemplateMemory::new(&file);
    assert!(!template.lacks_pretranslation().unwrap());
    template.await_pretranslation().unwrap();
    assert!(template.lacks_pretranslation().unwrap());
    let signal = || read(PRETRANSLATION_BASE + SIGNAL, 4);
    // Neither go nor wait.
    assert!(!matches!(signal()[0], 0 | 1));
    let code = vec![0xf4; NEXT as usize];
    file.write_all_at(&code, PRETRANSLATION_BASE).unwrap();

    template
        .add_pretranslation(&elf, &traced(&after_boot(0..0)))
        .unwrap();
    assert!(!template.lacks_pretranslation().unwrap());
    assert!(!matches!(signal()[0], 0 | 1));
    assert_eq!(read(PRETRANSLATION_BASE + NEXT, 8), [0; 8]);

    template.await_pretranslation().unwrap();
    template
        .add_pretranslation(&elf, &traced(&after_boot(0..700)))
        .unwrap();
    assert!(!template.lacks_pretranslation().unwrap());
    assert_eq!(signal(), GO.to_le_bytes());
    // Somebody may be in the code.
    assert_eq!(read(PRETRANSLATION_BASE, code.len()), code);
    let memory = read(PRETRANSLATION_BASE, image::MAX as usize);
    assert_eq!(look_up(&memory, TEXT), Some(0x100_0001));
    let next = u64::from_le_bytes(*memory[NEXT as usize..].first_chunk().unwrap());
    let list = &memory[(next - PRETRANSLATION_VIRTUAL) as usize..];
    assert_eq!(list[..4], SET_CR4.to_le_bytes());
    assert_eq!(list[4 * 1054..][..4], END.to_le_bytes());
    assert_eq!(read(0x100_0000, patched.len()), patched);
}

#[test]
fn a_processor_without_a_list_has_no_code_but_its_own() {
    let file = waiting(&vmlinux(&[], &[])).unwrap();
    assert!(pvh_entry(&file).is_some());
    let memory = &file[4096..];
    assert_eq!(look_up(memory, TEXT), None);
    assert_eq!(
        look_up(memory, PRETRANSLATION_VIRTUAL),
        Some(PRETRANSLATION_BASE + 3)
    );
    let end = [HOLD.to_le_bytes(), END.to_le_bytes()].concat();
    assert!(memory.ends_with(&end));
    assert!(waiting(b"\x7fELF").is_none());
}

#[test]
fn qemu_takes_it_for_a_pvh_kernel() {
    let (text, patched) = functions();
    let vmlinux = vmlinux(&text, &[]);
    let file = from_trace(&vmlinux, &patched, &traced(&boot())).unwrap();
    let program = pretranslator().unwrap();
    assert_eq!(pvh_entry(&file), Some(PRETRANSLATION_BASE + program.entry));
    // QEMU looks for a multiboot header first.
    let magic = 0x1bad_b002_u32.to_le_bytes();
    assert!(!file[..8192].windows(4).any(|word| word == magic));
    assert_eq!(RESERVED.start % 4096, 0);
    const { assert!(RESERVED.end <= 0x9_0000) };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn nothing_breaks_it(
        trace in prop::collection::vec(0_u64..PAGES as u64 * 4096, 2500),
        text in prop::collection::vec(any::<u8>(), 4096),
        patched in prop::collection::vec(any::<u8>(), 0..4096),
        cut in 0_usize..0x3000,
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let blocks: Vec<_> = trace.iter().chain(&trace).map(|at| TEXT + at).collect();
        let elf = vmlinux(&text, &text);
        let mut lines = traced(&blocks);
        let whole = from_trace(&elf, &patched, &lines);
        let part = from_trace(&elf[..cut], &patched, &lines);
        lines.extend(&noise);
        lines.extend(traced(&blocks));
        let noisy = from_trace(&elf, &noise, &lines);
        let kernel = Kernel::new(&elf, &patched).unwrap();
        if let Some(list) = List::after_boot(&kernel, blocks) {
            let memory = image::memory(&kernel, &list).unwrap();
            prop_assert!(memory.len() as u64 <= image::MAX);
        }
        for file in [whole, part, noisy].into_iter().flatten() {
            prop_assert!(pvh_entry(&file).is_some());
        }
    }
}

//! QEMU's own walk of the page tables of each processor, against what the kernel says.

use std::fs;

use brisk_testkit::{CPUS_OF_NODE, NumaKernel, NumaMachine};

use crate::machine::{expect, kernel, machine, run_and_ask};

const NODES: usize = 4;
/// Bytes of memory of each node, which lies below the hole for devices.
const NODE_SIZE: u64 = 256 << 20;

/// Physical addresses that the monitor gives for an address on each processor, in order.
fn walked(answer: &str) -> Vec<u64> {
    let lines = answer
        .lines()
        .filter_map(|line| line.trim().strip_prefix("gpa: 0x"));
    lines
        .map(|address| u64::from_str_radix(address, 16).unwrap())
        .collect()
}

pub(super) fn agrees() {
    let kernel = kernel();
    let map = fs::read_to_string(kernel.file("System.map")).unwrap();
    // Resident text: what each processor walks is in its node's memory, and where `map` says.
    let symbol = map.lines().find(|line| line.ends_with(" do_syscall_64"));
    let address = symbol.unwrap().split(' ').next().unwrap();
    let commands: String = (0..NODES * CPUS_OF_NODE)
        .map(|cpu| format!("cpu {cpu}\ngva2gpa 0x{address}\n"))
        .collect();
    let script = "section map; cat ktext_repl/map; look";
    let machine = NumaMachine {
        append: "nokaslr",
        ..machine(&kernel, NODES)
    };
    let asked = run_and_ask(&machine, script, &commands).unwrap();
    let gpas = walked(&asked.answer);
    assert_eq!(gpas.len(), NODES * CPUS_OF_NODE, "{}", asked.answer);
    let address = u64::from_str_radix(address, 16).unwrap();
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    for (cpu, gpa) in gpas.iter().enumerate() {
        let node = cpu / CPUS_OF_NODE;
        assert_eq!(gpa / NODE_SIZE, node as u64, "processor {cpu}: {gpa:x}");
        let rows = asked.console.rows("map", ["node", "va", "size", "pa"]);
        let said = rows.iter().find_map(|[of, va, size, pa]| {
            let offset = address.checked_sub(hex(va))?;
            (*of == node.to_string() && offset < size.parse().unwrap()).then(|| hex(pa) + offset)
        });
        assert_eq!(Some(*gpa), said, "processor {cpu}");
    }
}

/// A page, small or large, as the monitor's `info tlb` has it.
#[derive(Debug)]
struct Page {
    address: u64,
    physical: u64,
    is_writable: bool,
    is_executable: bool,
}

/// Pages of one processor: `ADDRESS: PHYSICAL XGPDACTUW`, with dashes for flags that are not set.
/// X is no-execute.
fn pages(answer: &str) -> Vec<Page> {
    let lines = answer.lines().filter_map(|line| {
        let (address, rest) = line.trim().split_once(": ")?;
        let (physical, flags) = rest.split_once(' ')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Page {
            address: number(address)?,
            physical: number(physical)?,
            is_writable: flags.ends_with('W'),
            is_executable: !flags.starts_with('X'),
        })
    });
    lines.collect()
}

/// Where the kernel and its modules are mapped.
const IMAGE: u64 = 0xffff_ffff_8000_0000;
const MODULES: u64 = 0xffff_ffff_c000_0000;
const FIXMAP: u64 = 0xffff_ffff_ff00_0000;

/// Modules, the tracer's trampolines, and slots of kprobes.
const FILLED: &str = "\
    insmod /modules/test_module.ko; insmod /modules/lkdtm.ko\n\
    echo 'p do_sys_openat2' >tracing/kprobe_events; echo 'r vfs_read' >>tracing/kprobe_events\n\
    echo 1 >tracing/events/kprobes/enable; echo function >tracing/current_tracer\n\
    section modules; cat ktext_repl/modules; look";

/// No processor can write what it can execute, in the kernel's image and modules.
pub(super) fn check_protection(kernel: &NumaKernel) -> Result<(), String> {
    let cpus = NODES * CPUS_OF_NODE;
    let commands: String = (0..cpus)
        .map(|cpu| format!("cpu {cpu}\ninfo tlb\n"))
        .collect();
    let asked = run_and_ask(&machine(kernel, NODES), FILLED, &commands)?;
    let modules = asked.console.section("modules");
    expect(modules.lines().count() >= 5, modules)?;
    // What comes before a prompt: a greeting, then what each command says.
    let answers: Vec<_> = asked.answer.split("(qemu) ").skip(1).collect();
    for cpu in 0..cpus {
        let node = (cpu / CPUS_OF_NODE) as u64;
        let pages = pages(answers[2 * cpu + 1]);
        let is_here = |page: &&Page| (IMAGE..FIXMAP).contains(&page.address);
        let (mut own, mut all) = ([0, 0], [0, 0]);
        for page in pages.iter().filter(is_here) {
            let place = format!("{:x} on processor {cpu}", page.address);
            expect(
                !(page.is_writable && page.is_executable),
                format!("{place} is writable and executable"),
            )?;
            let kind = usize::from(page.address >= MODULES);
            if page.is_executable {
                all[kind] += 1;
                own[kind] += usize::from(page.physical / NODE_SIZE == node);
            }
        }
        println!(
            "processor {cpu}: {all:?} executable pages of image and modules, {own:?} of its own"
        );
        // Large pages of the image, and small ones of two modules.
        expect(
            own[0] >= 4 && own[1] >= 5,
            format!("processor {cpu}: {own:?} of {all:?}"),
        )?;
    }
    Ok(())
}

pub(super) fn protects() {
    check_protection(&kernel()).unwrap();
}

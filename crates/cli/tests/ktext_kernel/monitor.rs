//! QEMU's own walk of the page tables of each processor, against what the kernel says.

use std::fs;

use brisk_testkit::{CPUS_OF_NODE, NumaMachine};

use crate::machine::{kernel, machine, run_and_ask};

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

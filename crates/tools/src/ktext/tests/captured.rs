//! Trees of Linux 6.12.117 with the patch series, as it ran in QEMU: with two nodes, with four whose
//! second one has the kernel, and with two and `ktext_repl=off`.

use std::path::PathBuf;

use crate::ktext::mapping::Backing;
use crate::ktext::verify::Verification;
use crate::ktext::{CpuVerdict, Status, draw, info};

fn root(name: &str) -> PathBuf {
    let captured = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ktext/captured");
    PathBuf::from(captured).join(name)
}

fn status(name: &str) -> Status {
    Status::read(&root(name)).unwrap()
}

#[test]
fn two_nodes_are_shown() {
    let status = status("2node");
    insta::assert_snapshot!(info::text(&status, false), @"
    replication is on, 1 slot of page tables beside the master's

    Node 0: the master
    kind    virtual_address     physical_address    size     memory  pages    prot  state
    text    0xffffffff81000000  0x0000000001000000  8192 kB  node 0  2048 kB  r-x   master
    rodata  0xffffffff81800000  0x0000000001800000  1840 kB  node 0  4 kB     r--   master

    Node 1: copies
    kind    virtual_address     physical_address    size     memory  pages    prot  state
    text    0xffffffff81000000  0x0000000010400000  8192 kB  node 1  2048 kB  r-x   copy
    rodata  0xffffffff81800000  4 places            1840 kB  node 1  4 kB     r--   copy

    count                   value  what
    total_repli_pages       2516   of all copies: 9.8 MB
    repli_resident_pages    2508   of the kernel image
    repli_module_pages      8      of modules
    repli_module_pgtbls     36 kB  page tables of the slots, those of the kernel image too
    page_alloc_failures     0      pages that stay on the master
    pagetbl_alloc_failures  0      page tables that could not be allocated
    pgd_alloc_failures      0      of processes, which run on the master on that node

    cpus  of      page tables  top level  verdict
    0-1   node 0  master       node 0     own
    2-3   node 1  slot 1       node 1     own
    ");
    insta::assert_snapshot!(info::modules(&status), @"
    Module  Text_RO_sz  Node0  Node1
    lkdtm   32 kB       -      32 kB
    ");
}

#[test]
fn four_nodes_are_shown() {
    let status = status("4node");
    let text = info::text(&status, false);
    let nodes = text.split("Node ").nth(4).unwrap();
    insta::assert_snapshot!(nodes, @"
    3: copies
    kind    virtual_address     physical_address    size     memory  pages    prot  state
    text    0xffffffffb8a00000  0x0000000030400000  8192 kB  node 3  2048 kB  r-x   copy
    rodata  0xffffffffb9200000  9 places            1840 kB  node 3  4 kB     r--   copy

    count                   value   what
    total_repli_pages       7548    of all copies: 29.5 MB
    repli_resident_pages    7524    of the kernel image
    repli_module_pages      24      of modules
    repli_module_pgtbls     108 kB  page tables of the slots, those of the kernel image too
    page_alloc_failures     0       pages that stay on the master
    pagetbl_alloc_failures  0       page tables that could not be allocated
    pgd_alloc_failures      0       of processes, which run on the master on that node

    cpus  of      page tables  top level  verdict
    0-1   node 0  slot 1       node 0     own
    2-3   node 1  master       node 1     own
    4-5   node 2  slot 2       node 2     own
    6-7   node 3  slot 3       node 3     own
    ");
    insta::assert_snapshot!(info::modules(&status), @"
    Module  Text_RO_sz  Node0  Node1  Node2  Node3
    lkdtm   32 kB       32 kB  -      32 kB  32 kB
    ");
    insta::assert_snapshot!(draw::text(&draw::parts(&status)), @"
    Text, 8.0 MB from 0xffffffffb8a00000
      node 0     0000  100.0 %
      node 1     1111  100.0 %
      node 2     2222  100.0 %
      node 3     3333  100.0 %
    Read-only data, 1.8 MB from 0xffffffffb9200000
      node 0     0  100.0 %
      node 1     1  100.0 %
      node 2     2  100.0 %
      node 3     3  100.0 %
    Each character is 2 MB; its digit is the node that has the memory
    The share is what the node has itself
    ");
}

#[test]
fn what_is_off_is_shown_with_the_reason() {
    let status = status("off");
    let text = info::text(&status, false);
    assert!(
        text.starts_with("replication is off: ktext_repl=off\n"),
        "{text}"
    );
    assert_eq!(info::modules(&status), "No module has copies.\n");
    insta::assert_snapshot!(draw::text(&draw::parts(&status)), @"
    Text, 8.0 MB from 0xffffffff92800000
      node 0     0000  100.0 %
      node 1     0000  0.0 %
    Read-only data, 1.8 MB from 0xffffffff93000000
      node 0     0  100.0 %
      node 1     0  0.0 %
    Each character is 2 MB; its digit is the node that has the memory
    The share is what the node has itself
    ");
    let found = Verification::read(&root("off")).unwrap();
    assert_eq!(
        found.nothing.as_deref(),
        Some("replication is off: ktext_repl=off")
    );
}

#[test]
fn files_of_one_kernel_agree() {
    for (name, nodes) in [("2node", 2), ("4node", 4)] {
        let status = status(name);
        assert_eq!(status.nodes().len(), nodes, "{name}");
        let copies = |node: u32| -> u64 {
            let of_node = status.mappings.iter().filter(|one| one.node == node);
            let copies = of_node.filter(|one| one.backing == Backing::Copy);
            copies.map(|one| one.size).sum()
        };
        let all: u64 = status.nodes().into_iter().map(copies).sum();
        assert_eq!(all, status.stats.resident_pages * 4096, "{name}");
        let found = Verification::read(&root(name)).unwrap();
        assert!(found.is_equal() && found.nothing.is_none(), "{name}");
        let compared: u64 = found.nodes.iter().map(|node| node.bytes).sum();
        let pages = status.stats.resident_pages + status.stats.module_pages;
        assert_eq!(compared, pages * 4096, "{name}");
        let is_own = |cpu: &crate::ktext::CpuState| cpu.verdict == CpuVerdict::Own;
        assert!(status.cpus.iter().all(is_own), "{name}");
        assert_eq!(status.fallbacks().count(), 0, "{name}");
        assert!(status.mappings.iter().all(|one| !one.is_remote()), "{name}");
    }
}

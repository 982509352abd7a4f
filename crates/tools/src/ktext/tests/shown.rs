//! Views of a kernel's files.

use std::fs;

use super::tree::{Tree, repl};
use crate::ktext::verify::Verification;
use crate::ktext::{Status, draw, info};

#[test]
fn translations_counts_cpus_and_fallbacks_are_shown() {
    let status = Tree::new().status();
    insta::assert_snapshot!(info::text(&status, false), @"
    Linux 6.12.117, replication is on, 1 slot of page tables beside the master's

    Node 0: the master
    kind    virtual_address     physical_address    size     memory  pages    prot  state
    text    0xffffffff81000000  0x0000000001000000  4096 kB  node 0  2048 kB  r-x   master
    text    0xffffffff81400000  0x0000000001400000  16 kB    node 0  4 kB     r-x   master
    rodata  0xffffffff81600000  0x0000000001600000  2048 kB  node 0  2048 kB  r--   master

    Node 1: copies
    kind    virtual_address     physical_address    size     memory  pages    prot  state
    text    0xffffffff81000000  0x0000000008200000  2048 kB  node 1  2048 kB  r-x   copy
    text    0xffffffff81200000  0x0000000001200000  2048 kB  node 0  2048 kB  r-x   master
    text    0xffffffff81400000  4 places            16 kB    node 1  4 kB     r-x   copy
    rodata  0xffffffff81600000  0x0000000008600000  2048 kB  node 1  2048 kB  r--   copy

    count                   value  what
    total_repli_pages       1541   of all copies: 6.0 MB
    repli_resident_pages    1538   of the kernel image
    repli_module_pages      3      of modules
    repli_module_pgtbls     36 kB  page tables of the slots, those of the kernel image too
    page_alloc_failures     513    pages that stay on the master
    pagetbl_alloc_failures  0      page tables that could not be allocated
    pgd_alloc_failures      2      of processes, which run on the master on that node

    cpus  of      page tables  top level  verdict
    0-1   node 0  master       node 0     own
    2-3   node 1  slot 1       node 1     own

    Not copied: 2.0 MB, for want of memory in pages of that size, or because a page also maps what is written
    node    kind  virtual_address     size     from    pages
    node 1  text  0xffffffff81200000  2048 kB  node 0  2048 kB
    ");
    let all = info::text(&status, true);
    assert!(
        all.contains("0x0000000008005000") && !all.contains("places"),
        "{all}"
    );
}

#[test]
fn modules_have_a_dash_where_they_were_loaded_first() {
    let tree = Tree::new();
    insta::assert_snapshot!(info::modules(&tree.status()), @"
    Module  Text_RO_sz  Node0  Node1
    dummy   12 kB       -      12 kB
    late    4 kB        0 kB   -
    ");
    tree.edit(
        "modules",
        "late text 0xffffffffc0010000 4096 1 0 4096\n",
        "",
    );
    tree.edit(
        "modules",
        "dummy text 0xffffffffc0000000 8192 0 8192 8192\n",
        "",
    );
    tree.edit(
        "modules",
        "dummy rodata 0xffffffffc0004000 4096 0 4096 4096\n",
        "",
    );
    assert_eq!(info::modules(&tree.status()), "No module has copies.\n");
    fs::remove_file(tree.at(&repl("modules"))).unwrap();
    let text = info::modules(&tree.status());
    assert!(text.contains("CONFIG_KTEXT_REPLICATION_MODULES"), "{text}");
}

#[test]
fn what_is_wrong_with_cpus_is_said() {
    let tree = Tree::new();
    tree.edit("cpus", "1 0 0 0x2c0b000 0 own", "1 0 0 0x2c0b000 0 wrong");
    tree.edit(
        "cpus",
        "2 1 1 0x8abc000 1 own",
        "2 1 1 0x8abc000 1 fallback",
    );
    tree.edit("cpus", "3 1 1 0x8abd000 1 own", "3 1 0 0x2c0c000 0 master");
    let text = info::text(&tree.status(), false);
    for words in [
        "CPUs 1 run on page tables of another slot",
        "CPUs 2 run a process that has no page table for their slot",
        "(pgd_alloc_failures 2)",
        "CPUs 3 run on the master although replication is on",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Where it is off, that is as it should be.
    tree.edit("stats", "active 1", "active 0");
    let text = info::text(&tree.status(), false);
    assert!(!text.contains("although replication is on"), "{text}");
    assert!(
        text.contains("replication is off: it was switched off"),
        "{text}"
    );
}

#[test]
fn programs_get_everything() {
    let value = info::json(&Tree::new().status());
    assert_eq!(value["schema"], info::SCHEMA);
    assert_eq!(value["release"], "6.12.117");
    assert_eq!(value["stats"]["resident_pages"], 1538);
    assert_eq!(value["why_off"], serde_json::Value::Null);
    let nodes = value["nodes"].as_array().unwrap();
    assert_eq!(
        (&nodes[0]["has_copies"], &nodes[1]["has_copies"]),
        (&false.into(), &true.into())
    );
    assert_eq!(nodes[1]["translations"][3]["physical_address"], "0x8005000");
    assert_eq!(
        value["fallbacks"][0]["virtual_address"],
        "0xffffffff81200000"
    );
    assert_eq!(value["fallbacks"].as_array().unwrap().len(), 1);
    assert_eq!(value["cpus"][2]["cr3"], "0x8abc000");
    assert_eq!(value["modules"][0]["bytes"]["1"], 8192);
}

#[test]
fn without_slots_nothing_is_a_fallback() {
    let tree = Tree::new();
    tree.edit("stats", "slots 1", "slots 0");
    tree.edit(
        "stats",
        "active 1\noff_reason ",
        "active 0\noff_reason rodata=off",
    );
    let status = tree.status();
    assert_eq!(status.fallbacks().count(), 0);
    let text = info::text(&status, false);
    assert!(
        text.starts_with("Linux 6.12.117, replication is off: rodata=off\n"),
        "{text}"
    );
}

#[test]
fn each_granule_is_drawn_with_its_node() {
    let tree = Tree::new();
    let parts = draw::parts(&tree.status());
    insta::assert_snapshot!(draw::text(&parts), @"
    Text, 4.0 MB from 0xffffffff81000000
      node 0     000  100.0 %
      node 1     101  50.2 %
    Read-only data, 2.0 MB from 0xffffffff81600000
      node 0     0  100.0 %
      node 1     1  100.0 %
    Each character is 2 MB; its digit is the node that has the memory
    The share is what the node has itself
    ");
    let panels = draw::panels(&parts);
    let cells = &panels[0].rows[1].cells;
    let groups: Vec<_> = cells.iter().map(|cell| cell.parts[0].group).collect();
    assert_eq!(groups, [1, 0, 1]);
    // A tail of 16 KiB fills one in 128 of its field.
    assert_eq!(cells[2].parts[0].share, 1.0 / 128.0);
    assert!(
        cells[1]
            .about
            .starts_with("0xffffffff81200000\n2048 kB of node 0")
    );
}

#[test]
fn granules_of_several_and_of_unknown_nodes_are_marked() {
    let tree = Tree::new();
    tree.edit("map", "4096 0x8003000 1 r-x", "4096 0x1402000 0 r-x");
    tree.edit("map", "0x8600000 1 r--", "0x8600000 -1 r--");
    tree.edit("map", "0x1200000 0 r-x", "0x1200000 40 r-x");
    tree.edit(
        "map",
        "0 0xffffffff81600000 2097152 0x1600000 0 r--",
        "0 0xffffffff81600000 2097152 0x0 0 ---",
    );
    insta::assert_snapshot!(draw::text(&draw::parts(&tree.status())), @"
    Text, 4.0 MB from 0xffffffff81000000
      node 0     000  100.0 %
      node 1     1#+  50.1 %
    Read-only data, 2.0 MB from 0xffffffff81600000
      node 1     ?  0.0 %
    Each character is 2 MB; its digit is the node that has the memory
    + is memory of several nodes
    # is a node beyond 35
    ? is a node that the kernel does not know
    The share is what the node has itself
    ");
}

#[test]
fn a_large_kernel_goes_on_in_further_lines() {
    let tree = Tree::new();
    tree.edit(
        "map",
        "0xffffffff81000000 4194304",
        "0xffffffff90000000 402653184",
    );
    let parts = draw::parts(&tree.status());
    let text = draw::text(&parts);
    let lines = text
        .lines()
        .filter(|line| line.starts_with("from 0x"))
        .count();
    assert_eq!(parts[0].strips[0].granules.len(), 312);
    assert_eq!(lines, 4, "{text}");
    assert!(text.lines().all(|line| line.len() < 120), "{text}");
}

#[test]
fn a_map_without_rows_is_drawn_as_nothing() {
    let tree = Tree::new();
    tree.file(
        &repl("map"),
        "node\tva\tsize\tpa\tpa_node\tprot\tkind\tleaf\tstate\n",
    );
    let status = tree.status();
    assert!(draw::parts(&status).is_empty());
    assert!(draw::text(&[]).starts_with("Each character is 2 MB"));
    assert!(status.nodes().is_empty());
}

#[test]
fn copies_that_are_equal_and_that_are_not_are_told_apart() {
    let tree = Tree::new();
    let found = Verification::read(tree.root()).unwrap();
    assert!(found.is_equal() && found.nothing.is_none());
    insta::assert_snapshot!(found.text(), @"
    node  bytes    different  first  entries different  first entry
    1     6311936  0          -      0                  -
    Equal: 6.0 MB of copies are as the master.
    ");
    assert_eq!(found.json()["equal"], true);

    tree.file(
        "proc/kallsyms",
        "ffffffff81000100 T do_idle\nffffffff81400000 t tail\n",
    );
    tree.edit(
        "verify",
        "0 0x0 0 0x0",
        "3 0xffffffff81000104 1 0xffffffff81401000",
    );
    let found = Verification::read(tree.root()).unwrap();
    assert!(!found.is_equal());
    insta::assert_snapshot!(found.text(), @"
    node  bytes    different  first                           entries different  first entry
    1     6311936  3          0xffffffff81000104 do_idle+0x4  1                  0xffffffff81401000 tail+0x1000
    Different: the copies of node 1 are not as the master. That is a bug of the kernel: brisk ktext off, and report it.
    ");
    let json = found.json();
    assert_eq!(json["equal"], false);
    assert_eq!(json["nodes"][0]["first"], "0xffffffff81000104");
    assert_eq!(json["nodes"][0]["first_entry_symbol"], "tail+0x1000");
    // One entry is enough.
    tree.edit("verify", "3 0xffffffff81000104", "0 0x0");
    assert!(!Verification::read(tree.root()).unwrap().is_equal());
}

#[test]
fn a_comparison_of_nothing_is_no_proof() {
    let tree = Tree::new();
    tree.edit("verify", "1 6311936 0 0x0 0 0x0\n", "");
    tree.edit(
        "stats",
        "active 1\noff_reason ",
        "active 0\noff_reason ktext_repl=off",
    );
    let nothing = |tree: &Tree| {
        let found = Verification::read(tree.root()).unwrap();
        assert_eq!(found.json()["equal"], false);
        assert!(found.text().contains("Nothing was compared"));
        found.nothing.unwrap()
    };
    assert_eq!(nothing(&tree), "replication is off: ktext_repl=off");
    let tree = Tree::new();
    tree.edit("verify", "1 6311936", "1 0");
    assert_eq!(
        nothing(&tree),
        "no page has a copy: 513 could not be allocated"
    );
    tree.edit("stats", "slots 1", "slots 0");
    assert!(nothing(&tree).contains("no node needs a copy"));
    // A node that is missing was not compared, and the others do not speak for it.
    tree.edit("verify", "1 0 0 0x0 0 0x0\n", "");
    tree.edit("stats", "slots 0", "slots 1");
    let error = Verification::read(tree.root()).unwrap_err().to_string();
    assert!(
        error.contains("verify, line 1: it has 0 nodes, and stats has 1 slots"),
        "{error}"
    );
}

#[test]
fn files_that_are_not_as_the_kernel_writes_them_are_errors() {
    let tree = Tree::new();
    tree.edit("map", "rodata 2097152 master", "rodata 1 master");
    let error = Status::read(tree.root()).unwrap_err().to_string();
    assert!(
        error.contains("ktext_repl: map, line 4: leaf is \"1\""),
        "{error}"
    );
    fs::remove_file(tree.at(&repl("map"))).unwrap();
    let error = Status::read(tree.root()).unwrap_err().to_string();
    assert!(
        error.contains("cannot read") && error.contains("ktext_repl/map"),
        "{error}"
    );
    let large = fs::File::create(tree.at(&repl("map"))).unwrap();
    large.set_len(17 << 20).unwrap();
    let error = Status::read(tree.root()).unwrap_err().to_string();
    assert!(error.contains("has more than 16777216 bytes"), "{error}");
}

#[test]
fn text_from_the_kernel_moves_no_cursor() {
    let tree = Tree::new();
    tree.edit("modules", "late", "la\u{1b}[2Jte");
    tree.edit(
        "stats",
        "active 1\noff_reason ",
        "active 0\noff_reason \u{1b}[2J",
    );
    let status = tree.status();
    let text = info::text(&status, true) + &info::modules(&status);
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

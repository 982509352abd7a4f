//! Machines on which there is no replication.

use crate::machine::{kernel, on};

const WHY: &str = "section why; dmesg | grep -o 'ktext_repl: .*'; section stats; \
    cat ktext_repl/stats; section cpus; cat ktext_repl/cpus; \
    section write; echo 1 2>&1 >ktext_repl/active || :";

pub(super) fn says_why() {
    let cases = [
        (2, "ktext_repl=off", "boot with ktext_repl=on"),
        (2, "rodata=off", "rodata=off"),
        (1, "", "fewer than two NUMA nodes have memory"),
        (2, "numa=off", "fewer than two NUMA nodes have memory"),
    ];
    for (nodes, append, reason) in cases {
        let console = on(&kernel(), nodes, append, WHY).unwrap();
        let line = format!("ktext_repl: off: {reason}\n");
        assert_eq!(console.section("why"), line, "{nodes} nodes, {append}");
        let stats = console.rows("stats", ["name", "value"]);
        let value = |name: &str| stats.iter().find(|row| row[0] == name).unwrap()[1].clone();
        assert_eq!(value("off_reason"), reason);
        assert_eq!(value("resident_pages"), "0");
        for [cpu, slot] in console.rows("cpus", ["cpu", "slot"]) {
            assert_eq!(slot, "0", "processor {cpu}");
        }
        assert!(console.section("write").contains("Operation not supported"));
    }
    // Modules alone.
    let script = "section modules; insmod /modules/lkdtm.ko; cat ktext_repl/modules; \
        section stats; cat ktext_repl/stats";
    let console = on(&kernel(), 2, "ktext_repl_modules=off", script).unwrap();
    assert_eq!(console.section("modules").lines().count(), 1);
    let stats = console.section("stats");
    assert!(stats.contains("active\t1\n") && stats.contains("module_pages\t0\n"));
}

//! Modules: loaded, patched, unloaded, and failing to load.

use brisk_testkit::NumaKernel;

use crate::copies::check_equal;
use crate::machine::{expect, kernel, on_two};

/// Two modules in one page table; then loops, with loads that fail before and in the module's init,
/// and a tracer that is on while a module is loaded.
const COME_AND_GO: &str = "\
    cd /modules; debug=/sys/kernel/debug/ktext_repl\n\
    verify() { section $1; cat $debug/verify; }\n\
    load() { taskset -c $1 insmod $2.ko; }\n\
    load 3 test_module; load 0 lkdtm\n\
    section modules; cat $debug/modules; verify loaded\n\
    for cpu in 0 1 2 3; do taskset -c $cpu cat /sys/kernel/debug/provoke-crash/DIRECT; done >/dev/null\n\
    load 2 test_static_key_base; load 1 test_static_keys; verify keys\n\
    rmmod test_static_keys test_static_key_base\n\
    for round in 1 2 3 4 5 6 7 8; do\n\
    taskset -c $((round % 4)) rmmod lkdtm; load $((round * 3 % 4)) lkdtm\n\
    done\n\
    verify loops\n\
    rmmod lkdtm\n\
    section failures\n\
    for cpu in 0 2; do\n\
    taskset -c $cpu insmod lkdtm.ko recur_count=none 2>&1\n\
    taskset -c $cpu insmod lkdtm.ko cpoint_name=none cpoint_type=none 2>&1\n\
    done\n\
    verify failed\n\
    tracing=/sys/kernel/debug/tracing; echo ':mod:lkdtm' >$tracing/set_ftrace_filter\n\
    echo function >$tracing/current_tracer; load 1 lkdtm; verify traced\n\
    taskset -c 2 cat /sys/kernel/debug/provoke-crash/DIRECT >/dev/null\n\
    section trace; grep -c lkdtm_debugfs_read $tracing/trace\n\
    echo nop >$tracing/current_tracer; verify untraced\n\
    rmmod lkdtm test_module; section gone; cat $debug/modules; section stats; cat $debug/stats\n\
    section cpus; cat $debug/cpus; verify unloaded";

pub(super) fn check(kernel: &NumaKernel) -> Result<(), String> {
    let console = on_two(kernel, COME_AND_GO)?;
    let columns = ["module", "kind", "size", "master_node", "node0", "node1"];
    let rows = console.rows("modules", columns);
    let names: Vec<_> = rows.iter().map(|row| row[0].as_str()).collect();
    expect(
        names.contains(&"lkdtm") && names.contains(&"test_module"),
        format!("{names:?}"),
    )?;
    // The processors that have no copies run the master, which must lie on their node.
    let homes = console.rows("cpus", ["node", "slot"]);
    let homes: Vec<_> = homes.iter().filter(|row| row[1] == "0").collect();
    for [module, kind, size, master, node0, node1] in &rows {
        let row = format!("{module} {kind}: {size}, {node0} and {node1}, master on {master}");
        expect(size == node0 && size == node1, row.clone())?;
        expect(homes.iter().all(|home| home[0] == *master), row)?;
    }
    for section in [
        "loaded", "keys", "loops", "failed", "traced", "untraced", "unloaded",
    ] {
        check_equal(&console, section)?;
    }
    // The kernel says why between them.
    let failures = console.section("failures").matches("insmod: ").count();
    expect(failures == 4, format!("{failures} loads failed, not 4"))?;
    expect(
        console.section("trace").trim() != "0",
        "the module was not traced",
    )?;
    expect(
        console.section("gone").lines().count() == 1,
        console.section("gone"),
    )?;
    let stats = console.rows("stats", ["name", "value"]);
    let pages = stats.iter().find(|row| row[0] == "module_pages").unwrap();
    expect(pages[1] == "0", format!("{} pages are left", pages[1]))
}

pub(super) fn come_and_go() {
    check(&kernel()).unwrap();
}

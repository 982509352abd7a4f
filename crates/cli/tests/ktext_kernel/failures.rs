//! Allocations that fail: at boot by an option of the test patch, later by fault injection.

use std::collections::BTreeMap;

use brisk_testkit::{NumaConsole, NumaKernel};

use crate::locks::checking;
use crate::machine::{expect, kernel, machine, on_two, run};

fn stats(console: &NumaConsole, section: &str) -> BTreeMap<String, String> {
    let rows = console.rows(section, ["name", "value"]);
    rows.into_iter()
        .map(|[name, value]| (name, value))
        .collect()
}

fn count(stats: &BTreeMap<String, String>, name: &str) -> u64 {
    stats[name].parse().unwrap()
}

/// What copies there are is equal, and every processor runs the copy of its node, or the master for want
/// of page tables of its process or, where nothing was copied, of its node. Returns the bytes that were
/// compared.
fn check_fallback(console: &NumaConsole, prefix: &str) -> Result<u64, String> {
    let section = format!("{prefix}-verify");
    let columns = ["node", "bytes", "different", "entries_different"];
    let mut compared = 0;
    for [node, bytes, different, entries] in console.rows(&section, columns) {
        compared += bytes.parse::<u64>().unwrap();
        expect(
            different == "0" && entries == "0",
            format!("{section}: node {node}: {different} bytes, {entries} entries differ"),
        )?;
    }
    let section = format!("{prefix}-cpus");
    for [cpu, verdict] in console.rows(&section, ["cpu", "verdict"]) {
        let is_right = match verdict.as_str() {
            "own" | "fallback" => true,
            "master" => compared == 0,
            _ => false,
        };
        expect(is_right, format!("{section}: processor {cpu}: {verdict}"))?;
    }
    Ok(compared)
}

/// Every Nth allocation for replication fails, from boot on.
const NTH: &[usize] = &[1, 2, 3, 4, 5, 7, 100];
/// With KASAN there is hardly one PGD in a hundred allocations: few processes start in the time.
const NTH_WITH_KASAN: &[usize] = &[1, 2, 3, 4, 5, 7];

const BOOT: &str = "\
    storm 2 >/dev/null; section storm; echo $?\n\
    echo function >tracing/current_tracer; insmod /modules/lkdtm.ko\n\
    taskset -c 2 cat /sys/kernel/debug/provoke-crash/DIRECT >/dev/null\n\
    section boot-verify; cat ktext_repl/verify; section boot-cpus; cat ktext_repl/cpus\n\
    rmmod lkdtm; echo nop >tracing/current_tracer\n\
    section stats; cat ktext_repl/stats";

pub(super) fn check_boots(kernel: &NumaKernel) -> Result<(), String> {
    check_each(kernel, NTH)
}

pub(super) fn check_boots_with_kasan(kernel: &NumaKernel) -> Result<(), String> {
    check_each(kernel, NTH_WITH_KASAN)
}

fn check_each(kernel: &NumaKernel, all: &[usize]) -> Result<(), String> {
    let (mut pages, mut tables, mut pgds) = (0, 0, 0);
    for &nth in all {
        let boot = brisk_testkit::NumaMachine {
            // The image lies on one node: otherwise each node has a slot.
            append: &format!("nokaslr ktext_repl_fail={nth}"),
            ..machine(kernel, 2)
        };
        let console = run(&boot, BOOT).map_err(|error| format!("one of {nth} fails: {error}"))?;
        expect(
            console.section("storm").trim() == "0",
            console.section("storm"),
        )?;
        let stats = stats(&console, "stats");
        let compared = check_fallback(&console, "boot")?;
        let resident = count(&stats, "resident_pages");
        let failed = ["page", "pgtbl", "pgd"].map(|what| {
            let name = format!("{what}_alloc_failures");
            count(&stats, &name)
        });
        println!(
            "of {nth} allocations one fails: {resident} pages copied, {compared} bytes compared, \
             {failed:?} failures of copies, page tables and PGDs {}",
            stats["off_reason"]
        );
        expect(
            count(&stats, "module_pages") == 0,
            format!("one of {nth} fails: pages of modules are left"),
        )?;
        // Without the slots' first page tables there is no replication.
        let off = if nth == 1 {
            "no memory for page tables"
        } else {
            ""
        };
        expect(stats["off_reason"] == off, stats["off_reason"].clone())?;
        expect(nth == 1 || failed[2] > 0, format!("{nth}: {failed:?}"))?;
        pages += failed[0];
        tables += failed[1];
        pgds += failed[2];
    }
    expect(
        pages > 0 && tables > 0 && pgds > 0,
        format!("what has failed: {pages} copies, {tables} page tables, {pgds} PGDs"),
    )
}

pub(super) fn boots() {
    check_boots(&kernel()).unwrap();
}

/// In the functions of replication alone first, so that all else works; then in all that some
/// processes allocate.
const INJECTED: &str = "\
    address() { grep \" $1\\$\" /proc/kallsyms | cut -d ' ' -f 1; }\n\
    each() { for what in fail_page_alloc failslab; do echo $2 >$what/$1; done; }\n\
    look_at() {\n\
    section $1-verify; cat ktext_repl/verify; section $1-cpus; cat ktext_repl/cpus\n\
    section $1-stats; cat ktext_repl/stats; section rest\n\
    }\n\
    cpu=/sys/devices/system/cpu/cpu3/online\n\
    each verbose 0; each times -1; each ignore-gfp-wait N; echo 0 >fail_page_alloc/min-order\n\
    each require-start 0x$(address ktext_repl_pgd_alloc)\n\
    each require-end 0x$(address ktext_repl_start)\n\
    each probability 40\n\
    storm 10 >/result & storm=$!\n\
    while kill -0 $storm 2>/dev/null; do\n\
    insmod /modules/lkdtm.ko; taskset -c 2 cat provoke-crash/DIRECT >/dev/null\n\
    echo 0 >$cpu; echo 1 >$cpu; rmmod lkdtm\n\
    done\n\
    wait $storm; status=$?; insmod /modules/lkdtm.ko\n\
    each probability 0; section storm; echo $status; look_at own; rmmod lkdtm\n\
    each require-start 0; each require-end 0xffffffffffffffff; each task-filter Y\n\
    each probability 5\n\
    failed=0; for round in $(seq 40); do sh -c '\n\
    bad=0; echo 1 >/proc/self/make-it-fail; insmod /modules/lkdtm.ko || bad=1; cat /proc/version || bad=1\n\
    (storm 0.1) || bad=1; echo 0 >$0; echo 1 >$0; rmmod lkdtm; exit $bad\n\
    ' $cpu || failed=$((failed + 1)); done >/dev/null 2>&1\n\
    each probability 0; echo 1 >$cpu; rmmod lkdtm 2>/dev/null; storm 2; section failed; echo $failed\n\
    look_at all";

pub(super) fn fall_back() {
    let console = on_two(&checking(), INJECTED).unwrap();
    assert_eq!(console.section("storm").trim(), "0");
    for prefix in ["own", "all"] {
        let compared = check_fallback(&console, prefix).unwrap();
        let stats = stats(&console, &format!("{prefix}-stats"));
        println!("{prefix}: {compared} bytes compared; {stats:?}");
        assert!(compared > 4 << 20, "{compared}");
        // Of all that processes allocate later, PGDs are those that were kept, mostly.
        assert!(count(&stats, "pgd_alloc_failures") > 0, "{stats:?}");
        assert!(count(&stats, "page_alloc_failures") > 0, "{stats:?}");
    }
    let failed: u64 = console.section("failed").trim().parse().unwrap();
    assert!(failed > 0, "no process has failed");
    assert_eq!(stats(&console, "all-stats")["module_pages"], "0");
}

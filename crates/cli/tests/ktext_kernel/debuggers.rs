//! Text modified by a debugger, live patches and optimized probes, and programs of BPF.

use brisk_testkit::{CPUS_OF_NODE, NumaConsole, NumaKernel, NumaMachine};

use crate::copies::check_equal;
use crate::machine::{expect, machine, no_complaints, run};
use crate::selftests::{LIMIT, kernel_with_tests};

/// All copies are compared in each state. A probe inside a function becomes a jump once no processor can
/// be in what it replaces; a live patch waits until no process is in what it replaces.
const SCRIPT: &str = "\
    verify() { section $1; cat ktext_repl/verify; section rest; }\n\
    on_all() { for cpu in 0 1 2 3; do taskset -c $cpu \"$@\"; done; }\n\
    verify first\n\
    for offset in $(seq 8 60); do\n\
    echo \"p:at_$offset vfs_open+$offset\" >>tracing/kprobe_events; done 2>/dev/null\n\
    echo 1 >tracing/events/kprobes/enable\n\
    until grep -q OPTIMIZED kprobes/list; do usleep 100000; done\n\
    section optimized; grep OPTIMIZED kprobes/list; verify jumps\n\
    on_all cat /proc/version >/dev/null; section hits; grep ' at_' tracing/trace\n\
    echo 0 >tracing/events/kprobes/enable; echo >tracing/kprobe_events; verify unprobed\n\
    insmod /modules/livepatch-sample.ko; patch=/sys/kernel/livepatch/livepatch_sample\n\
    until [ $(cat $patch/transition) = 0 ]; do usleep 100000; done; verify patched\n\
    section patch; on_all cat /proc/cmdline; section rest; echo 0 >$patch/enabled\n\
    while [ -e $patch ]; do usleep 100000; done; rmmod livepatch_sample; verify unpatched\n\
    section cmdline; on_all cat /proc/cmdline\n\
    insmod /modules/test_bpf.ko test_suite=test_bpf test_range=0,450\n\
    section bpf; dmesg | grep 'test_bpf: Summary'; verify jited\n";

/// The kernel's own tests of its debugger: breakpoints in its text on all processors. Complaints of
/// theirs are for their verdicts.
const DEBUGGER: &str = "\
    section before; complaints; section rest; dmesg -c >/dev/null\n\
    echo V1F20 >/sys/module/kgdbts/parameters/kgdbts\n\
    for round in $(seq 10); do for cpu in 0 1 2 3; do taskset -c $cpu true; done; done\n\
    section kgdb; dmesg | grep -E 'kgdbts|BUG|WARNING|Oops'\n\
    section debugged; cat ktext_repl/verify; section rest; dmesg -c >/dev/null\n";

/// What the debugger's tests say on a side: which were run, and which failed.
fn debugged(console: &NumaConsole) -> Result<Vec<&str>, String> {
    no_complaints(console, "before")?;
    let mut lines = Vec::new();
    for line in console.section("kgdb").lines() {
        let is_verdict = ["kgdbts:RUN ", " test failed"]
            .iter()
            .any(|it| line.contains(it));
        // How far it is.
        if is_verdict && !line.contains('[') {
            lines.push(line);
        }
        let is_its_own = line.contains("kgdbts");
        expect(is_its_own, format!("the kernel complains: {line}"))?;
    }
    Ok(lines)
}

/// `ktext_repl=off` is compared with.
pub(super) fn check(kernel: &NumaKernel) -> Result<(), String> {
    let on = NumaMachine {
        limit: LIMIT,
        ..machine(kernel, 2)
    };
    let console = run(&on, &format!("{SCRIPT}{DEBUGGER}"))?;
    for section in [
        "first",
        "jumps",
        "unprobed",
        "patched",
        "unpatched",
        "jited",
        "debugged",
    ] {
        check_equal(&console, section)?;
    }
    let hits = console.section("hits");
    for cpu in 0..2 * CPUS_OF_NODE {
        let tag = format!("[{cpu:03}]");
        expect(
            hits.contains(&tag),
            format!("no hit on processor {cpu}:\n{hits}"),
        )?;
    }
    let is_patched = |section: &str| {
        let lines = console.section(section).lines();
        lines.filter(|line| line.contains("live patched")).count()
    };
    let patched = [is_patched("patch"), is_patched("cmdline")];
    expect(
        patched == [4, 0],
        format!("patched on {patched:?} processors"),
    )?;
    let bpf = console.section("bpf");
    expect(bpf.contains(" 0 FAILED"), bpf)?;
    let off = NumaMachine {
        append: "ktext_repl=off",
        ..on
    };
    let without = run(&off, DEBUGGER)?;
    let (with, without) = (debugged(&console)?, debugged(&without)?);
    println!("{bpf}{}", with.join("\n"));
    expect(
        with.iter().any(|line| line.contains("sw breakpoint")),
        "the debugger was not tested",
    )?;
    expect(
        with == without,
        format!("without replication: {}", without.join("\n")),
    )
}

pub(super) fn modify_text() {
    check(&kernel_with_tests()).unwrap();
}

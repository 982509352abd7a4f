//! Copies of the kernel's own text: who runs them, whether they are equal, and where they lie.

use brisk_testkit::{CPUS_OF_NODE, NumaConsole, NumaKernel};

use crate::machine::{expect, kernel, on, on_two};

/// What each processor runs, from a table of `divergence`: an error names the first that is wrong.
pub(super) fn check_divergence(
    console: &NumaConsole,
    section: &str,
    nodes: usize,
    is_active: bool,
) -> Result<(), String> {
    let rows = console.rows(section, ["cpu", "node", "slot", "answer"]);
    let cpus = nodes * CPUS_OF_NODE;
    expect(
        rows.len() == cpus,
        format!("{section}: {} processors", rows.len()),
    )?;
    let mut slots = Vec::new();
    for [cpu, node, slot, answer] in &rows {
        expect(
            slot == answer && (is_active || answer == "0"),
            format!("{section}: processor {cpu} of node {node} runs copy {answer}, not {slot}"),
        )?;
        slots.push((slot.clone(), node.clone()));
    }
    slots.sort();
    slots.dedup();
    // No two nodes share one, and the processors of a node agree.
    expect(slots.len() == nodes, format!("{section}: {slots:?}"))
}

/// Whether all copies are equal, from a table of `verify`.
pub(super) fn check_equal(console: &NumaConsole, section: &str) -> Result<(), String> {
    let columns = [
        "node",
        "bytes",
        "different",
        "first",
        "entries_different",
        "first_entry",
    ];
    let rows = console.rows(section, columns);
    expect(!rows.is_empty(), format!("{section}: nothing was compared"))?;
    for [node, bytes, different, first, entries, first_entry] in rows {
        let bytes: u64 = bytes.parse().unwrap();
        expect(bytes > 4 << 20, format!("{section}: only {bytes} bytes"))?;
        expect(
            different == "0",
            format!("{section}: {different} bytes differ on node {node} from {first}"),
        )?;
        expect(
            entries == "0",
            format!("{section}: {entries} entries differ on node {node} from {first_entry}"),
        )?;
    }
    Ok(())
}

const DIVERGENCE: &str = "\
    section on; cat ktext_repl/divergence\n\
    echo 0 >ktext_repl/active; section off; cat ktext_repl/divergence\n\
    echo 1 >ktext_repl/active; section again; cat ktext_repl/divergence";

pub(super) fn check_who_runs_what(kernel: &NumaKernel, nodes: usize) -> Result<(), String> {
    let console = on(kernel, nodes, "", DIVERGENCE)?;
    check_divergence(&console, "on", nodes, true)?;
    check_divergence(&console, "off", nodes, false)?;
    check_divergence(&console, "again", nodes, true)
}

pub(super) fn divergence() {
    check_who_runs_what(&kernel(), 2).unwrap();
    check_who_runs_what(&kernel(), 4).unwrap();
}

/// Tracers, probes, jump labels and BPF modify text; `verify` compares in each state.
const POKED: &str = "\
    verify() { section $1; cat ktext_repl/verify; }\n\
    verify first\n\
    echo function >tracing/current_tracer; verify traced; echo nop >tracing/current_tracer\n\
    verify untraced\n\
    echo 'p:open do_sys_openat2' >tracing/kprobe_events\n\
    echo 'r:opened do_sys_openat2 $retval' >>tracing/kprobe_events\n\
    echo 1 >tracing/events/kprobes/enable; verify probed\n\
    for cpu in 0 1 2 3; do taskset -c $cpu cat /proc/version >/tmp-$cpu; done\n\
    section hits; grep ' open: ' tracing/trace\n\
    echo 0 >tracing/events/kprobes/enable; echo >tracing/kprobe_events; verify unprobed\n\
    echo 1 >tracing/events/enable; verify events; echo 0 >tracing/events/enable; verify quiet";

pub(super) fn check_poked(kernel: &NumaKernel) -> Result<(), String> {
    let console = on_two(kernel, POKED)?;
    for section in [
        "first", "traced", "untraced", "probed", "unprobed", "events", "quiet",
    ] {
        check_equal(&console, section)?;
    }
    // The probe was hit on processors of both nodes.
    let hits = console.section("hits");
    for cpu in 0..2 * CPUS_OF_NODE {
        expect(
            hits.contains(&format!("[{cpu:03}]")),
            format!("no hit on processor {cpu}:\n{hits}"),
        )?;
    }
    Ok(())
}

pub(super) fn poked() {
    check_poked(&kernel()).unwrap();
}

const MAPPED: &str = "section map; cat ktext_repl/map; section stats; cat ktext_repl/stats; \
    section cpus; cat ktext_repl/cpus";

pub(super) fn check_mapped(kernel: &NumaKernel, nodes: usize) -> Result<(), String> {
    let console = on(kernel, nodes, "", MAPPED)?;
    let mut seen = vec![0_u64; nodes];
    let columns = ["node", "size", "pa_node", "prot", "kind", "state"];
    for [node, size, pa_node, prot, kind, state] in console.rows("map", columns) {
        let row = format!("{kind} of {size} bytes on node {node}: {prot} {state}, in {pa_node}");
        let is_right = prot == if kind == "text" { "r-x" } else { "r--" };
        // A kernel image that lies on two nodes has a copy on each.
        expect(is_right && node == pa_node, row)?;
        seen[node.parse::<usize>().unwrap()] += size.parse::<u64>().unwrap();
    }
    expect(
        seen.iter().all(|size| *size > 4 << 20 && *size == seen[0]),
        format!("sizes per node: {seen:?}"),
    )?;
    for [name, value] in console.rows("stats", ["name", "value"]) {
        let is_failure = name.ends_with("_failures");
        expect(!is_failure || value == "0", format!("{name}: {value}"))?;
    }
    for [cpu, verdict] in console.rows("cpus", ["cpu", "verdict"]) {
        expect(verdict == "own", format!("processor {cpu}: {verdict}"))?;
    }
    Ok(())
}

pub(super) fn mapped() {
    check_mapped(&kernel(), 2).unwrap();
    check_mapped(&kernel(), 4).unwrap();
}

const HOTPLUG: &str = "\
    for round in 1 2 3; do for cpu in 1 2 3; do\n\
    echo 0 >/sys/devices/system/cpu/cpu$cpu/online\n\
    echo function >tracing/current_tracer; echo nop >tracing/current_tracer\n\
    echo 1 >/sys/devices/system/cpu/cpu$cpu/online\n\
    done; done\n\
    section divergence; cat ktext_repl/divergence\n\
    section verify; cat ktext_repl/verify";

pub(super) fn check_hotplug(kernel: &NumaKernel) -> Result<(), String> {
    let console = on_two(kernel, HOTPLUG)?;
    check_divergence(&console, "divergence", 2, true)?;
    check_equal(&console, "verify")
}

pub(super) fn hotplug() {
    check_hotplug(&kernel()).unwrap();
}

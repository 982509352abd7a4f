//! What replication costs and what is to be known of it.

use super::gain::have;
use super::{Findings, Rule, advice};
use crate::ktext::check::consequence::Consequence;
use crate::ktext::check::cost::Cost;
use crate::ktext::check::machine::{Machine, Replication};
use crate::ktext::{amount, kib};
use brisk_lint::Applies;

/// Part of a node's memory from which on its cost is a warning: one in so many.
const PART: u64 = 50;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "memory-cost",
        applies: Applies::Host,
        why: "that memory is taken from programs, and never given back",
        source: "the patch series; Linux: code_resource of arch/x86/kernel/setup.c",
        check: cost,
    },
    Rule {
        id: "node-without-cpus",
        applies: Applies::Host,
        why: "it gets no copy, which no CPU would use",
        source: "the patch series: ktext_repl_has_cpus of arch/x86/mm/ktext_repl.c",
        check: without_cpus,
    },
    Rule {
        id: "node-without-memory",
        applies: Applies::Host,
        why: "its CPUs run on the master, as they do now",
        source: "the patch series: ktext_repl_cpu_slot of arch/x86/mm/ktext_repl.c",
        check: without_memory,
    },
    Rule {
        id: "hibernation",
        applies: Applies::Host,
        why: "the kernel refuses to hibernate while it has copies",
        source: "the patch series: hibernation_available of kernel/power/hibernate.c",
        check: hibernation,
    },
    Rule {
        id: "its-thunks",
        applies: Applies::Host,
        why: "those thunks have no copies: CPUs of other nodes fetch them from that of the kernel image",
        source: "Linux: emit_its_trampoline of arch/x86/kernel/alternative.c, its_mitigation of arch/x86/kernel/cpu/bugs.c",
        check: thunks,
    },
    Rule {
        id: "kernel-without",
        applies: Applies::Host,
        why: "whether this machine gains can be measured only with such a kernel",
        source: "Linux: /proc/config.gz, /boot/config-RELEASE",
        check: without,
    },
    Rule {
        id: "replication-off",
        applies: Applies::Host,
        why: "CPUs fetch instructions from the node that has the kernel image",
        source: "debugfs: ktext_repl/stats",
        check: off,
    },
];

fn cost(on: &Machine, findings: &mut Findings) {
    let cost = Cost::of(on);
    let Some(bytes) = cost.on_a_node().filter(|_| cost.nodes != Some(0)) else {
        return;
    };
    let served = on
        .nodes
        .iter()
        .filter(|node| node.is_served() == Some(true));
    let sizes = served.filter_map(|node| Some((node.memory?, node.number)));
    let Some((memory, number)) = sizes.min() else {
        return;
    };
    if bytes > memory / PART {
        findings.add_with_evidence(
            Consequence::Warn,
            format!(
                "copies take up to {} of each node, and node {} has {}",
                amount(bytes),
                number,
                amount(memory)
            ),
            "/proc/iomem, /proc/modules, /sys/devices/system/node/node*/meminfo",
            advice(
                "ktext_repl_modules=off leaves modules out; a smaller kernel has smaller copies",
            ),
        );
    }
}

fn without_cpus(on: &Machine, findings: &mut Findings) {
    let empty = on.nodes.iter();
    let empty: Vec<_> = empty
        .filter(|node| node.has_memory() == Some(true) && node.has_cpus() == Some(false))
        .collect();
    if !empty.is_empty() {
        findings.add_with_evidence(
            Consequence::Note,
            format!("{} memory and no CPUs", have(&empty)),
            "/sys/devices/system/node/node*/cpulist",
            advice("nothing: it takes no memory of it"),
        );
    }
}

fn without_memory(on: &Machine, findings: &mut Findings) {
    let empty = on.nodes.iter();
    let empty: Vec<_> = empty
        .filter(|node| node.has_memory() == Some(false) && node.has_cpus() == Some(true))
        .collect();
    if !empty.is_empty() {
        findings.add_with_evidence(
            Consequence::Note,
            format!("{} CPUs and no memory for the kernel", have(&empty)),
            "/sys/devices/system/node: has_normal_memory, node*/meminfo",
            advice("put memory into its slots, or leave some of it not movable"),
        );
    }
}

fn hibernation(on: &Machine, findings: &mut Findings) {
    if let Some(device) = &on.resume {
        findings.add_with_evidence(
            Consequence::Warn,
            "the machine is set up to hibernate",
            format!("/sys/power/resume is {device}"),
            advice("suspend to RAM, or boot without ktext_repl=on where it has to hibernate"),
        );
    }
}

fn thunks(on: &Machine, findings: &mut Findings) {
    const FILE: &str = "/sys/devices/system/cpu/vulnerabilities/indirect_target_selection";
    let state = on.processors.indirect_target_selection.as_deref();
    let Some(state) = state.filter(|state| state.starts_with("Mitigation: Aligned branch")) else {
        return;
    };
    findings.add_with_evidence(
        Consequence::Note,
        "some indirect branches go through thunks against Indirect Target Selection (ITS)",
        format!("{FILE}: {state}"),
        advice("nothing: the mitigation is needed, and a measurement of both sides has those thunks in it"),
    );
}

fn without(on: &Machine, findings: &mut Findings) {
    if on.is_built == Some(false) {
        findings.add_with_evidence(
            Consequence::Note,
            format!("Linux {} was built without replication", on.release),
            format!(
                "{}: no CONFIG_KTEXT_REPLICATION=y",
                on.config.as_deref().unwrap_or_default()
            ),
            advice("boot a kernel with the patch series, and measure both sides in one boot"),
        );
    }
}

fn off(on: &Machine, findings: &mut Findings) {
    let Replication::Present(stats) = &on.replication else {
        return;
    };
    let Some(reason) = stats.why_off() else {
        return;
    };
    let kept = stats.resident_pages.saturating_add(stats.module_pages);
    findings.add_with_evidence(
        Consequence::Note,
        format!("this kernel can replicate its text, and does not: {reason}"),
        format!(
            "ktext_repl/stats: active is 0, copies of {}",
            kib(kept.saturating_mul(4096))
        ),
        advice("brisk ktext info says more"),
    );
}

//! What the kernel of the patch series refuses.

use super::{Findings, Rule, advice};
use crate::ktext::check::consequence::Consequence;
use crate::ktext::check::machine::Machine;
use crate::lint::Applies;

/// Memory that 4-level page tables can map, bytes (`Documentation/arch/x86/x86_64/mm.rst`).
const FOUR_LEVELS: u64 = 64 << 40;
/// Where the kernel asks for all of this.
const SOURCE: &str = "the patch series: ktext_repl_refusal of arch/x86/mm/ktext_repl.c";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "not-x86-64",
        applies: Applies::Host,
        why: "the patch series is for x86-64",
        source: "the patch series: KTEXT_REPLICATION of arch/x86/Kconfig",
        check: architecture,
    },
    Rule {
        id: "rodata-off",
        applies: Applies::Host,
        why: "kernel text stays writable, and copies would not follow what writes to it",
        source: SOURCE,
        check: rodata,
    },
    Rule {
        id: "xen-pv",
        applies: Applies::Host,
        why: "page tables of a paravirtualised guest belong to Xen",
        source: SOURCE,
        check: xen,
    },
    Rule {
        id: "hyper-v",
        applies: Applies::Host,
        why: "Hyper-V flushes translations by the address of one page table for each process",
        source: "the patch series; Linux: hyperv_flush_tlb_multi of arch/x86/hyperv/mmu.c",
        check: hyper_v,
    },
    Rule {
        id: "memory-encryption",
        applies: Applies::Host,
        why: "copies and page tables would need the bit of encryption, which the series does not set",
        source: SOURCE,
        check: encryption,
    },
    Rule {
        id: "la57",
        applies: Applies::Host,
        why: "the series copies 4-level page tables",
        source: "the patch series; Linux: Documentation/arch/x86/x86_64/5level-paging.rst",
        check: five_levels,
    },
    Rule {
        id: "page-table-isolation",
        applies: Applies::Host,
        why: "each process has a second page table for user mode, which the series does not copy",
        source: "the patch series; Linux: Documentation/arch/x86/pti.rst",
        check: isolation,
    },
];

fn refuse(findings: &mut Findings, what: impl Into<String>, evidence: &str, fix: &str) {
    findings.add_with_evidence(Consequence::Refuse, what, evidence, advice(fix));
}

fn architecture(on: &Machine, findings: &mut Findings) {
    // Long mode; no feature at all is known where /proc/cpuinfo has another form.
    if !on.has("lm") {
        refuse(
            findings,
            "this is no x86-64 machine, as far as it shows",
            "/proc/cpuinfo: flags do not have lm",
            "on arm64, see the series of openEuler",
        );
    }
}

fn rodata(on: &Machine, findings: &mut Findings) {
    let words = on.cmdline.split_whitespace();
    let values = words.filter_map(|word| word.strip_prefix("rodata="));
    // The kernel ignores other values, and the last one counts.
    let mut known = values.filter(|value| matches!(*value, "on" | "off"));
    if known.next_back() == Some("off") {
        refuse(
            findings,
            "read-only data of the kernel can be written",
            "/proc/cmdline: rodata=off",
            "boot without rodata=off",
        );
    }
}

fn xen(on: &Machine, findings: &mut Findings) {
    if on.xen.as_deref() == Some("PV") {
        refuse(
            findings,
            "this is a paravirtualised guest of Xen, or its control domain",
            "/sys/hypervisor/guest_type is PV",
            "make it a PVH or HVM guest (type= in xl.cfg(5))",
        );
    }
}

fn hyper_v(on: &Machine, findings: &mut Findings) {
    if let Some(evidence) = on.hyper_v {
        refuse(
            findings,
            "this is a guest of Hyper-V",
            evidence,
            "none: use a machine without Hyper-V",
        );
    }
}

fn encryption(on: &Machine, findings: &mut Findings) {
    let is_off = on
        .cmdline
        .split_whitespace()
        .any(|word| word == "mem_encrypt=off");
    if let Some(evidence) = on.encrypted_guest {
        refuse(
            findings,
            "this is a guest whose memory is encrypted",
            evidence,
            "none: it would have to be a guest without memory encryption",
        );
    } else if on.has("sme") && !is_off {
        // The kernel takes the flag away where it does not encrypt (early_detect_mem_encrypt of
        // arch/x86/kernel/cpu/amd.c); older ones did not.
        refuse(
            findings,
            "memory is encrypted (SME)",
            "/proc/cpuinfo: flags have sme",
            "boot with mem_encrypt=off, which gives up the encryption of memory",
        );
    }
}

fn five_levels(on: &Machine, findings: &mut Findings) {
    if !on.has("la57") {
        return;
    }
    let memory = on.nodes.iter().map(|node| node.memory);
    let memory = memory.fold(0, u64::saturating_add);
    let fix = match memory > FOUR_LEVELS {
        false => "boot with no5lvl",
        true => "none: 4-level page tables map 64 TB, and this machine has more",
    };
    refuse(
        findings,
        "the kernel uses 5-level page tables",
        "/proc/cpuinfo: flags have la57",
        fix,
    );
}

fn isolation(on: &Machine, findings: &mut Findings) {
    let meltdown = on.meltdown.as_deref().unwrap_or("not known");
    if on.has("pti") {
        refuse(
            findings,
            "the kernel isolates page tables of kernel and user mode",
            &format!(
                "/proc/cpuinfo: flags have pti; /sys/devices/system/cpu/vulnerabilities/meltdown: \
                 {meltdown}"
            ),
            "use a machine with processors that Meltdown does not affect; pti=off gives up the \
             protection from it, and is for machines whose programs are all trusted",
        );
    }
}

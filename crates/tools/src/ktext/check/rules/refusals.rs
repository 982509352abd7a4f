//! What the kernel of the patch series refuses.

use super::gain::unknown;
use super::{Findings, Rule, advice};
use crate::ktext::check::consequence::Consequence;
use crate::ktext::check::machine::Machine;
use crate::ktext::check::processors::Kind;
use brisk_lint::Applies;

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
    // Long mode.
    if on.has("lm") {
        return;
    }
    let (evidence, fix) = match on.processors.kind {
        Kind::Unknown => {
            unknown(findings, "the processors", "/proc/cpuinfo is not there");
            return;
        }
        Kind::X86 => (
            "/proc/cpuinfo: flags do not have lm",
            "none: its processors have 32 bits",
        ),
        Kind::Arm => (
            "/proc/cpuinfo: CPU implementer",
            "on arm64, see the series of openEuler",
        ),
        Kind::Other => (
            "/proc/cpuinfo has no flags",
            "none: the series is for x86-64 alone",
        ),
    };
    refuse(findings, "this is no x86-64 machine", evidence, fix);
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
    if let Some(evidence) = on.encrypted_guest {
        refuse(
            findings,
            "this is a guest whose memory is encrypted",
            evidence,
            "none: it would have to be a guest without memory encryption",
        );
    } else if on.has("sme") {
        host_encryption(on, findings);
    }
}

/// Kernels from this version on show `sme` only where they encrypt (`early_detect_mem_encrypt` of
/// `arch/x86/kernel/cpu/amd.c`).
const SHOWS_SME: (u32, u32) = (6, 1);

/// On a machine whose processors have SME, as the kernel shows.
fn host_encryption(on: &Machine, findings: &mut Findings) {
    const FIX: &str = "boot with mem_encrypt=off, which gives up the encryption of memory";
    let words = on.cmdline.split_whitespace();
    let value = words
        .filter_map(|word| word.strip_prefix("mem_encrypt="))
        .next_back();
    let is_exact = on.version.is_some_and(|version| version >= SHOWS_SME);
    let encrypts = match value {
        Some("on") => Some("/proc/cmdline: mem_encrypt=on"),
        Some("off") => None,
        _ if is_exact => Some("/proc/cpuinfo: flags have sme"),
        _ if on.encrypts_by_default == Some(true) => {
            Some("/proc/cpuinfo: flags have sme; CONFIG_AMD_MEM_ENCRYPT_ACTIVE_BY_DEFAULT=y")
        }
        _ if on.encrypts_by_default.is_none() => {
            findings.add_with_evidence(
                Consequence::Warn,
                "memory may be encrypted (SME), which the series refuses",
                "/proc/cpuinfo: flags have sme, which Linux before 6.1 shows in any case",
                advice(format!(
                    "look for Memory Encryption in the kernel's log; where it is active, {FIX}"
                )),
            );
            None
        }
        _ => None,
    };
    if let Some(evidence) = encrypts {
        refuse(findings, "memory is encrypted (SME)", evidence, FIX);
    }
}

fn five_levels(on: &Machine, findings: &mut Findings) {
    if !on.has("la57") {
        return;
    }
    let memory = on.nodes.iter().filter_map(|node| node.memory);
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

/// Kernels from this version on show `pti` where they isolate page tables, and what they do about
/// Meltdown.
const SHOWS_PTI: (u32, u32) = (4, 15);

fn isolation(on: &Machine, findings: &mut Findings) {
    const FILE: &str = "/sys/devices/system/cpu/vulnerabilities/meltdown";
    let meltdown = on.processors.meltdown.as_deref().unwrap_or("not known");
    // Kernels of distributions that are older show it in that file alone.
    if on.has("pti") || meltdown.starts_with("Mitigation: PTI") {
        let flags = if on.has("pti") { "have" } else { "do not have" };
        refuse(
            findings,
            "the kernel isolates page tables of kernel and user mode",
            &format!("/proc/cpuinfo: flags {flags} pti; {FILE}: {meltdown}"),
            "use a machine with processors that Meltdown does not affect; pti=off gives up the \
             protection from it, and is for machines whose programs are all trusted",
        );
        return;
    }
    let is_shown = on.version.is_some_and(|version| version >= SHOWS_PTI);
    let is_affected = !matches!(&*on.processors.vendor, "AuthenticAMD" | "HygonGenuine");
    if on.has("lm") && on.processors.meltdown.is_none() && is_affected && !is_shown {
        unknown(
            findings,
            "whether the kernel isolates page tables because of Meltdown",
            &format!("{FILE} is not there"),
        );
    }
}

//! Whether a target is comparable with the host, as rules over evidence of both. Pure.

use std::collections::BTreeSet;

use super::evidence::Evidence;
use super::started::PROCESSORS_OF_VMM;
use super::vmm::{ACCELERATORS, is_emulated};
use crate::lint::{Applies, Description, Finding, Findings, Fix, Rule, Severity};

/// Difference of two clocks that is no caveat.
const SKEW: f64 = 0.005;
/// Difference that the resolution of a clock and the way of the lines may make besides, seconds.
const RESOLUTION: f64 = 0.02;
/// Share of the rounds that may be dropped.
const DROPPED: f64 = 0.2;
/// Difference of the speeds of the processor that is no caveat, unless the host differs more from
/// itself.
const DRIFT: f64 = 0.05;
/// Share of its time in which other programs may have the processors.
const NEIGHBOURS: f64 = 0.05;
/// Share beyond which times say nothing.
const MANY_NEIGHBOURS: f64 = 0.2;

/// Whether times of a target may be compared with those of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Comparable {
    /// They may.
    Yes,
    /// They may, if what is found is said with them.
    Caveat,
    /// They may not.
    No,
}

impl Comparable {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Yes => "comparable",
            Self::Caveat => "with caveat",
            Self::No => "not comparable",
        }
    }

    /// Result of findings.
    #[must_use]
    pub fn of(findings: &[Finding]) -> Self {
        let of_one = |finding: &Finding| match finding.severity {
            Severity::Impossible => Self::No,
            _ => Self::Caveat,
        };
        findings.iter().map(of_one).max().unwrap_or(Self::Yes)
    }
}

/// All rules, in the order in which findings are shown.
pub const RULES: &[Rule<Evidence>] = &[
    Rule {
        id: "no-run",
        applies: Applies::Target,
        why: "there is no time to compare",
        source: "the runs of the target",
        check: no_run,
    },
    Rule {
        id: "other-objects",
        applies: Applies::Target,
        why: "the target did other work than the host, so the times say nothing",
        source: "gcc makes the same object of the same unit and options wherever it runs",
        check: other_objects,
    },
    Rule {
        id: "other-compiler",
        applies: Applies::Target,
        why: "another compiler takes another time for the same units",
        source: "hashes of the programs `cc1` and `as` that gcc calls",
        check: other_compiler,
    },
    Rule {
        id: "unequal-cpus",
        applies: Applies::Target,
        why: "the target can do more at once than the host may, or less",
        source: "`nproc` in the target, and the processors that it runs on",
        check: unequal_cpus,
    },
    Rule {
        id: "not-pinned",
        applies: Applies::Target,
        why: "it ran on other processors than the host, or on more of them",
        source: "sched_setaffinity(2) of the threads of its VMM",
        check: not_pinned,
    },
    Rule {
        id: "swap",
        applies: Applies::Target,
        why: "a disk was measured, and not the work",
        source: "`pswpin` and `pswpout` of proc_vmstat(5)",
        check: swap,
    },
    Rule {
        id: "neighbours",
        applies: Applies::Target,
        why: "the time of other programs is in the times",
        source: "`Documentation/accounting/psi.rst` of the kernel: `full` of a group's CPU pressure",
        check: neighbours,
    },
    Rule {
        id: "processor-speed",
        applies: Applies::Target,
        why: "the processor itself was faster or slower, by its clock rate",
        source: "the time of a fixed number of instructions on the host before each run; \
                 `Documentation/admin-guide/pm/cpufreq.rst` of the kernel",
        check: processor_speed,
    },
    Rule {
        id: "unequal-memory",
        applies: Applies::Target,
        why: "with less memory, less of the files stays in the page cache",
        source: "`MemTotal` of proc_meminfo(5); a comparison with 24 GB in guests against 32 GB on \
                 the host was repeated for it (Phoronix, 2011)",
        check: unequal_memory,
    },
    Rule {
        id: "other-kernel",
        applies: Applies::Target,
        why: "part of the difference may be that of the kernels",
        source: "`uname -r` on both sides; two VMMs were equally fast with the same kernel and \
                 disk (containers/libkrun#655)",
        check: other_kernel,
    },
    Rule {
        id: "other-mitigations",
        applies: Applies::Target,
        why: "mitigations of processor flaws make system calls and faults slower",
        source: "`/sys/devices/system/cpu/vulnerabilities` on both sides; QubesOS/qubes-issues#7404",
        check: other_mitigations,
    },
    Rule {
        id: "other-huge-pages",
        applies: Applies::Target,
        why: "memory in huge pages takes fewer faults and misses of the TLB",
        source: "`Documentation/admin-guide/mm/transhuge.rst` of the kernel",
        check: other_huge_pages,
    },
    Rule {
        id: "clock-skew",
        applies: Applies::Target,
        why: "times that are taken inside the target are wrong",
        source: "a Firecracker guest whose clock ran ahead until NTP corrected it \
                 (firecracker-microvm/firecracker#1646)",
        check: clock_skew,
    },
    Rule {
        id: "emulation",
        applies: Applies::Target,
        why: "the loss is that of emulating a processor, not of virtualising one",
        source: "`docs/devel/tcg.rst` of QEMU",
        check: emulation,
    },
    Rule {
        id: "unsafe-cache",
        applies: Applies::Target,
        why: "flushes of the guest are ignored, so times of work on its disks are too good",
        source: "`cache` of qemu(1)",
        check: unsafe_cache,
    },
    Rule {
        id: "other-file-system",
        applies: Applies::Target,
        why: "files are written to another kind of file system than on the host",
        source: "`stat -f` of the work directory",
        check: other_file_system,
    },
];

/// All rules, for lists.
#[must_use]
pub fn descriptions() -> Vec<Description> {
    RULES.iter().map(Rule::description).collect()
}

fn advice(text: &str) -> Fix {
    Fix::Advice(text.to_owned())
}

fn no_run(evidence: &Evidence, findings: &mut Findings) {
    if evidence.has_failed && evidence.objects.is_empty() {
        let fix = advice("mend what its failed runs report, and measure it again");
        findings.add(Severity::Impossible, "none of its runs succeeded", fix);
    }
}

fn other_objects(evidence: &Evidence, findings: &mut Findings) {
    for object in &evidence.objects {
        let fix = advice("give the target the host's compiler, and look at its options");
        let what = format!("object {object} differs from the host's");
        findings.add(Severity::Impossible, what, fix);
    }
}

fn other_compiler(evidence: &Evidence, findings: &mut Findings) {
    let differs = ["cc1", "as"]
        .into_iter()
        .filter_map(|name| evidence.differs(name).map(|_| name));
    let programs: Vec<_> = differs.collect();
    if !programs.is_empty() {
        let versions = evidence.differs("compiler");
        let versions = versions.map(|(host, target)| format!(": {target}, and {host} on the host"));
        let what = format!(
            "{} of the target is another program than the host's{}",
            programs.join(" and "),
            versions.unwrap_or_default()
        );
        let fix = advice("install the same version of gcc and binutils on both");
        findings.add(Severity::Impossible, what, fix);
    }
}

fn unequal_cpus(evidence: &Evidence, findings: &mut Findings) {
    let seen = evidence
        .target
        .get("cpus")
        .and_then(|text| text.parse::<usize>().ok());
    if let Some(seen) = seen.filter(|seen| *seen != evidence.cpus) {
        let what = format!("the target sees {seen} CPUs, and runs on {}", evidence.cpus);
        let fix = advice("give the target as many CPUs as --cpus names");
        findings.add(Severity::Impossible, what, fix);
    }
}

fn not_pinned(evidence: &Evidence, findings: &mut Findings) {
    if let Some(why) = evidence.target.get(PROCESSORS_OF_VMM) {
        let fix = advice("run brisk as its user or as root, or pin it by itself");
        findings.add(Severity::Low, format!("its VMM is {why}"), fix);
    }
}

fn swap(evidence: &Evidence, findings: &mut Findings) {
    if evidence.swapped > 0.0 {
        let what = format!(
            "{} pages were swapped while it was measured",
            evidence.swapped
        );
        let fix = advice("give the target more memory, or free some of the host's");
        findings.add(Severity::Impossible, what, fix);
    }
}

fn neighbours(evidence: &Evidence, findings: &mut Findings) {
    let (dropped, rounds) = evidence.dropped;
    if dropped as f64 > DROPPED * rounds as f64 {
        let what = format!(
            "{dropped} of {rounds} rounds were dropped, since other programs had the processors"
        );
        let fix = advice("end them, choose another processor with --cpus, or --keep-disturbed");
        findings.add(Severity::Impossible, what, fix);
        return;
    }
    let sides = [
        ("the target's", evidence.neighbours),
        ("the host's", evidence.host_neighbours),
    ];
    for (side, share) in sides {
        let Some(share) = share.filter(|share| *share > NEIGHBOURS) else {
            continue;
        };
        let severity = match share > MANY_NEIGHBOURS {
            true => Severity::Impossible,
            false => Severity::Low,
        };
        let percent = share * 100.0;
        let what = format!("other programs had the processors in {percent:.0} % of {side} time");
        let fix = advice("end them, or choose another processor with --cpus");
        findings.add(severity, what, fix);
    }
}

fn processor_speed(evidence: &Evidence, findings: &mut Findings) {
    let Some((target, host)) = evidence.speeds.filter(|(_, host)| *host > 0.0) else {
        return;
    };
    let difference = target / host - 1.0;
    let floor = evidence.floor_of_speed.unwrap_or(0.0);
    if difference.abs() > DRIFT.max(floor) {
        let more = match difference > 0.0 {
            true => "more",
            false => "less",
        };
        let what = format!(
            "before its runs, the same instructions took {:.1} % {more} time on the host",
            difference.abs() * 100.0
        );
        let fix = advice(
            "have the processors keep their clock rate: cpupower frequency-set -g performance",
        );
        findings.add(Severity::Impossible, what, fix);
    }
}

fn unequal_memory(evidence: &Evidence, findings: &mut Findings) {
    let Some((host, target)) = evidence.differs("memory") else {
        return;
    };
    let gib = |text: &str| text.parse::<f64>().ok().map(|kib| kib / f64::from(1 << 20));
    if let Some((host, target)) = gib(host).zip(gib(target)) {
        let what = format!("it has {target:.1} GiB of memory, and the host {host:.1}");
        let fix = advice("give it as much, or keep what the workload needs in less");
        findings.add(Severity::Low, what, fix);
    }
}

fn other_kernel(evidence: &Evidence, findings: &mut Findings) {
    if let Some((host, target)) = evidence.differs("kernel") {
        let what = format!("its kernel is {target}, and the host's {host}");
        let fix = advice(
            "run the host's kernel in it, where it can have that; --ablate kernel for guests of brisk's",
        );
        findings.add(Severity::Low, what, fix);
    }
}

fn other_mitigations(evidence: &Evidence, findings: &mut Findings) {
    let Some((host, target)) = evidence.differs("mitigations") else {
        return;
    };
    let of = |text: &str| text.split("; ").map(str::to_owned).collect::<BTreeSet<_>>();
    let (host, target) = (of(host), of(target));
    let names: BTreeSet<_> = host
        .symmetric_difference(&target)
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
        .collect();
    let names: Vec<_> = names.into_iter().collect();
    let what = format!("mitigations differ from the host's: {}", names.join(", "));
    let fix = advice("boot both with the same mitigations=, and give a guest the host's CPU model");
    findings.add(Severity::Low, what, fix);
}

fn other_huge_pages(evidence: &Evidence, findings: &mut Findings) {
    if let Some((host, target)) = evidence.differs("hugepages") {
        let what = format!("its transparent huge pages are {target}, and the host's {host}");
        let fix = advice("set both alike in /sys/kernel/mm/transparent_hugepage/enabled");
        findings.add(Severity::Low, what, fix);
    }
}

fn clock_skew(evidence: &Evidence, findings: &mut Findings) {
    let Some((own, time)) = evidence.clocks else {
        return;
    };
    let difference = own - time;
    if difference.abs() > SKEW * time + RESOLUTION {
        let percent = difference / time * 100.0;
        let what = format!("its clock differs from the host's by {percent:+.1} %");
        let fix = advice("take no times inside it; have the target use the host's clock source");
        findings.add(Severity::Low, what, fix);
    }
}

fn emulation(evidence: &Evidence, findings: &mut Findings) {
    let accelerators = evidence.target.get(ACCELERATORS);
    if accelerators.is_some_and(|names| is_emulated(names)) {
        let fix = advice("use KVM where the host has it");
        findings.add(Severity::Low, "QEMU emulates the processor (TCG)", fix);
    }
}

fn unsafe_cache(evidence: &Evidence, findings: &mut Findings) {
    if evidence.target.contains_key("unsafe cache") {
        let fix = advice("use cache=none or cache=writeback, or keep all work off the disk");
        findings.add(Severity::Low, "QEMU has a disk with cache=unsafe", fix);
    }
}

fn other_file_system(evidence: &Evidence, findings: &mut Findings) {
    if let Some((host, target)) = evidence.differs("directory") {
        let what = format!("its work directory is on {target}, and the host's on {host}");
        let fix = advice("mount a tmpfs at /dev/shm of the target");
        findings.add(Severity::Low, what, fix);
    }
}

#[cfg(test)]
mod tests;

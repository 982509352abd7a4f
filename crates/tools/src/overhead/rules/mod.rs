//! Whether a target is comparable with the host, as rules over evidence of both. Pure.

mod processors;

use std::collections::BTreeSet;

use super::evidence::Evidence;
use super::kernel::NOT_COMPARED;
use super::limits::MEMORY_LIMIT;
use super::vmm::{ACCELERATORS, is_emulated};
use brisk_lint::{Applies, Description, Finding, Findings, Fix, Rule, Severity};

/// Difference of two clocks that is no caveat.
const SKEW: f64 = 0.005;
/// Difference that the resolution of a clock and the way of the lines may make besides, seconds.
const RESOLUTION: f64 = 0.02;

/// Pages that a target may read from a disk in a run, more than the host, without a difference.
const FEW_PAGES: f64 = 16.0;

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
        id: "failed-runs",
        applies: Applies::Target,
        why: "what made them fail may be in the times of the others, too",
        source: "the runs of the target",
        check: failed_runs,
    },
    Rule {
        id: "too-short",
        applies: Applies::Target,
        why: "its times are those of the way of its lines, and not of the work",
        source: "what the lines of begin and end say beside the clock of a shell, in the same rounds",
        check: too_short,
    },
    Rule {
        id: "other-objects",
        applies: Applies::Target,
        why: "the target did other work than the host, so the times say nothing",
        source: "gcc makes the same object of the same unit and options wherever it runs",
        check: other_objects,
    },
    Rule {
        id: "objects-not-compared",
        applies: Applies::Target,
        why: "that the same work was done is known by names alone",
        source: "`MODULE_SIG` and `RANDSTRUCT` of the kernel put random numbers into objects",
        check: objects_not_compared,
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
        check: processors::unequal_cpus,
    },
    Rule {
        id: "limited-cpu",
        applies: Applies::Target,
        why: "it is stopped whenever it has used its share, and the host is not",
        source: "`cpu.max` of its control groups; `Documentation/admin-guide/cgroup-v2.rst` of the kernel",
        check: processors::limited_cpu,
    },
    Rule {
        id: "works-elsewhere",
        applies: Applies::Target,
        why: "what other programs do there, and how fast its processor is, was not seen",
        source: "CPU time of the processes that brisk counts for it",
        check: processors::works_elsewhere,
    },
    Rule {
        id: "other-processor",
        applies: Applies::Target,
        why: "part of the difference may be that of the processors, or of instructions that a model \
              lacks",
        source: "`model name` of /proc/cpuinfo on both sides",
        check: processors::other_processor,
    },
    Rule {
        id: "not-pinned",
        applies: Applies::Target,
        why: "it ran on other processors than the host, or on more of them",
        source: "sched_setaffinity(2) of the threads of its VMM",
        check: processors::not_pinned,
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
        check: processors::neighbours,
    },
    Rule {
        id: "processor-speed",
        applies: Applies::Target,
        why: "the processor itself was faster or slower, by its clock rate",
        source: "the time of a fixed number of instructions on the host before each run; \
                 `Documentation/admin-guide/pm/cpufreq.rst` of the kernel",
        check: processors::processor_speed,
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
        id: "limited-memory",
        applies: Applies::Target,
        why: "with less memory, less of the files stays in the page cache",
        source: "`memory.max` of its control groups",
        check: limited_memory,
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
    let (succeeded, failed) = evidence.runs;
    // Where all were dropped or too short, or all made another object, that is the reason.
    let was_dropped = failed == 0 && evidence.dropped.0 + evidence.untimed > 0;
    if succeeded > 0 || was_dropped || !evidence.objects.is_empty() {
        return;
    }
    let (what, fix) = match failed {
        0 => (
            "the measurement ended before a run that counts",
            "give it more time, or go on with --continue",
        ),
        _ => (
            "none of its runs succeeded",
            "mend what its failed runs report, and measure it again",
        ),
    };
    findings.add(Severity::Impossible, what, advice(fix));
}

fn failed_runs(evidence: &Evidence, findings: &mut Findings) {
    let (succeeded, failed) = evidence.runs;
    if succeeded == 0 || failed == 0 {
        return;
    }
    let severity = match failed > succeeded {
        true => Severity::Impossible,
        false => Severity::Low,
    };
    let what = format!("{failed} of its {} runs failed", succeeded + failed);
    let fix = advice("mend what they report, and measure it again");
    findings.add(severity, what, fix);
}

fn too_short(evidence: &Evidence, findings: &mut Findings) {
    let untimed = evidence.untimed;
    let what = match evidence.too_short {
        Some((median, least)) => format!(
            "its runs take {:.1} ms, and its lines say nothing below {:.1} ms",
            median * 1e3,
            least * 1e3
        ),
        None if untimed == 0 => return,
        None => format!(
            "{untimed} of its runs are so short that their begin and their end were read at once"
        ),
    };
    // A few of many may be those in which the host was busy.
    let is_rare = evidence.too_short.is_none() && untimed * 5 <= evidence.runs.0;
    let severity = match is_rare {
        true => Severity::Low,
        false => Severity::Impossible,
    };
    let fix = advice("have the command do more, such as the same a hundred times");
    findings.add(severity, what, fix);
}

fn objects_not_compared(evidence: &Evidence, findings: &mut Findings) {
    if evidence.target.contains_key(NOT_COMPARED) {
        let fix = advice("choose a configuration without CONFIG_MODULE_SIG and CONFIG_RANDSTRUCT");
        findings.add(
            Severity::Low,
            "its objects were not compared with the host's",
            fix,
        );
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
        .filter_map(|name| evidence.fact(name).map(|_| name));
    let programs: Vec<_> = differs.collect();
    if !programs.is_empty() {
        let versions = evidence.fact("compiler");
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

fn unequal_memory(evidence: &Evidence, findings: &mut Findings) {
    // What fits into the page cache of both takes no longer in the smaller one.
    let faults = evidence.major_faults;
    let is_enough = faults.is_some_and(|(host, target)| target <= host + FEW_PAGES);
    let Some((host, target)) = evidence.fact("memory").filter(|_| !is_enough) else {
        return;
    };
    let gib = |text: &str| text.parse::<f64>().ok().map(|kib| kib / f64::from(1 << 20));
    if let Some((host, target)) = gib(host).zip(gib(target)) {
        let what = format!("it has {target:.1} GiB of memory, and the host {host:.1}");
        let fix = advice("give it as much, or keep what the workload needs in less");
        findings.add(Severity::Low, what, fix);
    }
}

/// Advice on a limit that the host does not have.
const WITHOUT_LIMIT: &str = "take the limit away, or give brisk itself the same one";

fn limited_memory(evidence: &Evidence, findings: &mut Findings) {
    if let Some(kib) = evidence.own_number(MEMORY_LIMIT) {
        let gib = kib / f64::from(1 << 20);
        let what = format!("its control group may have {gib:.1} GiB of memory");
        findings.add(Severity::Low, what, advice(WITHOUT_LIMIT));
    }
}

fn other_kernel(evidence: &Evidence, findings: &mut Findings) {
    // Without a difference nothing of it is the kernel's, and emulation is most of it.
    let matters = evidence.differs && !is_emulated_target(evidence);
    if let Some((host, target)) = evidence.fact("kernel").filter(|_| matters) {
        let what = format!("its kernel is {target}, and the host's {host}");
        let fix = advice(
            "run the host's kernel in it, where it can have that; --ablate kernel for guests of brisk's",
        );
        findings.add(Severity::Low, what, fix);
    }
}

fn other_mitigations(evidence: &Evidence, findings: &mut Findings) {
    let Some((host, target)) = evidence.fact("mitigations") else {
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
    if let Some((host, target)) = evidence.fact("hugepages") {
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

fn is_emulated_target(evidence: &Evidence) -> bool {
    let accelerators = evidence.target.get(ACCELERATORS);
    accelerators.is_some_and(|names| is_emulated(names))
}

fn emulation(evidence: &Evidence, findings: &mut Findings) {
    if is_emulated_target(evidence) {
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
    if let Some((host, target)) = evidence.fact("directory") {
        let what = format!("its work directory is on {target}, and the host's on {host}");
        let fix = advice("mount a tmpfs at /dev/shm of the target");
        findings.add(Severity::Low, what, fix);
    }
}

#[cfg(test)]
mod tests;

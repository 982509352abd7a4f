//! Rules about the processors: how many, which, how fast, and who else had them. Pure.

use super::{WITHOUT_LIMIT, advice};
use crate::overhead::evidence::Evidence;
use crate::overhead::limits::CPU_LIMIT;
use crate::overhead::started::PROCESSORS_OF_VMM;
use crate::overhead::vmm::{ACCELERATORS, is_emulated};
use brisk_lint::{Findings, Severity};

/// Share of the rounds that may be dropped.
const DROPPED: f64 = 0.2;
/// Difference of the speeds of the processor that is no caveat, unless the host differs more from
/// itself.
const DRIFT: f64 = 0.05;
/// Share of its time in which other programs may have the processors.
const NEIGHBOURS: f64 = 0.05;
/// Share beyond which times say nothing.
const MANY_NEIGHBOURS: f64 = 0.2;
/// Share of the host's CPU time below which a target's work is not what was counted.
const ELSEWHERE: f64 = 0.5;
/// CPU time of the host below which that share says nothing, seconds.
const LEAST_CPU: f64 = 0.05;

pub(super) fn unequal_cpus(evidence: &Evidence, findings: &mut Findings) {
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

pub(super) fn limited_cpu(evidence: &Evidence, findings: &mut Findings) {
    let limit = evidence.own_number(CPU_LIMIT);
    if let Some(limit) = limit.filter(|limit| *limit < evidence.cpus as f64) {
        let what = format!(
            "its control group may use {limit:.2} of the {} s of CPU time in each second",
            evidence.cpus
        );
        findings.add(Severity::Impossible, what, advice(WITHOUT_LIMIT));
    }
}

pub(super) fn works_elsewhere(evidence: &Evidence, findings: &mut Findings) {
    let Some((target, host)) = evidence.cpu_times else {
        return;
    };
    if host >= LEAST_CPU && target < ELSEWHERE * host {
        let what =
            format!("{target:.3} s of CPU time were counted for it, and {host:.3} s for the host");
        let fix = advice("run brisk where its processes are, or name the kind of the target");
        findings.add(Severity::Low, what, fix);
    }
}

pub(super) fn other_processor(evidence: &Evidence, findings: &mut Findings) {
    let emulated = evidence.target.get(ACCELERATORS);
    let is_emulated = emulated.is_some_and(|names| is_emulated(names));
    let Some((host, target)) = evidence.fact("processor").filter(|_| !is_emulated) else {
        return;
    };
    // User-mode Linux and gVisor run on the host's, and do not name it.
    if !["UML", "unknown"].contains(&target) {
        let what = format!("its processor is {target}, and the host's {host}");
        let fix = advice("give a guest the host's model, or compare machines with the same one");
        findings.add(Severity::Low, what, fix);
    }
}

pub(super) fn not_pinned(evidence: &Evidence, findings: &mut Findings) {
    if let Some(why) = evidence.target.get(PROCESSORS_OF_VMM) {
        let fix = advice("run brisk as its user or as root, or pin it by itself");
        findings.add(Severity::Low, format!("its VMM is {why}"), fix);
    }
}

pub(super) fn neighbours(evidence: &Evidence, findings: &mut Findings) {
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

pub(super) fn processor_speed(evidence: &Evidence, findings: &mut Findings) {
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

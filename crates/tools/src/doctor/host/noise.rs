//! What makes measurements unsteady.

use crate::doctor::facts::Facts;
use brisk_lint::{Applies, Findings, Fix, Rule, Severity};

/// Why noise matters.
const UNSTEADY: &str = "times vary from boot to boot";

/// Clock sources that are read without leaving the guest or the processor.
const QUICK: &[&str] = &["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];

pub(super) const RULES: &[Rule<Facts>] = &[
    Rule {
        id: "cpu-governor",
        applies: Applies::Host,
        why: UNSTEADY,
        source: "Linux: Documentation/admin-guide/pm/cpufreq.rst",
        check: governor,
    },
    Rule {
        id: "clocksource-slow",
        applies: Applies::Host,
        why: "every reading of the time is slow, and QEMU reads it all the time",
        source: "Linux: Documentation/timers/timekeeping.rst",
        check: clocksource,
    },
    Rule {
        id: "host-busy",
        applies: Applies::Host,
        why: UNSTEADY,
        source: "proc_loadavg(5)",
        check: load,
    },
];

fn governor(facts: &Facts, findings: &mut Findings) {
    let governor = facts.governor.as_deref();
    if let Some(governor) = governor.filter(|name| *name != "performance") {
        findings.add(
            Severity::Note,
            format!("the frequency governor is {governor}"),
            Fix::Command("cpupower frequency-set -g performance, while measuring".into()),
        );
    }
}

fn clocksource(facts: &Facts, findings: &mut Findings) {
    let source = facts.clocksource.as_deref();
    if let Some(source) = source.filter(|source| !QUICK.contains(source)) {
        findings.add(
            Severity::Slow,
            format!("the kernel's clock source is {source}"),
            Fix::Advice(
                "find out from the kernel's log why the TSC is not trusted; tsc=reliable if it is \
                 constant"
                    .into(),
            ),
        );
    }
}

fn load(facts: &Facts, findings: &mut Findings) {
    let busy = facts
        .load
        .filter(|(load, count)| *load > *count as f64 * 0.5);
    if let Some((load, processors)) = busy {
        findings.add(
            Severity::Note,
            format!("the load is {load:.2} on {processors} processors"),
            Fix::Advice("measure when the machine is idle, or with --clock instructions".into()),
        );
    }
}

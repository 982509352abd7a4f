//! The guest kernel's command line, and kernel threads of the host.

use brisk_vm::hardware::Part;
use brisk_vm::hardware::edit::{ArgumentChange, Path, XmlChange};

use super::subject::Subject;
use super::timers::cut;
use brisk_lint::{Applies, Edit, Findings, Fix, Rule, Severity};

pub(super) const RULES: &[Rule<Subject>] = &[
    Rule {
        id: "nohz",
        applies: Applies::Guest,
        why: "an idle vCPU ticks on: each wakes as often as the kernel's HZ",
        source: "Linux: Documentation/timers/no_hz.rst; measured: 961 to 985 wakeups a second",
        check: nohz,
    },
    Rule {
        id: "idle-poll",
        applies: Applies::Guest,
        why: "an idle vCPU never halts: it takes a whole CPU of the host",
        source: "Linux: admin-guide/kernel-parameters.txt, idle=; measured: 84 to 101 % of a CPU",
        check: idle_poll,
    },
    Rule {
        id: "clocksource",
        applies: Applies::Guest,
        why: "each look at the clock is an exit to QEMU",
        source: "Linux: admin-guide/kernel-parameters.txt, clocksource=",
        check: clocksource,
    },
    Rule {
        id: "ksm",
        applies: Applies::Guest,
        why: "the host looks for equal pages in the guest's memory",
        source: "Linux: Documentation/admin-guide/mm/ksm.rst",
        check: ksm,
    },
    Rule {
        id: "thp",
        applies: Applies::Guest,
        why: "the host looks for pages of guests to make huge ones of",
        source: "Linux: Documentation/admin-guide/mm/transhuge.rst",
        check: thp,
    },
    Rule {
        id: "idle-unread",
        applies: Applies::Guest,
        why: "it may undo what is said or changed here",
        source: "brisk: what describes a guest is read, and not what it refers to",
        check: unread,
    },
];

fn unread(subject: &Subject, findings: &mut Findings) {
    for (why, place) in &subject.hardware.unread {
        let fix = Fix::Advice("look at it yourself".into());
        findings.at(place.clone(), Severity::Note, why.clone(), fix);
    }
}

fn parameter(
    subject: &Subject,
    findings: &mut Findings,
    word: &str,
    severity: Severity,
    what: &str,
) {
    if subject.has_parameter(word) {
        let place = subject.hardware.place(Part::Append);
        findings.at(place, severity, what, cut(subject, word));
    }
}

fn nohz(subject: &Subject, findings: &mut Findings) {
    // As kstrtobool() reads it.
    for value in ["off", "0", "n", "no", "N", "f", "F", "false"] {
        let word = format!("nohz={value}");
        let what = format!("the kernel ticks when it is idle ({word})");
        parameter(subject, findings, &word, Severity::High, &what);
    }
}

fn idle_poll(subject: &Subject, findings: &mut Findings) {
    let what = "the kernel polls when it is idle (idle=poll)";
    parameter(subject, findings, "idle=poll", Severity::High, what);
}

fn clocksource(subject: &Subject, findings: &mut Findings) {
    for name in ["hpet", "acpi_pm"] {
        let word = format!("clocksource={name}");
        let what = format!("the kernel's clock is one that QEMU emulates ({name})");
        parameter(subject, findings, &word, Severity::Medium, &what);
    }
    for name in ["jiffies", "refined-jiffies"] {
        let word = format!("clocksource={name}");
        let what =
            format!("the kernel's clock is its tick ({name}), which goes on when it is idle");
        parameter(subject, findings, &word, Severity::High, &what);
    }
    // Beside the TSC there is KVM's clock, and then what QEMU emulates.
    if !subject.has_kvm() || subject.has_parameter("no-kvmclock") {
        for word in ["notsc", "tsc=unstable"] {
            let what =
                format!("the kernel does without the TSC ({word}), and its clock is emulated");
            parameter(subject, findings, word, Severity::Medium, &what);
        }
    }
}

/// Share of a CPU, in percent, from which a thread of the host is worth a word.
const BUSY: f64 = 1.0;

fn ksm(subject: &Subject, findings: &mut Findings) {
    let busy = subject.host.ksmd.filter(|percent| *percent >= BUSY);
    let is_merged = subject.hardware.memory.merged != Some(false);
    if let Some(percent) = busy.filter(|_| is_merged) {
        findings.at(
            subject.hardware.place(Part::Machine),
            Severity::Low,
            format!("ksmd takes {percent:.1} % of a CPU of the host"),
            Edit::of(&subject.hardware)
                .exact_xml(XmlChange::Ensure(Path::domain(
                    "memoryBacking/nosharepages",
                )))
                .exact(ArgumentChange::SetMachine {
                    key: "mem-merge",
                    value: "off".into(),
                })
                .on_request()
                .note(", if memory is not scarce"),
        );
    }
}

fn thp(subject: &Subject, findings: &mut Findings) {
    let busy = subject.host.khugepaged.filter(|percent| *percent >= BUSY);
    if let Some(percent) = busy {
        findings.add(
            Severity::Low,
            format!("khugepaged takes {percent:.1} % of a CPU of the host"),
            Fix::Command(
                "echo 60000 > \
                 /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs"
                    .into(),
            ),
        );
    }
}

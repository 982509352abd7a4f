//! The RTC, whose ticks wake QEMU.

use brisk_vm::hardware::{Part, TickPolicy};

use super::hyperv::{closed, has_timers};
use super::subject::Subject;
use brisk_lint::{Applies, Findings, Fix, Rule, Severity};

pub(super) const RULES: &[Rule<Subject>] = &[
    Rule {
        id: "rtc-slew",
        applies: Applies::Guest,
        why: "lost ticks are sent again, faster, which keeps QEMU awake",
        source: "QEMU: hw/rtc/mc146818rtc.c",
        check: slew,
    },
    Rule {
        id: "rtc-periodic",
        applies: Applies::Guest,
        why: "the guest has the RTC interrupt it at a fixed rate, each of which wakes QEMU",
        source: "QEMU: hw/rtc/mc146818rtc.c; measured",
        check: periodic,
    },
];

fn slew(subject: &Subject, findings: &mut Findings) {
    let policy = subject.hardware.timers.rtc_policy;
    let is_slewed = policy == Some(TickPolicy::Catchup);
    if is_slewed && has_timers(subject) && !subject.is_enlightened("stimer") {
        findings.at(
            subject.hardware.place(Part::Rtc),
            Severity::Low,
            "ticks of the RTC that Windows lost are sent again (tickpolicy catchup)",
            closed(subject, "stimer"),
        );
    }
}

fn periodic(subject: &Subject, findings: &mut Findings) {
    let is_windows = subject.os.is_windows();
    let live = subject.live.as_ref();
    let has_hpet = subject.hardware.timers.hpet != Some(false);
    // An HPET at a HZ of 250 is too near to 256.
    let rate = live.and_then(|live| live.rtc_rate(is_windows));
    let Some(rate) = rate.filter(|rate| *rate != 256 || !has_hpet) else {
        return;
    };
    let what = format!("the guest uses the RTC's periodic interrupt, {rate} times a second");
    if has_timers(subject) && !subject.is_enlightened("stimer") {
        let fix = closed(subject, "stimer");
        findings.at(subject.hardware.place(Part::Rtc), Severity::High, what, fix);
    } else if !is_windows && !has_hpet {
        let advice = "find the program in the guest that opens /dev/rtc";
        let fix = Fix::Advice(advice.into());
        findings.at(subject.hardware.place(Part::Rtc), Severity::High, what, fix);
    }
}

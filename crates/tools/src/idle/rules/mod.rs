//! Rules about what an idle guest costs: wakeups of QEMU's threads, and CPU time of the host.
//!
//! Those about Windows are from QEMU's `docs/system/i386/hyperv.rst`; where a rule's source is
//! "measured", the book's chapter about idle guests has the numbers.

mod devices;
mod emulation;
mod hyperv;
mod kernel;
mod live;
mod rtc;
mod subject;
#[cfg(test)]
mod tests;
mod timers;

pub use subject::{GuestOs, Host, Subject};

use brisk_lint::{Description, Finding, Rule};

/// The rules, in the order in which their findings are shown.
pub const RULES: &[&[Rule<Subject>]] = &[
    hyperv::RULES,
    rtc::RULES,
    timers::RULES,
    kernel::RULES,
    devices::RULES,
    emulation::RULES,
];

/// What the rules find, the worst first, each with what was measured that speaks for it.
#[must_use]
pub fn findings(subject: &Subject) -> Vec<Finding> {
    if !subject.is_qemu() {
        return Vec::new();
    }
    let mut list = brisk_lint::check_all(RULES, subject);
    for finding in &mut list {
        let measured = subject.live.as_ref();
        finding.evidence = measured.and_then(|live| live.evidence(finding.rule));
    }
    list.sort_by_key(|finding| finding.severity);
    list
}

/// Descriptions of the rules.
#[must_use]
pub fn descriptions() -> Vec<Description> {
    brisk_lint::descriptions(RULES)
}

//! Rules about what a guest of QEMU's loses, and what may make its times too good. Pure.

mod disks;
mod memory;
mod processor;
#[cfg(test)]
mod tests;

use crate::idle::rules::Subject;
use brisk_lint::{Description, Finding, Rule};

/// Rule that pins virtual CPUs.
pub(super) const PINNING: &str = processor::PINNING;

/// The rules, in the order in which their findings are shown.
pub const RULES: &[&[Rule<Subject>]] = &[processor::RULES, memory::RULES, disks::RULES];

/// What the rules find, the worst first.
#[must_use]
pub fn findings(subject: &Subject) -> Vec<Finding> {
    if !subject.is_qemu() {
        return Vec::new();
    }
    let mut list = brisk_lint::check_all(RULES, subject);
    list.sort_by_key(|finding| finding.severity);
    list
}

/// Descriptions of the rules.
#[must_use]
pub fn descriptions() -> Vec<Description> {
    brisk_lint::descriptions(RULES)
}

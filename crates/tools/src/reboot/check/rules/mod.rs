//! Rules of a warm reboot: the order is that of the lists in the book.

mod devices;
mod files;
mod firmware;
mod kexec;
mod rule;
mod system;
mod trial;

use brisk_lint::Description;

pub(super) use rule::{Rule, values};

/// All rules, in groups.
pub(super) const RULES: &[&[Rule]] = &[
    kexec::RULES,
    files::RULES,
    firmware::RULES,
    devices::RULES,
    system::RULES,
    trial::RULES,
];

/// Descriptions of all rules.
#[must_use]
pub fn descriptions() -> Vec<Description> {
    brisk_lint::descriptions(RULES)
}

//! What makes boots slow or impossible on this machine, and what to do about each.
//!
//! [`facts`] looks at the host, and rules judge: those of `host`, those of
//! [`crate::crypto::explain::rules`], and those of [`brisk_lint::guest`] if there is a guest to look
//! at.

mod facts;
mod host;
#[cfg(test)]
mod tests;

pub use facts::{Facts, gather};

use crate::crypto;
use brisk_lint::{Description, Finding, Guest};

/// What the rules find, the worst first.
#[must_use]
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let mut list = brisk_lint::check_all(host::RULES, facts);
    if let Some(hardware) = &facts.guest {
        let guest = Guest {
            hardware: hardware.clone(),
            kvm: facts.kvm.clone(),
            has_qboot: facts.qemu.as_ref().is_ok_and(|qemu| qemu.qboot.is_some()),
        };
        list.extend(brisk_lint::guest::findings(&guest));
    }
    if let Some(machine) = &facts.crypto {
        list.extend(crypto::explain::rules::findings(machine));
    }
    list.sort_by_key(|finding| finding.severity);
    list
}

/// Descriptions of all rules: those about the host, then those about guests.
#[must_use]
pub fn rules() -> Vec<Description> {
    let mut all = brisk_lint::descriptions(host::RULES);
    all.extend(crypto::explain::rules::descriptions());
    all.extend(brisk_lint::descriptions(brisk_lint::guest::RULES));
    all
}

//! Rules about how a guest boots.

mod boot;
mod devices;
mod processor;
mod subject;
#[cfg(test)]
mod tests;

pub use subject::{Guest, Kvm};

use super::{Finding, Rule};

/// The rules, in the order in which their findings are shown.
pub const RULES: &[&[Rule<Guest>]] = &[processor::RULES, boot::RULES, devices::RULES];

/// What the rules find.
#[must_use]
pub fn findings(guest: &Guest) -> Vec<Finding> {
    super::check_all(RULES, guest)
}

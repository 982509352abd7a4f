//! Rules about the host.

mod installed;
mod kvm;
mod noise;
mod qemu;

use super::facts::Facts;
use brisk_lint::Rule;

/// The rules, in the order in which their findings are shown.
pub(super) const RULES: &[&[Rule<Facts>]] =
    &[kvm::RULES, qemu::RULES, installed::RULES, noise::RULES];

//! User of QEMU, where root calls brisk. Pure.

use brisk_vm::launch::Unprivileged;
use brisk_vm::qemu::Accelerator;

use super::facts::Facts;
use super::script::Sharing;

/// `nobody` and `nogroup` of the usual distributions, where QEMUs cannot have users of their own.
const NOBODY: Unprivileged = Unprivileged {
    user: 65534,
    group: 65534,
};

/// User of QEMU, if it is not root. QEMU stays root where it must open by itself what only root
/// can: shared directories with 9p, `/dev/kvm`. Images are passed as descriptors.
pub(super) fn unprivileged(
    facts: &Facts,
    sharing: Sharing,
    shares: bool,
    accelerator: Accelerator,
) -> Option<Unprivileged> {
    let serves = sharing == Sharing::NineP && (shares || facts.root.is_directory());
    let possible = facts.privileged && !serves && accelerator == Accelerator::Tcg;
    possible.then_some(NOBODY)
}

/// User of a QEMU that gets all its files as descriptors, if it is not root.
pub(crate) fn unprivileged_for(accelerator: Accelerator) -> Option<Unprivileged> {
    let is_root = rustix::process::geteuid().is_root();
    (is_root && accelerator == Accelerator::Tcg).then_some(NOBODY)
}

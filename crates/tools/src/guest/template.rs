//! Check whether a plan's guest can become a template, or be restored from one.

use brisk_vm::virtiofs::Virtiofsd;

use super::facts::Facts;
use super::options::Options;
use super::plan::Plan;

/// Reason why such a guest cannot become a template; `None` if it can.
pub(crate) fn unfit(plan: &Plan, options: &Options, facts: &Facts) -> Option<String> {
    let (major, minor) = facts.capabilities.version;
    let nine_p = plan.machine.devices.filesystems.len() != plan.served.len();
    let keeps = facts.virtiofsd.as_ref().is_some_and(Virtiofsd::keeps_state);
    let reason = if nine_p {
        "QEMU itself serves directories of the host to it (9p), and cannot be saved then; install \
         virtiofsd"
    } else if !plan.served.is_empty() && !keeps {
        "directories of the host are served to it by a virtiofsd whose state cannot be kept; 1.11 \
         can"
    } else if options.root.access.is_writable() {
        "--rw: its root would be written to by more than one guest"
    } else if plan.machine.devices.disks.iter().any(|disk| disk.writable) {
        "--disk: an image would be written to by more than one guest; :ro forbids writing"
    } else if plan.machine.devices.disks.iter().any(|disk| disk.device) {
        "what is on a block device changes without a trace"
    } else if options.instructions || options.trace {
        "it is to be measured as it boots"
    } else if (major, minor) < (8, 2) {
        return Some(format!(
            "QEMU {major}.{minor} cannot map memory that it must not write to, 8.2 can"
        ));
    } else {
        return None;
    };
    Some(reason.to_owned())
}

//! Names in actions, which become parts of paths and words of command lines. Pure.

use super::action::{Action, Bound};
use crate::reboot::config::{is_address, is_unit};

/// Whether all names in an action are names, and nothing that leads elsewhere.
pub(super) fn are_plain(action: &Action) -> bool {
    let is_bound = |device: &Bound| {
        let parts = [&device.bus, &device.driver];
        parts.iter().all(|part| is_part(part)) && is_address(&device.address)
    };
    match action {
        Action::Stop { units } => units.iter().all(|unit| is_unit(unit)),
        Action::End { .. } | Action::LeaveFramebuffer => true,
        Action::Release { modules, devices } => {
            modules.iter().all(|name| is_module(name)) && devices.iter().all(|one| is_address(one))
        }
        Action::Unbind { device } => is_bound(device),
        Action::Unload { module, devices } => is_module(module) && devices.iter().all(is_bound),
    }
}

/// Whether a name is one of a module.
fn is_module(name: &str) -> bool {
    is_part(name) && !name.starts_with('-') && !name.contains(char::is_whitespace)
}

/// Whether a name is one in a directory of sysfs.
fn is_part(name: &str) -> bool {
    let is_special = ["", ".", ".."].contains(&name);
    !is_special && !name.contains('/') && !name.contains('\0') && name.len() < 256
}

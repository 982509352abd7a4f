//! QEMU's command line from a VM configuration; pure.

mod boot;
mod channels;
mod devices;
mod machine;
mod part;

pub use devices::FILESYSTEM;
pub use machine::SANDBOX;
pub use part::{ODD_SLOTS, Part};

use super::config::VmConfig;
use part::Parts;

/// QEMU's command line without the program's name.
#[must_use]
pub fn argv(plan: &VmConfig) -> Vec<Part> {
    let mut parts = Parts::of(plan);
    machine::add(&mut parts, plan);
    boot::add(&mut parts, plan);
    channels::add(&mut parts, plan);
    devices::add(&mut parts, plan);
    if !plan.extra.is_empty() {
        parts.parts.push(Part {
            words: plan.extra.clone(),
            why: "asked for with --qemu-arg".into(),
        });
    }
    parts.parts
}

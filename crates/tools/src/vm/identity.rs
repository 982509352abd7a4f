//! Identity of a VM besides its name: generation ID, MAC address, host name, randomness.

use std::fs::{self, File};
use std::io::Read;

use brisk_vm::guest::Step;
use brisk_vm::qemu::{Machine, Network, VmConfig};

use super::error::{Error, file};

/// A new random generation ID, for one run of a VM.
pub(super) fn new_generation() -> Result<[u8; 16], Error> {
    let path = "/dev/urandom";
    let mut bytes = [0; 16];
    let read = File::open(path).and_then(|mut random| random.read_exact(&mut bytes));
    read.map_err(file("read", path))?;
    Ok(bytes)
}

/// A new random UUID.
///
/// # Errors
/// If the kernel makes none: there is no `/proc`.
pub fn new_uuid() -> Result<String, Error> {
    let path = "/proc/sys/kernel/random/uuid";
    let text = fs::read_to_string(path).map_err(file("read", path))?;
    Ok(text.trim().to_owned())
}

/// Gives a VM the identity that follows from its UUID, and the generation ID of this run.
pub(super) fn identify(plan: &mut VmConfig, uuid: Option<[u8; 16]>, generation: [u8; 16]) {
    plan.devices.mac = uuid.map(mac);
    // QEMU describes that device in the ACPI tables of its PCs only.
    let has_vmgenid = matches!(plan.machine, Machine::Q35 | Machine::Pc { acpi: true });
    plan.devices.generation = has_vmgenid.then_some(generation);
}

/// Changes a VM's configuration into that of its clone; the result is the script for the guest.
pub(super) fn separate(
    plan: &mut VmConfig,
    name: &str,
    uuid: [u8; 16],
    generation: [u8; 16],
) -> Vec<Step> {
    let before = plan.devices.mac.unwrap_or(Network::ADDRESS);
    let after = mac(uuid);
    plan.devices.mac = Some(after);
    // A device that was not there cannot be there now.
    plan.devices.generation = plan.devices.generation.map(|_| generation);
    let mut steps = vec![Step::HostName {
        name: name.to_owned(),
    }];
    if plan.devices.network != Network::None {
        steps.push(Step::SetMac {
            from: before,
            to: after,
        });
    }
    steps
}

/// A locally administered MAC address, which the second bit of its first byte marks.
fn mac(uuid: [u8; 16]) -> [u8; 6] {
    let [.., a, b, c, d, e] = uuid;
    [Network::ADDRESS[0], a, b, c, d, e]
}

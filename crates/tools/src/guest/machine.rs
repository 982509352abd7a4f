//! Hardware of the VM: machine type, firmware, processor, and the form of its kernel. Pure.

use brisk_vm::qemu::{
    Accelerator, Firmware as QemuFirmware, Machine as QemuMachine, ODD_SLOTS, Ram as QemuRam,
    Transport,
};

use super::error::Error;
use super::facts::Facts;
use super::optimisations::{CPU, VMLINUX};
use super::options::{Firmware, Machine, Options, Ram};

/// Chooses the machine type.
///
/// Under emulation, a single processor boots quickest on a PC without ACPI: interpreting its tables
/// and calibrating the local APIC's timer take 15 % of a boot on microvm, which has both. Several
/// processors are found through ACPI only.
///
/// A persistent VM has a local APIC whatever that costs at its start: without one an idle kernel
/// wakes QEMU 177 times a second, with one 32 times.
///
/// microvm works with qboot only: SeaBIOS writes ACPI tables to the end of memory, where QEMU has
/// put the initramfs of this machine type.
pub(super) fn machine(options: &Options, facts: &Facts) -> Result<QemuMachine, Error> {
    let plain_pc = facts.accelerator.0 == Accelerator::Tcg
        && options.hardware.cpus == 1
        && !options.powers_off
        && facts.capabilities.machines.contains("pc");
    let qboot =
        facts.capabilities.qboot.is_some() && options.hardware.firmware != Firmware::Seabios;
    let has_microvm =
        facts.capabilities.machines.contains("microvm") && vmlinux(options, facts) && qboot;
    let microvm = QemuMachine::Microvm {
        pcie: facts.is_builtin("virtio_pci"),
    };
    Ok(match options.hardware.machine {
        Machine::Auto if plain_pc => QemuMachine::Pc {
            acpi: options.persistent,
        },
        Machine::Auto if has_microvm => microvm,
        Machine::Microvm if has_microvm => microvm,
        Machine::Microvm if facts.image.pvh && !options.optimisations.has(VMLINUX) => {
            return Err(Error::unfit(
                "microvm is only given the kernel as a vmlinux, which --optimisations leaves out",
                "use --machine q35, or --optimisations vmlinux and what else shall stay",
            ));
        }
        Machine::Microvm if !vmlinux(options, facts) => {
            return Err(Error::unfit(
                format!("{} has no PVH entry point", facts.kernel.image.display()),
                "use --machine q35",
            ));
        }
        Machine::Microvm if options.hardware.firmware == Firmware::Seabios => {
            return Err(Error::unfit(
                "SeaBIOS cannot start a kernel with an initramfs on microvm",
                "use --machine q35, or leave out --firmware",
            ));
        }
        Machine::Microvm if !qboot => {
            return Err(Error::unfit(
                "microvm needs qboot.rom, which is in none of QEMU's firmware directories",
                "install qemu-system-data (Debian), or use --machine q35",
            ));
        }
        Machine::Microvm => {
            return Err(Error::unfit(
                format!("{} has no machine type microvm", facts.qemu.display()),
                "use --machine q35",
            ));
        }
        Machine::Auto | Machine::Q35 => QemuMachine::Q35,
        Machine::PcNoAcpi if options.hardware.cpus == 1 => QemuMachine::Pc { acpi: false },
        Machine::PcNoAcpi => {
            return Err(Error::unfit(
                format!(
                    "{} processors are found through ACPI only",
                    options.hardware.cpus
                ),
                "use --cpus 1, or another --machine",
            ));
        }
        Machine::Pc => QemuMachine::Pc { acpi: true },
    })
}

/// Whether the kernel starts as a vmlinux, decompressed on the host.
pub(super) fn vmlinux(options: &Options, facts: &Facts) -> bool {
    facts.image.pvh && options.optimisations.has(VMLINUX)
}

pub(super) fn firmware(
    options: &Options,
    facts: &Facts,
    machine: QemuMachine,
    devices: usize,
) -> Result<QemuFirmware, Error> {
    let qboot = facts.capabilities.qboot.clone();
    let fits = match machine {
        QemuMachine::Microvm { .. } => true,
        // Interrupts arrive where brisk puts a device, and perhaps not where the user does.
        QemuMachine::Pc { acpi: false } => {
            devices <= ODD_SLOTS && options.hardware.qemu_args.is_empty()
        }
        _ => false,
    };
    match (options.hardware.firmware, qboot) {
        (Firmware::Auto, Some(path)) if fits => Ok(QemuFirmware::Qboot(path)),
        (Firmware::Auto | Firmware::Seabios, _) => Ok(QemuFirmware::Default),
        (Firmware::Qboot, _)
            if machine == (QemuMachine::Pc { acpi: false }) && devices > ODD_SLOTS =>
        {
            Err(Error::unfit(
                format!(
                    "without ACPI qboot routes the interrupts of {ODD_SLOTS} devices, and this \
                     guest has {devices}"
                ),
                "leave out --firmware, or use another --machine",
            ))
        }
        (Firmware::Qboot, Some(path)) => Ok(QemuFirmware::Qboot(path)),
        (Firmware::Qboot, None) => Err(Error::unfit(
            "qboot.rom is in none of QEMU's firmware directories",
            "install qemu-system-data (Debian), or leave out --firmware",
        )),
    }
}

/// CPU model under TCG: the second microarchitecture level (x86-64-v2) of a generic AMD processor,
/// with 1 GiB pages to map memory quickly and RDRAND to seed the random generator.
///
/// `max` boots 10 % slower: with ERMS and FSRM the kernel copies by `rep movsb`, which TCG executes
/// byte by byte, and more features mean more instructions to patch.
const TCG_CPU: &str = "qemu64,+pdpe1gb,+rdrand,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16,+lahf-lm";

pub(super) fn cpu(options: &Options, facts: &Facts, machine: QemuMachine) -> String {
    // An older one warns that it does not emulate that.
    let seeds = facts.capabilities.version >= (8, 0);
    let mut model = options
        .hardware
        .cpu
        .clone()
        .unwrap_or_else(|| match facts.accelerator.0 {
            Accelerator::Kvm => "host".to_owned(),
            Accelerator::Tcg if !options.optimisations.has(CPU) => "max".to_owned(),
            Accelerator::Tcg if seeds => format!("{TCG_CPU},+rdseed"),
            Accelerator::Tcg => TCG_CPU.to_owned(),
        });
    if machine == (QemuMachine::Pc { acpi: false }) {
        model.push_str(",-apic");
    }
    let is_microvm = matches!(machine, QemuMachine::Microvm { .. });
    if is_microvm && model.starts_with(TCG_CPU) {
        // Its timer does not stop, so the kernel needs no other one to let an idle CPU sleep, and a
        // microvm has no other: the kernel would tick on.
        model.push_str(",+arat");
    }
    if options.instructions {
        model.push_str(",-rdrand,-rdseed");
    }
    model
}

/// Kind of the guest's memory. Shared memory can be allocated by a thread of brisk's while QEMU
/// starts, which is worth it with huge pages, and where a boot is long enough.
pub(super) fn ram(
    wanted: Ram,
    serves: bool,
    huge_pages: bool,
    accelerator: Accelerator,
) -> Result<QemuRam, Error> {
    match (wanted, serves) {
        (Ram::Private, true) => Err(Error::unfit(
            "--ram private hides memory from virtiofsd",
            "leave it out, or use a root that is an image or none",
        )),
        (Ram::Shared, _) | (Ram::Auto, true) => Ok(QemuRam::Shared),
        (Ram::Auto, false) if huge_pages && accelerator == Accelerator::Tcg => Ok(QemuRam::Shared),
        (Ram::Private | Ram::Auto, false) => Ok(QemuRam::Private),
    }
}

/// Whether the firmware is SeaBIOS, which has a debug console.
pub(super) fn speaks(machine: QemuMachine, firmware: &QemuFirmware) -> bool {
    *firmware == QemuFirmware::Default && !matches!(machine, QemuMachine::Microvm { .. })
}

/// Checks that a machine type has addresses for this many devices: a PCI bus has 32, of which the
/// chipset takes one or two; microvm without PCI has 24 transports (`VIRTIO_NUM_TRANSPORTS` of
/// QEMU's microvm.h, with a second interrupt controller).
pub(super) fn has_room(machine: QemuMachine, devices: usize) -> Result<(), Error> {
    let most = match machine.transport() {
        Transport::Mmio => 24,
        Transport::Pci => 30,
    };
    match devices > most {
        false => Ok(()),
        true => Err(Error::unfit(
            format!(
                "the guest would have {devices} devices (disks, directories, network card, memory \
                 balloon and brisk's channel), and has room for {most}"
            ),
            "give one directory that holds several of them with --share, or leave some out",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_shared_where_that_is_needed_or_helps() {
        let auto = |serves, huge_pages, accelerator| {
            ram(Ram::Auto, serves, huge_pages, accelerator).expect("always possible")
        };
        assert_eq!(auto(true, false, Accelerator::Kvm), QemuRam::Shared);
        assert_eq!(auto(false, true, Accelerator::Tcg), QemuRam::Shared);
        assert_eq!(auto(false, false, Accelerator::Tcg), QemuRam::Private);
        assert_eq!(auto(false, true, Accelerator::Kvm), QemuRam::Private);
        let wanted = |wanted, serves| ram(wanted, serves, true, Accelerator::Tcg);
        assert_eq!(
            wanted(Ram::Private, false).expect("possible"),
            QemuRam::Private
        );
        assert_eq!(
            wanted(Ram::Shared, false).expect("possible"),
            QemuRam::Shared
        );
        assert!(wanted(Ram::Private, true).is_err());
    }
}

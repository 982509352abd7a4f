//! Machine type: board, processors and memory.

use super::part::Parts;
use crate::qemu::config::VmConfig;
use crate::qemu::machine::{Accelerator, Fds, Firmware, Machine, Ram, Transport};

/// Value of `-sandbox` for a QEMU whose guest is not trusted: it may neither start programs nor change
/// its rights.
pub const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

pub(super) fn add(parts: &mut Parts, plan: &VmConfig) {
    add_process(parts, plan);
    add_board(parts, plan);
    add_accelerator(parts, plan);
    add_processors(parts, plan);
    add_memory(parts, plan);
}

/// How QEMU runs.
fn add_process(parts: &mut Parts, plan: &VmConfig) {
    parts.add(
        ["-nodefaults", "-no-user-config"],
        "only the devices that are named here",
    );
    parts.add(["-display", "none"], "no window");
    parts.add(
        ["-name", "debug-threads=on"],
        "threads have names: which of them is awake can be seen",
    );
    if plan.sandbox {
        parts.add(
            ["-sandbox", SANDBOX],
            "the guest is not trusted: QEMU may neither start programs nor change its rights",
        );
    }
    if plan.stopped {
        parts.add(["-S"], "the processors wait for a command to run");
    }
    if plan.exit_on_reset {
        parts.add(
            ["-no-reboot"],
            "a reset ends QEMU: for a guest that runs once it is the end",
        );
    }
}

/// Machine type and firmware.
fn add_board(parts: &mut Parts, plan: &VmConfig) {
    let backend = match plan.memory.ram {
        Ram::Private => "",
        Ram::Shared | Ram::File(_) | Ram::Template(_) | Ram::Copy(_) => ",memory-backend=ram",
    };
    let (options, why) = match plan.machine {
        Machine::Microvm { pcie: true } => (
            ",acpi=on,pcie=on,x-option-roms=off,auto-kernel-cmdline=off",
            "few devices to emulate and probe; PCI Express because this kernel has virtio-pci \
                 built in and needs no module",
        ),
        Machine::Microvm { pcie: false } => (
            ",acpi=on,pcie=off,x-option-roms=off,auto-kernel-cmdline=off",
            "few devices to emulate and probe; virtio over memory-mapped registers because \
                 virtio-pci is a module in this kernel too, and a larger one",
        ),
        Machine::Q35 => (
            ",usb=off,hpet=off,smbus=off,sata=off",
            "PCI Express chipset; no HPET, whose ticks wake QEMU when the guest is idle",
        ),
        Machine::Pc { acpi: true } => (
            ",usb=off,hpet=off",
            "i440FX chipset; no HPET, whose ticks wake QEMU when the guest is idle",
        ),
        Machine::Pc { acpi: false } => (
            ",usb=off,acpi=off,smm=off,hpet=off,smbus=off,i8042=off,vmport=off",
            "i440FX chipset and nothing but it: no ACPI tables to interpret, no local APIC's \
                 timer to calibrate",
        ),
    };
    // What the guest has in memory stays out of a core dump of QEMU.
    let core = ",dump-guest-core=off";
    let name = plan.machine_version.as_deref();
    let name = name.unwrap_or(plan.machine.name());
    let machine = format!("{name}{options}{core}{backend}");
    parts.add(["-M", &machine], why);
    if plan.machine.transport() == Transport::Mmio {
        parts.add(
            ["-global", "virtio-mmio.force-legacy=off"],
            "virtio 1.0, which is what virtiofsd serves",
        );
    }
    if let Firmware::Qboot(path) = &plan.firmware {
        parts.add(
            ["-bios", &path.to_string_lossy()],
            "qboot does only what starting a kernel needs",
        );
    }
}

/// What executes instructions, and how time passes.
fn add_accelerator(parts: &mut Parts, plan: &VmConfig) {
    let why = match plan.accelerator {
        Accelerator::Kvm => "a trial run showed that KVM works here",
        Accelerator::Tcg => "emulation",
    };
    parts.add(["-accel", plan.accelerator.name()], why);
    if plan.processors.instructions {
        parts.add(
            ["-icount", "shift=0,sleep=off"],
            "a nanosecond of guest time is one instruction, and waiting takes no time",
        );
        parts.add(
            ["-rtc", "base=2000-01-01T00:00:00,clock=vm"],
            "the same date at every boot",
        );
        parts.add(
            ["-seed", "1"],
            "what QEMU gives the guest at random is pinned",
        );
    }
}

/// CPUs.
fn add_processors(parts: &mut Parts, plan: &VmConfig) {
    parts.add(["-cpu", &plan.processors.model], "CPU model");
    let (more, why) = match plan.processors.pretranslator {
        Some(_) => (
            1,
            "virtual CPUs: the last one is unknown to the kernel, whose code it has QEMU \
                 translate ahead",
        ),
        None => (0, "virtual CPUs; each further one costs boot time"),
    };
    let cpus = (plan.processors.count + more).to_string();
    parts.add(["-smp", &cpus], why);
}

/// Guest memory, and where it lies.
fn add_memory(parts: &mut Parts, plan: &VmConfig) {
    let memory = format!("{}M", plan.memory.mib);
    parts.add(["-m", &memory], "memory");
    if plan.memory.locked {
        parts.add(
            ["-overcommit", "mem-lock=on"],
            "nothing of the guest's memory gets to this host's swap",
        );
    }
    let (sharing, why) = match plan.memory.ram {
        Ram::Private => return,
        Ram::Shared | Ram::File(_) | Ram::Copy(_) => (
            "align=2M,share=on",
            "memory in a file: allocated while QEMU starts; virtiofsd maps it, snapshots leave it out",
        ),
        Ram::Template(_) => (
            "share=off,readonly=on,rom=off",
            "memory of a guest that booted before; what this one writes is its own",
        ),
    };
    let object = format!(
        "memory-backend-file,id=ram,size={memory},mem-path=/proc/self/fd/{},{sharing}",
        Fds::RAM
    );
    parts.add(["-object", &object], why);
}

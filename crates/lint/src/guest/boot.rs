//! Firmware, kernel and console.

use brisk_vm::hardware::{Class, Part};

use super::subject::Guest;
use crate::{Applies, ArgumentChange, Edit, Findings, Fix, Rule, Severity};

pub(super) const RULES: &[Rule<Guest>] = &[
    Rule {
        id: "firmware-uefi-kernel",
        applies: Applies::Guest,
        why: "UEFI sets up all devices before the kernel does so again",
        source: "edk2: OvmfPkg/Library/PlatformBootManagerLib/BdsPlatform.c",
        check: uefi_with_kernel,
    },
    Rule {
        id: "firmware-uefi",
        applies: Applies::Guest,
        why: "it takes longer than SeaBIOS; brisk boot analyze tells how long",
        source: "edk2: OvmfPkg/Library/PlatformBootManagerLib/BdsPlatform.c",
        check: uefi,
    },
    Rule {
        id: "firmware-seabios-kernel",
        applies: Applies::Guest,
        why: "SeaBIOS looks for disks, keyboards and option ROMs first",
        source: "SeaBIOS: src/post.c, maininit",
        check: seabios_with_kernel,
    },
    Rule {
        id: "firmware-boot-menu",
        applies: Applies::Guest,
        why: "each boot waits until nobody has pressed a key",
        source: "SeaBIOS: src/boot.c, interactive_bootmenu",
        check: boot_menu,
    },
    Rule {
        id: "kernel-compressed",
        applies: Applies::Guest,
        why: "it is decompressed in the guest at every boot: 0.7 s when emulated",
        source: "Linux: arch/x86/boot/compressed/misc.c; to measure: brisk boot compare",
        check: compressed_kernel,
    },
    Rule {
        id: "console-no-port",
        applies: Applies::Guest,
        why: "every character waits for a transmitter that never answers: up to 15 s",
        source: "Linux: drivers/tty/serial/8250/8250_port.c, wait_for_xmitr",
        check: console_without_port,
    },
    Rule {
        id: "console-serial-verbose",
        applies: Applies::Guest,
        why: "each character is an exit to QEMU",
        source: "Linux: drivers/tty/serial/8250/8250_port.c, serial8250_console_write",
        check: verbose_console,
    },
    Rule {
        id: "ps2-probe",
        applies: Applies::Guest,
        why: "up to half a second of waiting for answers",
        source: "Linux: drivers/input/serio/i8042.c, i8042_probe",
        check: ps2,
    },
];

fn uefi_with_kernel(guest: &Guest, findings: &mut Findings) {
    let boot = &guest.hardware.boot;
    if boot.is_efi() && boot.kernel.is_some() {
        let place = guest.hardware.place(Part::Firmware);
        let edit = Edit::of(&guest.hardware)
            .remove("firmware='efi', <loader> and <nvram> from <os>")
            .argument(ArgumentChange::Remove {
                words: place.words(),
                what: boot.firmware.clone().unwrap_or_default(),
            });
        findings.at(
            place,
            Severity::Slow,
            "the kernel starts through UEFI firmware, though it is given from outside",
            edit,
        );
    }
}

fn uefi(guest: &Guest, findings: &mut Findings) {
    let boot = &guest.hardware.boot;
    if boot.is_efi() && boot.kernel.is_none() {
        findings.at(
            guest.hardware.place(Part::Firmware),
            Severity::Note,
            "the firmware is UEFI",
            Fix::Advice(
                "an installed system that starts by UEFI needs it; install the next on SeaBIOS"
                    .into(),
            ),
        );
    }
}

fn seabios_with_kernel(guest: &Guest, findings: &mut Findings) {
    let boot = &guest.hardware.boot;
    let is_seabios = boot.firmware.is_none() && !guest.hardware.machine.is_microvm();
    if boot.kernel.is_some() && is_seabios && guest.has_qboot {
        findings.at(
            guest.hardware.place(Part::Firmware),
            Severity::Slow,
            "the kernel starts through SeaBIOS",
            Edit::of(&guest.hardware)
                .write("<loader>QBOOT.ROM</loader> in <os>")
                .argument(ArgumentChange::Add(&["-M", "microvm"]))
                .notes(
                    ", where devices are virtio and use MSI",
                    ", or -bios qboot.rom with virtio devices that use MSI",
                ),
        );
    }
}

fn boot_menu(guest: &Guest, findings: &mut Findings) {
    if guest.hardware.boot.menu {
        findings.at(
            guest.hardware.place(Part::BootMenu),
            Severity::Slow,
            "the firmware shows a boot menu",
            Edit::of(&guest.hardware)
                .virt_xml("--edit --boot bootmenu.enable=no")
                .argument(ArgumentChange::Add(&["-boot", "menu=off"])),
        );
    }
}

fn compressed_kernel(guest: &Guest, findings: &mut Findings) {
    let Some(kernel) = &guest.hardware.boot.kernel else {
        return;
    };
    if kernel.contains("vmlinuz") || kernel.contains("bzImage") {
        let place = guest.hardware.place(Part::Kernel);
        let edit = Edit::of(&guest.hardware)
            .after(format!(
                "brisk kernel extract {kernel} writes a vmlinux, which QEMU starts through PVH"
            ))
            .virt_xml("--edit --boot kernel=VMLINUX")
            .argument(ArgumentChange::Add(&["-kernel", "VMLINUX"]));
        findings.at(place, Severity::Slow, "the kernel is compressed", edit);
    }
}

/// Whether the console is a serial port that is not there.
fn is_console_missing(guest: &Guest) -> bool {
    guest.hardware.has_parameter("console=ttyS0") && !guest.hardware.has(Class::Serial)
}

fn console_without_port(guest: &Guest, findings: &mut Findings) {
    if is_console_missing(guest) {
        findings.at(
            guest.hardware.place(Part::Append),
            Severity::Slow,
            "the console is a serial port that the machine does not have",
            Edit::of(&guest.hardware)
                .virt_xml("--add-device --serial pty")
                .argument(ArgumentChange::Add(&["-serial", "stdio"]))
                .notes("", ", or without console=ttyS0"),
        );
    }
}

fn verbose_console(guest: &Guest, findings: &mut Findings) {
    let hardware = &guest.hardware;
    let is_verbose = hardware.has_parameter("console=ttyS") && !hardware.has_parameter("quiet");
    if is_verbose && !is_console_missing(guest) {
        findings.at(
            hardware.place(Part::Append),
            Severity::Slow,
            "the kernel prints all its messages to a serial port",
            Edit::of(hardware)
                .write("add quiet to <cmdline>")
                .argument(ArgumentChange::Add(&["quiet"]))
                .notes(
                    ", or use a virtio console (console=hvc0)",
                    ", or a virtio console (console=hvc0)",
                ),
        );
    }
}

fn ps2(guest: &Guest, findings: &mut Findings) {
    let hardware = &guest.hardware;
    let is_probed = hardware.machine.has_ps2() && !hardware.has_parameter("i8042.");
    if hardware.boot.kernel.is_some() && is_probed {
        findings.at(
            hardware.place(Part::Machine),
            Severity::Slow,
            "the kernel probes for a PS/2 keyboard and mouse",
            Edit::of(hardware)
                .write("<ps2 state='off'/> in <features>")
                .argument(ArgumentChange::Machine {
                    key: "i8042",
                    value: "off",
                })
                .notes(
                    " where libvirt knows it, or add i8042.noaux i8042.nokbd to <cmdline>",
                    "",
                ),
        );
    }
}

//! Devices that cost time at every boot, and that not every guest needs.

use brisk_vm::hardware::{Class, Device, Form, GuestHardware};

use super::subject::Guest;
use crate::{Applies, ArgumentChange, Edit, Findings, Fix, Rule, Severity};

pub(super) const RULES: &[Rule<Guest>] = &[
    Rule {
        id: "devices-default",
        applies: Applies::Guest,
        why: "a graphics card, a network card with a boot ROM, a floppy and a CD-ROM are set up and \
              probed",
        source: "QEMU: system/vl.c, qemu_create_default_devices",
        check: defaults,
    },
    Rule {
        id: "disk-emulated",
        applies: Applies::Guest,
        why: "it is probed slowly, and each access costs several exits to QEMU",
        source: "Linux: drivers/ata/libata-eh.c; QEMU: hw/ide",
        check: disks,
    },
    Rule {
        id: "disk-removable",
        applies: Applies::Guest,
        why: "firmware and kernel look for a medium in it",
        source: "SeaBIOS: src/hw/ata.c; Linux: drivers/scsi/sr.c",
        check: removable,
    },
    Rule {
        id: "net-emulated",
        applies: Applies::Guest,
        why: "it is probed slowly, and each packet costs several exits to QEMU",
        source: "QEMU: hw/net/e1000.c",
        check: networks,
    },
    Rule {
        id: "graphics",
        applies: Applies::Guest,
        why: "the firmware starts its BIOS, and the kernel its driver",
        source: "SeaBIOS: src/optionroms.c, vgarom_setup",
        check: graphics,
    },
    Rule {
        id: "usb-unused",
        applies: Applies::Guest,
        why: "firmware and kernel start it and look for devices; libvirt adds one unless told not \
              to",
        source: "libvirt: formatdomain.html, Controllers",
        check: usb_unused,
    },
    Rule {
        id: "usb-input",
        applies: Applies::Guest,
        why: "the kernel waits for USB, and QEMU polls it while the guest runs",
        source: "QEMU: docs/system/devices/usb.rst; hw/usb/dev-hid.c",
        check: usb_input,
    },
    Rule {
        id: "sound",
        applies: Applies::Guest,
        why: "the kernel probes its codecs",
        source: "Linux: sound/pci/hda/hda_intel.c, azx_probe_continue",
        check: sound,
    },
    Rule {
        id: "tpm",
        applies: Applies::Guest,
        why: "the firmware measures what it starts, and swtpm is started before QEMU",
        source: "SeaBIOS: src/tcgbios.c; libvirt: src/qemu/qemu_tpm.c",
        check: tpm,
    },
    Rule {
        id: "balloon",
        applies: Applies::Guest,
        why: "the kernel loads a driver for it",
        source: "Linux: drivers/virtio/virtio_balloon.c",
        check: balloon,
    },
    Rule {
        id: "description-unread",
        applies: Applies::Guest,
        why: "it may change what is said here of the guest",
        source: "brisk: what describes a guest is read, and not what it refers to",
        check: unread,
    },
];

/// Devices that somebody asked for: those that QEMU adds are one finding.
fn asked_for(guest: &Guest, class: Class) -> impl Iterator<Item = &Device> {
    let devices = guest.hardware.devices(class);
    let by_qemu = guest.hardware.form != Form::Xml;
    devices.filter(move |device| device.is_asked_for() || !by_qemu)
}

/// A device that the command line is to be without.
fn without(device: &Device) -> ArgumentChange {
    ArgumentChange::Remove {
        words: device.place.words(),
        what: name(device).to_owned(),
    }
}

fn name(device: &Device) -> &str {
    if device.model.is_empty() {
        device.label()
    } else {
        &device.model
    }
}

fn first(guest: &Guest, class: Class) -> Option<(&Device, &GuestHardware)> {
    let first = asked_for(guest, class).next()?;
    Some((first, &guest.hardware))
}

fn defaults(guest: &Guest, findings: &mut Findings) {
    if guest.hardware.adds_defaults {
        findings.at(
            brisk_vm::hardware::Place::Implied,
            Severity::Slow,
            "QEMU adds its default devices",
            Edit::of(&guest.hardware)
                .argument(ArgumentChange::Add(&["-nodefaults"]))
                .notes("", ", and the devices you want"),
        );
    }
}

fn disks(guest: &Guest, findings: &mut Findings) {
    for disk in asked_for(guest, Class::Disk) {
        if !matches!(disk.bus, "ide" | "sata" | "fdc" | "usb" | "sd") {
            continue;
        }
        let target = disk.label();
        findings.at(
            disk.place.clone(),
            Severity::Slow,
            format!("disk {target} is emulated hardware ({})", disk.bus),
            Edit::of(&guest.hardware)
                .virt_xml(format!(
                    "--edit target.dev={target} --disk target.bus=virtio,target.dev=vda"
                ))
                .argument(ArgumentChange::Replace {
                    words: disk.place.words(),
                    old: match &*disk.model {
                        "" => format!("a drive of {}", disk.bus),
                        model => model.to_owned(),
                    },
                    new: "virtio-blk-pci".to_owned(),
                })
                .note("; the guest needs virtio_blk in its initramfs"),
        );
    }
}

fn removable(guest: &Guest, findings: &mut Findings) {
    for (class, kind) in [(Class::Cdrom, "cdrom"), (Class::Floppy, "floppy")] {
        for drive in asked_for(guest, class) {
            let target = drive.label();
            findings.at(
                drive.place.clone(),
                Severity::Note,
                format!("there is a {kind} drive, {target}"),
                Edit::of(&guest.hardware)
                    .virt_xml(format!("--remove-device --disk target.dev={target}"))
                    .argument(without(drive))
                    .note(", if nobody uses it"),
            );
        }
    }
}

fn networks(guest: &Guest, findings: &mut Findings) {
    let emulated = |card: &&Device| card.bus != "virtio";
    for card in asked_for(guest, Class::Network).filter(emulated) {
        let model = match &*card.model {
            "" => "QEMU's default",
            model => model,
        };
        findings.at(
            card.place.clone(),
            Severity::Slow,
            format!("a network card is emulated hardware ({model})"),
            Edit::of(&guest.hardware)
                .virt_xml("--edit all --network model.type=virtio")
                .argument(ArgumentChange::Replace {
                    words: card.place.words(),
                    old: model.to_owned(),
                    new: "virtio-net-pci".to_owned(),
                }),
        );
    }
}

fn graphics(guest: &Guest, findings: &mut Findings) {
    if let Some((card, hardware)) = first(guest, Class::Video) {
        findings.at(
            card.place.clone(),
            Severity::Slow,
            "there is a graphics card",
            Edit::of(hardware)
                .virt_xml("--remove-device --graphics all")
                .virt_xml("--edit --video model.type=none")
                .argument(ArgumentChange::Add(&["-vga", "none"]))
                .argument(without(card))
                .note("; on a guest that is used by its console or network"),
        );
    }
}

fn usb_unused(guest: &Guest, findings: &mut Findings) {
    let has_display = guest.hardware.devices(Class::Video).next().is_some();
    let mut devices = guest.hardware.devices.iter();
    // A tablet is what the display is used with.
    let is_used =
        devices.any(|device| device.bus == "usb" && (has_display || device.class != Class::Input));
    let Some((controller, hardware)) = first(guest, Class::UsbController) else {
        return;
    };
    if !is_used {
        findings.at(
            controller.place.clone(),
            Severity::Slow,
            "there is a USB controller without a need for it",
            Edit::of(hardware)
                .write("<controller type='usb' model='none'/>")
                .argument(without(controller))
                .notes(
                    ", and no <input bus='usb'> or <redirdev>",
                    ", and without what is plugged into it",
                ),
        );
    }
}

fn usb_input(guest: &Guest, findings: &mut Findings) {
    let input = asked_for(guest, Class::Input).find(|input| input.bus == "usb");
    if let Some(input) = input {
        findings.at(
            input.place.clone(),
            Severity::Note,
            "there is a USB tablet or keyboard",
            Edit::of(&guest.hardware)
                .virt_xml("--remove-device --input bus=usb")
                .argument(without(input))
                .note(", on a guest without a display"),
        );
    }
}

fn sound(guest: &Guest, findings: &mut Findings) {
    if let Some((card, hardware)) = first(guest, Class::Sound) {
        findings.at(
            card.place.clone(),
            Severity::Slow,
            "there is a sound card",
            Edit::of(hardware)
                .virt_xml("--remove-device --sound all")
                .argument(without(card)),
        );
    }
}

fn tpm(guest: &Guest, findings: &mut Findings) {
    if let Some((tpm, hardware)) = first(guest, Class::Tpm) {
        findings.at(
            tpm.place.clone(),
            Severity::Note,
            "there is a TPM",
            Edit::of(hardware)
                .virt_xml("--remove-device --tpm all")
                .argument(without(tpm))
                .note(", if the guest needs none"),
        );
    }
}

fn balloon(guest: &Guest, findings: &mut Findings) {
    if let Some((balloon, hardware)) = first(guest, Class::Balloon) {
        findings.at(
            balloon.place.clone(),
            Severity::Note,
            "there is a memory balloon",
            Edit::of(hardware)
                .virt_xml("--edit --memballoon model=none")
                .argument(without(balloon))
                .note(", if memory is never taken back"),
        );
    }
}

fn unread(guest: &Guest, findings: &mut Findings) {
    for (why, place) in &guest.hardware.unread {
        findings.at(
            place.clone(),
            Severity::Note,
            why.clone(),
            Fix::Advice("look at it yourself".into()),
        );
    }
}

//! Devices that QEMU adds unless it is told not to (`default_list` in `system/vl.c`).

use crate::hardware::device::{Class, Device};
use crate::hardware::model::GuestHardware;
use crate::qemu::cmdline::CommandLine;

pub(super) fn add(guest: &mut GuestHardware, line: &CommandLine) {
    if !guest.adds_defaults {
        return;
    }
    let has_driver = |drivers: &[&str]| {
        let is_one = |driver: &str| drivers.contains(&driver);
        guest.devices.iter().any(|device| is_one(&device.model))
            || guest.globals.iter().any(|global| is_one(&global.driver))
    };
    let mut added = Vec::new();
    let mut unless = |is_there: bool, device: Device| {
        if !is_there {
            added.push(device);
        }
    };
    unless(
        line.has("serial") || has_driver(&["isa-serial", "xen-console"]),
        Device::new(Class::Serial, "isa-serial", ""),
    );
    if !guest.machine.is_microvm() {
        let is_q35 = guest.machine.is_q35();
        let card = if is_q35 { "e1000e" } else { "e1000" };
        unless(
            ["netdev", "nic", "net"].iter().any(|name| line.has(name)),
            Device::new(Class::Network, card, ""),
        );
        const CARDS: &[&str] = &[
            "VGA",
            "isa-vga",
            "cirrus-vga",
            "isa-cirrus-vga",
            "vmware-svga",
            "qxl-vga",
            "virtio-vga",
            "ati-vga",
            "vhost-user-vga",
            "virtio-vga-gl",
            "virtio-vga-rutabaga",
        ];
        unless(
            line.has("vga") || has_driver(CARDS),
            Device::new(Class::Video, "VGA", ""),
        );
        let is_cdrom_given = line.has("cdrom") || line.has("hdc");
        unless(
            is_cdrom_given || has_driver(&["ide-cd", "ide-hd", "scsi-cd", "scsi-hd"]),
            Device::new(Class::Cdrom, "ide-cd", if is_q35 { "sata" } else { "ide" }),
        );
        if !is_q35 {
            unless(
                line.has("fda") || has_driver(&["isa-fdc", "floppy"]),
                Device::new(Class::Floppy, "floppy", "fdc"),
            );
        }
    }
    guest.devices.extend(added);
}

//! Drives that are devices at once (`-drive if=ide`, `-hda`, a bare file name), and flash.

use super::{map, place};
use crate::hardware::device::{Backend, Class, Device};
use crate::hardware::model::GuestHardware;
use crate::hardware::place::Part;
use crate::qemu::cmdline::{CommandLine, Item};

/// Nodes of the block layer may be behind one another; a command line may make a ring of them.
const DEPTH: usize = 16;

pub(super) fn add(guest: &mut GuestHardware, line: &CommandLine) {
    for item in line.items() {
        let file = item.text();
        match &*item.name {
            "drive" => drive(guest, item),
            "hda" | "hdb" | "hdc" | "hdd" => {
                let interface = default_interface(guest);
                disk(guest, item, Class::Disk, interface, &file);
            }
            "cdrom" => {
                let interface = default_interface(guest);
                disk(guest, item, Class::Cdrom, interface, &file);
            }
            "fda" | "fdb" => disk(guest, item, Class::Floppy, "fdc", &file),
            "sd" => disk(guest, item, Class::Disk, "sd", &file),
            "pflash" => flash(guest, item, &file),
            _ => {}
        }
    }
}

/// A microvm has no controller for drives (`block_default_type` of the machine).
fn default_interface(guest: &GuestHardware) -> &'static str {
    if guest.machine.is_microvm() {
        ""
    } else {
        ide(guest)
    }
}

fn ide(guest: &GuestHardware) -> &'static str {
    if guest.machine.is_q35() {
        "sata"
    } else {
        "ide"
    }
}

fn drive(guest: &mut GuestHardware, item: &Item) {
    let fields = item.fields().unwrap_or_default();
    let file = fields.get("file").unwrap_or_default();
    let bus = match fields.get("if") {
        None => default_interface(guest),
        Some("ide") => ide(guest),
        Some("virtio") => "virtio",
        Some("scsi") => "scsi",
        Some("sd") => "sd",
        Some("floppy") => "fdc",
        Some("pflash") => {
            flash(guest, item, file);
            return;
        }
        // A device refers to it.
        Some(_) => "",
    };
    let class = match (bus, fields.get("media")) {
        ("fdc", _) => Class::Floppy,
        (_, Some("cdrom")) => Class::Cdrom,
        _ => Class::Disk,
    };
    let name = fields.get("id").unwrap_or(file);
    disk(guest, item, class, bus, name);
}

fn disk(guest: &mut GuestHardware, item: &Item, class: Class, bus: &'static str, name: &str) {
    if bus.is_empty() {
        return;
    }
    let fields = item.fields().unwrap_or_default();
    guest.devices.push(Device {
        name: Some(name.to_owned()),
        properties: map(fields.iter()),
        place: place(item),
        ..Device::new(class, "", bus)
    });
}

/// The first flash is the firmware; the second has its variables.
fn flash(guest: &mut GuestHardware, item: &Item, file: &str) {
    if guest.boot.firmware.is_none() && !file.is_empty() {
        guest.boot.firmware = Some(file.to_owned());
        guest.places.insert(Part::Firmware, place(item));
    }
}

/// The file that a node of the block layer reads in the end.
pub(super) fn file(backends: &[Backend], node: &str) -> Option<String> {
    let mut node = node.to_owned();
    for _ in 0..DEPTH {
        let found = backends.iter().find(|backend| {
            matches!(&*backend.option, "blockdev" | "drive") && backend.id == node
        })?;
        let get = |key: &str| found.properties.get(key).cloned();
        if let Some(file) = get("filename").or_else(|| get("file.filename")) {
            return Some(file);
        }
        // Of a drive it is the file, of a node that of another node.
        let file = get("file")?;
        if found.option == "drive" {
            return Some(file);
        }
        node = file;
    }
    None
}

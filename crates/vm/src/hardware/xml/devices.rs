//! `<devices>`.

use roxmltree::Node;

use super::element::{Lines, attribute, child, children, elements, properties};
use crate::hardware::device::{Backend, Class, Device, bus};
use crate::hardware::model::GuestHardware;

pub(super) fn read(guest: &mut GuestHardware, devices: Node<'_, '_>, lines: &Lines) {
    let has_serial = children(devices, "serial").next().is_some();
    for node in elements(devices) {
        let place = lines.place(node);
        if node.tag_name().name() == "panic" && node.attribute("model") == Some("hyperv") {
            // For QEMU it is an enlightenment.
            let crash = ("crash".to_owned(), "on".to_owned());
            guest.cpu.hyperv.extend([crash]);
        }
        match node.tag_name().name() {
            "graphics" | "audio" => guest.backends.push(Backend {
                option: match node.tag_name().name() {
                    "audio" => "audiodev".to_owned(),
                    _ => attribute(Some(node), "type").unwrap_or_default(),
                },
                id: attribute(Some(node), "id").unwrap_or_default(),
                properties: properties(node),
                place,
            }),
            "console" if has_serial && is_serial(node) => {
                // Another name for the first serial port.
            }
            _ => guest.devices.extend(device(node).map(|device| Device {
                properties: properties(node),
                place,
                ..device
            })),
        }
    }
}

/// Whether a console is a serial port, as it is by default.
fn is_serial(console: Node<'_, '_>) -> bool {
    let kind = attribute(child(console, "target"), "type");
    kind.is_none_or(|kind| kind == "serial")
}

fn device(node: Node<'_, '_>) -> Option<Device> {
    let own = |name: &str| attribute(Some(node), name).unwrap_or_default();
    let of = |element: &str, name: &str| attribute(child(node, element), name);
    let kind = own("type");
    let model = || {
        let named = attribute(Some(node), "model");
        let named = named
            .or_else(|| of("model", "type"))
            .or_else(|| of("model", "name"));
        named.unwrap_or_default()
    };
    let target = || of("target", "dev").or_else(|| of("target", "name"));
    let device = |class, name: &str, bus| Device {
        backend: kind.clone(),
        name: target(),
        ..Device::new(class, name, bus)
    };
    let model = model();
    let device = match node.tag_name().name() {
        "disk" => {
            let class = match &*own("device") {
                "cdrom" => Class::Cdrom,
                "floppy" => Class::Floppy,
                _ => Class::Disk,
            };
            device(class, &model, bus(&of("target", "bus").unwrap_or_default()))
        }
        "interface" if kind == "hostdev" => device(Class::HostDevice, &model, ""),
        // Such a device is a virtio card already.
        "interface" if kind == "vdpa" => device(Class::Network, &model, "virtio"),
        "interface" => device(Class::Network, &model, virtio(&model)),
        "serial" => device(Class::Serial, &model, ""),
        "console" if is_serial(node) => device(Class::Serial, &model, ""),
        "console" => device(Class::Console, &model, "virtio"),
        "channel" => device(Class::Channel, &model, "virtio"),
        "input" => {
            let named = own("bus");
            let is_usb = named.is_empty() && kind == "tablet";
            let bus = if is_usb { "usb" } else { bus(&named) };
            device(Class::Input, &kind, bus)
        }
        "video" if model == "none" => return None,
        "video" => device(Class::Video, &model, virtio(&model)),
        "controller" if kind == "usb" && model == "none" => return None,
        "controller" if kind == "usb" => device(Class::UsbController, &model, ""),
        "controller" => device(Class::Controller, &model, ""),
        "sound" => device(Class::Sound, &model, virtio(&model)),
        "tpm" => device(Class::Tpm, &model, ""),
        "memballoon" if model == "none" => return None,
        "memballoon" => device(Class::Balloon, &model, "virtio"),
        "watchdog" => device(Class::Watchdog, &model, ""),
        "rng" => device(Class::Rng, &model, "virtio"),
        "filesystem" => device(Class::Filesystem, &model, "virtio"),
        "panic" => device(Class::Panic, &model, ""),
        // Its reader is a USB device.
        "smartcard" => device(Class::Other, "smart card", "usb"),
        "hostdev" => device(
            Class::HostDevice,
            &kind,
            if kind == "usb" { "usb" } else { "" },
        ),
        "redirdev" => {
            let is_usb = kind == "usb" || own("bus") == "usb";
            device(Class::HostDevice, &kind, if is_usb { "usb" } else { "" })
        }
        "emulator" => return None,
        name => device(Class::Other, name, ""),
    };
    Some(device)
}

/// The bus of a model that is on one of its own.
fn virtio(model: &str) -> &'static str {
    if model.starts_with("virtio") {
        "virtio"
    } else {
        ""
    }
}

/// Devices that libvirt adds where the XML says nothing of them (`qemuDomainDefAddDefaultDevices`
/// in its `src/qemu/qemu_domain.c`).
pub(super) fn defaults(guest: &mut GuestHardware, domain: Node<'_, '_>) {
    let devices = child(domain, "devices");
    let all = |name: &'static str| {
        let nodes = devices.map(|devices| children(devices, name).collect::<Vec<_>>());
        nodes.unwrap_or_default()
    };
    let is_usb = |node: &Node<'_, '_>| node.attribute("type") == Some("usb");
    let arch = &*guest.machine.arch;
    let is_one_of = |starts: &[&str]| starts.iter().any(|start| arch.starts_with(start));
    let is_arm = is_one_of(&["arm", "aarch64"]);
    let has_no_usb = is_arm || is_one_of(&["riscv", "s390", "loongarch"]);
    let has_no_usb = has_no_usb || matches!(&*guest.machine.kind, "isapc" | "microvm");
    if !has_no_usb && !all("controller").iter().any(is_usb) {
        guest
            .devices
            .push(Device::new(Class::UsbController, "", ""));
    }
    if all("video").is_empty() && !all("graphics").is_empty() {
        guest.devices.push(Device::new(Class::Video, "", ""));
    }
    if !is_arm && all("memballoon").is_empty() {
        guest
            .devices
            .push(Device::new(Class::Balloon, "", "virtio"));
    }
}

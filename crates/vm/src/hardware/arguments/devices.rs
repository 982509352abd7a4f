//! What `-device` and the options that are short for it make.

use super::{map, place, place_of_word};
use crate::hardware::device::{Class, Device, of_driver};
use crate::hardware::model::GuestHardware;
use crate::hardware::place::Place;
use crate::qemu::cmdline::{CommandLine, Fields, Item};

/// Adds the devices in the order of the command line.
pub(super) fn add(guest: &mut GuestHardware, line: &CommandLine) {
    let set = line.set();
    for item in line.items() {
        let Ok(fields) = item.fields() else {
            continue;
        };
        let text = item.text();
        let device = match &*item.name {
            "device" => {
                let id = fields.get("id").unwrap_or_default();
                let mut device = of_fields(guest, &fields);
                let of_this = set
                    .iter()
                    .filter(|one| one.option == "device" && !id.is_empty() && one.id == id);
                device.properties.extend(map(of_this.map(|one| &one.field)));
                Some(device)
            }
            "nic" | "net" => network(&item.name, &fields),
            "serial" if text != "none" => Some(serial(guest, &text)),
            "vga" if text != "none" => Some(graphics(&text)),
            "soundhw" => Some(Device::new(Class::Sound, &text, "")),
            "audio" => fields
                .get("model")
                .map(|model| Device::new(Class::Sound, model, "")),
            "watchdog" => Some(Device::new(Class::Watchdog, &text, "")),
            "usbdevice" => Some(usb(&text)),
            "virtfs" => Some(Device::new(Class::Filesystem, "virtio-9p-pci", "virtio")),
            "balloon" if text != "none" => {
                Some(Device::new(Class::Balloon, "virtio-balloon", "virtio"))
            }
            _ => None,
        };
        guest
            .devices
            .extend(device.map(|device| written(device, item)));
    }
    let machine = line.machine();
    if machine.is_on("usb") == Some(true) {
        let word = machine.field("usb").map(|field| field.word);
        guest.devices.push(Device {
            place: word
                .map(|word| place_of_word(line, word))
                .unwrap_or_default(),
            ..Device::new(Class::UsbController, "usb=on", "")
        });
    }
}

fn written(device: Device, item: &Item) -> Device {
    Device {
        place: place(item),
        ..device
    }
}

fn of_fields(guest: &GuestHardware, fields: &Fields) -> Device {
    let get = |key: &str| fields.get(key).filter(|text| !text.is_empty());
    let driver = get("driver").unwrap_or_default();
    let (class, bus) = of_driver(driver);
    let name = match class {
        Class::Channel => get("name").or(get("id")),
        _ => get("id").or(get("drive")).or(get("netdev")),
    };
    let backend = get("chardev").map(|id| backend(guest, id));
    Device {
        bus: match bus {
            "ide" if guest.machine.is_q35() => "sata",
            bus => bus,
        },
        name: name.map(str::to_owned),
        backend: backend.unwrap_or_default(),
        properties: map(fields.iter()),
        place: Place::Implied,
        ..Device::new(class, driver, "")
    }
}

/// The kind of a character device.
fn backend(guest: &GuestHardware, id: &str) -> String {
    let mut devices = guest.backends.iter();
    let found = devices.find(|backend| backend.option == "chardev" && backend.id == id);
    let kind = found.and_then(|backend| backend.properties.get("backend"));
    kind.cloned().unwrap_or_default()
}

/// `-serial pty`, `-serial file:/x`, `-serial chardev:ID`, `-serial mon:stdio`.
fn serial(guest: &GuestHardware, text: &str) -> Device {
    let text = text.strip_prefix("mon:").unwrap_or(text);
    let (kind, rest) = text.split_once([':', ',']).unwrap_or((text, ""));
    Device {
        backend: match kind {
            "chardev" => backend(guest, rest),
            kind => kind.to_owned(),
        },
        ..Device::new(Class::Serial, "isa-serial", "")
    }
}

/// A card of `-nic` or `-net nic`.
fn network(option: &str, fields: &Fields) -> Option<Device> {
    let kind = fields.get("type")?;
    let is_card = match option {
        "nic" => kind != "none",
        _ => kind == "nic",
    };
    let model = fields.get("model").unwrap_or_default();
    // -nic and -net take the short name for the driver.
    let model = if model == "virtio" {
        "virtio-net-pci"
    } else {
        model
    };
    let (_, bus) = of_driver(model);
    is_card.then(|| Device {
        name: fields.get("id").map(str::to_owned),
        properties: map(fields.iter()),
        ..Device::new(Class::Network, model, bus)
    })
}

/// A card by its short name (`vga_interfaces` in `system/vl.c`).
fn graphics(name: &str) -> Device {
    let driver = match name {
        "std" => "VGA".to_owned(),
        "vmware" => "vmware-svga".to_owned(),
        name => format!("{name}-vga"),
    };
    let (_, bus) = of_driver(&driver);
    Device::new(Class::Video, &driver, bus)
}

fn usb(text: &str) -> Device {
    let name = text.split(':').next().unwrap_or_default();
    let class = match name {
        "mouse" | "tablet" | "keyboard" | "wacom-tablet" => Class::Input,
        "host" => Class::HostDevice,
        "net" => Class::Network,
        _ => Class::Other,
    };
    Device::new(class, &format!("usb-{name}"), "usb")
}

//! `<features>`: switches of the machine, of KVM, and enlightenments for Hyper-V guests.

use roxmltree::Node;

use super::element::{attribute, child, elements, switch};
use crate::hardware::model::GuestHardware;

pub(super) fn read(guest: &mut GuestHardware, features: Node<'_, '_>) {
    for node in elements(features) {
        let is_on = switch(node, "state");
        let name = node.tag_name().name();
        match name {
            // These are on if they are there.
            "acpi" => option(guest, "acpi", Some(true)),
            "ps2" => option(guest, "i8042", is_on),
            "vmport" | "smm" => option(guest, name, is_on),
            "ioapic" => {
                let driver = match node.attribute("driver") {
                    Some("qemu") => "split",
                    _ => "on",
                };
                let key = "kernel-irqchip".to_owned();
                guest.machine.options.insert(key, driver.to_owned());
            }
            "apic" => feature(guest, "kvm-pv-eoi", switch(node, "eoi")),
            "pmu" => feature(guest, "pmu", is_on),
            "pvspinlock" => feature(guest, "kvm-pv-unhalt", is_on),
            "kvm" => {
                for node in elements(node) {
                    let is_on = switch(node, "state");
                    match node.tag_name().name() {
                        "hidden" => feature(guest, "kvm", is_on.map(|is_on| !is_on)),
                        name => feature(guest, &format!("kvm-{name}"), is_on),
                    }
                }
            }
            "hyperv" => hyperv(guest, node),
            _ => {}
        }
    }
}

fn word(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

fn option(guest: &mut GuestHardware, name: &str, is_on: Option<bool>) {
    let entry = is_on.map(|is_on| (name.to_owned(), word(is_on)));
    guest.machine.options.extend(entry);
}

fn feature(guest: &mut GuestHardware, name: &str, is_on: Option<bool>) {
    let entry = is_on.map(|is_on| (name.to_owned(), word(is_on)));
    guest.cpu.features.extend(entry);
}

/// Enlightenments in QEMU's spelling (docs/system/i386/hyperv.rst).
fn hyperv(guest: &mut GuestHardware, hyperv: Node<'_, '_>) {
    let set = &mut guest.cpu.hyperv;
    if hyperv.attribute("mode") == Some("passthrough") {
        set.insert("passthrough".to_owned(), word(true));
    }
    for node in elements(hyperv) {
        let name = node.tag_name().name().replace('_', "-");
        let Some(is_on) = switch(node, "state") else {
            continue;
        };
        let number = match &*name {
            "spinlocks" => attribute(Some(node), "retries"),
            "vendor-id" => attribute(Some(node), "value"),
            _ => None,
        };
        let value = number.filter(|_| is_on).unwrap_or_else(|| word(is_on));
        for (below, suffix) in [("direct", "direct"), ("extended", "ext")] {
            let switched = child(node, below).and_then(|node| switch(node, "state"));
            set.extend(switched.map(|is_on| (format!("{name}-{suffix}"), word(is_on))));
        }
        set.insert(name, value);
    }
}

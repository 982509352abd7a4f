//! Devices of a guest, and what QEMU's drivers are.

use std::collections::BTreeMap;

use super::place::Place;

/// What a device is to the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Memory balloon.
    Balloon,
    /// CD-ROM drive.
    Cdrom,
    /// Port of a virtio-serial controller that a program uses.
    Channel,
    /// Console of a virtio-serial controller.
    Console,
    /// Controller of a bus other than USB.
    Controller,
    /// Disk.
    Disk,
    /// Directory of the host.
    Filesystem,
    /// Floppy drive.
    Floppy,
    /// Device of the host, handed to the guest.
    HostDevice,
    /// Keyboard, mouse or tablet.
    Input,
    /// Network card.
    Network,
    /// Device that is told of a panic.
    Panic,
    /// Source of random numbers.
    Rng,
    /// Serial port.
    Serial,
    /// Sound card.
    Sound,
    /// TPM.
    Tpm,
    /// USB controller.
    UsbController,
    /// Graphics card.
    Video,
    /// Watchdog.
    Watchdog,
    /// Anything else.
    Other,
}

/// A device of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// What it is.
    pub class: Class,
    /// Driver of QEMU, such as `virtio-net-pci`, or libvirt's name of the model, such as `virtio`;
    /// empty if it is left to a default.
    pub model: String,
    /// Bus: `virtio`, `ide`, `sata`, `scsi`, `usb`, `fdc`, `sd`, `ps2`; empty for others.
    pub bus: &'static str,
    /// Name: libvirt's target, such as `vda`; on a command line the identifier of the device or of
    /// what is behind it. Of a channel the name that the guest sees.
    pub name: Option<String>,
    /// Kind of its back end, such as `pty` of a serial port.
    pub backend: String,
    /// All that is written of it: `key` of a command line; `attribute` and `element.attribute` of
    /// XML.
    pub properties: BTreeMap<String, String>,
    /// Where it is written.
    pub place: Place,
}

/// The back end of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// Option of QEMU that makes it: `blockdev`, `drive`, `netdev`, `chardev`, `object`, `fsdev`,
    /// `tpmdev`, `audiodev`, `display`, `vnc`, `spice`.
    pub option: String,
    /// Identifier, or node name; empty if it has none.
    pub id: String,
    /// Properties in QEMU's spelling.
    pub properties: BTreeMap<String, String>,
    /// Where it is written.
    pub place: Place,
}

impl Device {
    /// A device of which nothing more is known.
    pub(super) fn new(class: Class, model: &str, bus: &'static str) -> Self {
        Self {
            class,
            model: model.to_owned(),
            bus,
            name: None,
            backend: String::new(),
            properties: BTreeMap::new(),
            place: Place::Implied,
        }
    }

    /// Whether somebody asked for it.
    #[must_use]
    pub fn is_asked_for(&self) -> bool {
        self.place != Place::Implied
    }

    /// Name for messages.
    #[must_use]
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.model)
    }
}

/// The bus of a name, which is static so that rules can compare it.
pub(super) fn bus(name: &str) -> &'static str {
    const BUSES: &[&str] = &[
        "virtio", "ide", "sata", "scsi", "usb", "fdc", "sd", "ps2", "nvme", "xen",
    ];
    let known = BUSES.iter().find(|bus| **bus == name);
    known.copied().unwrap_or("")
}

/// What a driver of QEMU is, and on which bus. Disks of `ide-hd` are on a bus that the machine
/// decides: see the caller.
pub(super) fn of_driver(driver: &str) -> (Class, &'static str) {
    if let Some(found) = of_virtio(driver) {
        return found;
    }
    let starts = |starts: &[&str]| starts.iter().any(|start| driver.starts_with(start));
    match driver {
        "ide-hd" | "ide-drive" => (Class::Disk, "ide"),
        "ide-cd" => (Class::Cdrom, "ide"),
        "scsi-hd" | "scsi-block" | "scsi-disk" => (Class::Disk, "scsi"),
        "scsi-cd" => (Class::Cdrom, "scsi"),
        "usb-storage" | "usb-uas" => (Class::Disk, "usb"),
        "nvme" => (Class::Disk, "nvme"),
        "sd-card" => (Class::Disk, "sd"),
        "floppy" => (Class::Floppy, "fdc"),
        "isa-serial" | "pci-serial" | "pci-serial-2x" | "pci-serial-4x" => (Class::Serial, ""),
        "usb-serial" => (Class::Other, "usb"),
        "virtconsole" => (Class::Console, "virtio"),
        "virtserialport" => (Class::Channel, "virtio"),
        "usb-tablet" | "usb-mouse" | "usb-kbd" | "usb-wacom-tablet" => (Class::Input, "usb"),
        "usb-net" => (Class::Network, "usb"),
        "usb-host" | "usb-redir" => (Class::HostDevice, "usb"),
        "usb-audio" => (Class::Sound, "usb"),
        "AC97" | "ES1370" | "sb16" | "adlib" | "gus" | "cs4231a" | "intel-hda"
        | "ich9-intel-hda" => (Class::Sound, ""),
        "VGA" | "isa-vga" | "cirrus-vga" | "isa-cirrus-vga" | "vmware-svga" | "qxl-vga" | "qxl"
        | "ati-vga" | "bochs-display" | "secondary-vga" | "ramfb" | "vhost-user-vga" => {
            (Class::Video, "")
        }
        "qemu-xhci" | "nec-usb-xhci" | "usb-ehci" | "pci-ohci" | "sysbus-xhci" => {
            (Class::UsbController, "")
        }
        "i6300esb" | "ib700" => (Class::Watchdog, ""),
        "ahci" | "ich9-ahci" | "pcie-root-port" | "pcie-pci-bridge" | "pci-bridge" | "pxb"
        | "pxb-pcie" | "ioh3420" | "i82801b11-bridge" | "x3130-upstream" | "xio3130-downstream"
        | "isa-fdc" => (Class::Controller, ""),
        "usb-ccid" => (Class::Controller, "usb"),
        "rtl8139" | "ne2k_pci" | "ne2k_isa" | "pcnet" | "vmxnet3" | "tulip" | "igb" => {
            (Class::Network, "")
        }
        _ if starts(&["e1000", "i8255", "i8256", "i8280"]) => (Class::Network, ""),
        _ if starts(&["piix3-usb", "piix4-usb", "ich9-usb"]) => (Class::UsbController, ""),
        _ if starts(&["tpm-"]) => (Class::Tpm, ""),
        _ if starts(&["pvpanic"]) => (Class::Panic, ""),
        _ if starts(&["vfio-"]) => (Class::HostDevice, ""),
        _ if starts(&["lsi", "megasas", "mptsas", "am53c974", "dc390"]) => (Class::Controller, ""),
        _ if starts(&["usb-"]) => (Class::Other, "usb"),
        _ => (Class::Other, ""),
    }
}

/// Virtio drivers, whose names end with the bus they are on.
fn of_virtio(driver: &str) -> Option<(Class, &'static str)> {
    const NAMES: &[(&str, Class)] = &[
        ("9p", Class::Filesystem),
        ("balloon", Class::Balloon),
        ("blk", Class::Disk),
        ("fs", Class::Filesystem),
        ("gpu", Class::Video),
        ("input", Class::Input),
        ("keyboard", Class::Input),
        ("mouse", Class::Input),
        ("net", Class::Network),
        ("rng", Class::Rng),
        ("scsi", Class::Controller),
        ("serial", Class::Controller),
        ("snd", Class::Sound),
        ("sound", Class::Sound),
        ("tablet", Class::Input),
        ("vga", Class::Video),
    ];
    let starts = ["virtio-", "vhost-user-", "vhost-"];
    let rest = starts.iter().find_map(|start| driver.strip_prefix(start))?;
    let name = rest.split('-').next()?;
    let found = NAMES.iter().find(|(known, _)| *known == name)?;
    Some((found.1, "virtio"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_are_known_with_their_buses() {
        for (driver, class, bus) in [
            ("virtio-blk-pci", Class::Disk, "virtio"),
            ("virtio-blk-pci-non-transitional", Class::Disk, "virtio"),
            ("virtio-net-device", Class::Network, "virtio"),
            ("virtio-net-pci-transitional", Class::Network, "virtio"),
            ("vhost-user-fs-pci", Class::Filesystem, "virtio"),
            ("virtio-gpu-gl-pci", Class::Video, "virtio"),
            ("virtio-vga", Class::Video, "virtio"),
            ("vhost-vsock-pci", Class::Other, ""),
            ("e1000e", Class::Network, ""),
            ("i82557b", Class::Network, ""),
            ("i82801b11-bridge", Class::Controller, ""),
            ("ich9-usb-ehci1", Class::UsbController, ""),
            ("usb-hub", Class::Other, "usb"),
            ("tpm-crb", Class::Tpm, ""),
            ("vfio-pci", Class::HostDevice, ""),
        ] {
            assert_eq!(of_driver(driver), (class, bus), "{driver}");
        }
    }
}

//! A command line as QEMU can be asked about it: the same machine and devices, and nothing of the
//! host. Pure.
//!
//! Only what is known to touch nothing is kept: the machine, its CPUs and its devices. Disks are of
//! nothing, networks lead nowhere, and what needs a device, a socket or a directory of the host is
//! left out, or another device takes its slot.

use std::ffi::OsString;

use brisk_vm::qemu::cmdline::{CommandLine, Fields, Item, escape};

/// Why a command line cannot be asked about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsuited(String);

/// Options that are kept as they are: they describe the guest, and open nothing.
const KEPT: [&str; 16] = [
    "global",
    "nodefaults",
    "no-user-config",
    "no-hpet",
    "no-acpi",
    "no-fd-bootchk",
    "no-reboot",
    "no-shutdown",
    "vga",
    "usb",
    "rtc",
    "overcommit",
    "smp",
    "action",
    "uuid",
    "watchdog-action",
];
/// Options that decide about the guest's devices in ways that are not followed.
const NOT_FOLLOWED: [&str; 9] = [
    "readconfig",
    "set",
    "preconfig",
    "soundhw",
    "sd",
    "mtdblock",
    "virtfs",
    "plugin",
    "device-tree",
];
/// Properties of devices that name something outside of the guest.
const BACKENDS: [&str; 12] = [
    "netdev",
    "iothread",
    "rng",
    "cryptodev",
    "memdev",
    "hostmem",
    "audiodev",
    "romfile",
    "display",
    "pr-manager-id",
    "iothread-vq-mapping",
    "vhostfd",
];
/// Devices that do nothing without a disk.
const DISKS: [&str; 14] = [
    "virtio-blk",
    "virtio-blk-pci",
    "virtio-blk-pci-non-transitional",
    "virtio-blk-pci-transitional",
    "virtio-blk-device",
    "virtio-blk-ccw",
    "scsi-hd",
    "scsi-cd",
    "scsi-disk",
    "ide-hd",
    "ide-cd",
    "nvme",
    "usb-storage",
    "floppy",
];
/// Memory of the guest, which it never touches.
const MEMORY: &str = "256M";
/// A device that fits into every PCI slot.
const SUBSTITUTE: &str = "virtio-rng-pci";

/// The words behind the program's name that have QEMU make this guest's machine and devices.
///
/// # Errors
/// If the command line decides about devices in a way that is not followed.
pub fn harmless(words: &[OsString]) -> Result<Vec<String>, Unsuited> {
    let line = CommandLine::with_program(words);
    if let Some(error) = line.errors().first() {
        return Err(Unsuited(error.to_string()));
    }
    let mut made = Made::default();
    for item in line.items() {
        made.add(item)?;
    }
    let mut words: Vec<String> = ["-accel", "tcg", "-m", MEMORY].map(str::to_owned).into();
    words.extend(made.words);
    Ok(words)
}

#[derive(Default)]
struct Made {
    words: Vec<String>,
    nodes: usize,
}

impl Made {
    fn push(&mut self, option: &str, argument: impl Into<String>) {
        self.words.extend([format!("-{option}"), argument.into()]);
    }

    fn add(&mut self, item: &Item) -> Result<(), Unsuited> {
        let name = &*item.name;
        let fields = item.fields().unwrap_or_default();
        match name {
            _ if KEPT.contains(&name) => {
                self.words.push(format!("-{name}"));
                self.words
                    .extend(item.argument.iter().map(|_| item.text().into_owned()));
            }
            _ if NOT_FOLLOWED.contains(&name) => {
                return Err(Unsuited(format!("-{name} is not followed")));
            }
            "cpu" => self.push("cpu", cpu(&item.text())),
            "boot" => {
                let kept = without(&fields, &["splash"]);
                self.push("boot", joined(None, &kept));
            }
            "machine" => self.machine(&fields)?,
            "device" => self.device(&fields)?,
            "drive" => self.drive(&fields),
            "hda" | "hdb" | "hdc" | "hdd" => {
                let index = name.as_bytes()[2] - b'a';
                self.push("drive", format!("if=ide,index={index},{}", NOTHING));
            }
            "cdrom" => self.push("drive", format!("if=ide,index=2,media=cdrom,{NOTHING}")),
            "fda" | "fdb" => {
                let index = name.as_bytes()[2] - b'a';
                self.push("drive", format!("if=floppy,index={index},{FLOPPY}"));
            }
            "usbdevice" => match &*item.text() {
                argument @ ("tablet" | "mouse" | "keyboard" | "wacom-tablet") => {
                    self.push(name, argument);
                }
                other => return Err(Unsuited(format!("-usbdevice {other} is not followed"))),
            },
            "nic" => self.nic(&fields),
            // A front end alone; what it is connected to is another option.
            "net" if item.text().starts_with("nic") => {
                let kept = without(&fields, &["type", "netdev"]);
                self.push("net", joined(Some("nic"), &kept));
            }
            "net" if item.text() == "none" => self.push("net", "none"),
            _ => {}
        }
        Ok(())
    }

    fn machine(&mut self, fields: &Fields) -> Result<(), Unsuited> {
        let mut kept = Vec::new();
        for field in fields.iter() {
            match &*field.key {
                "accel" | "kernel" | "initrd" | "append" | "dtb" | "firmware"
                | "memory-backend" | "dumpdtb" | "pflash0" | "pflash1" | "kernel-irqchip"
                | "kernel_irqchip" | "memory-encryption" => {}
                "confidential-guest-support" => {
                    return Err(Unsuited(
                        "a confidential guest needs the host's firmware".into(),
                    ));
                }
                // Proxmox VE names its own revisions of a type behind a plus sign.
                "type" => {
                    let name = field.value.split_once("+pve");
                    kept.insert(0, ("type", name.map_or(&*field.value, |(name, _)| name)));
                }
                key if key.contains('.') && !key.starts_with("hmat") => {}
                key => kept.push((key, &*field.value)),
            }
        }
        if !kept.is_empty() {
            self.push("machine", joined(None, &kept));
        }
        Ok(())
    }

    fn device(&mut self, fields: &Fields) -> Result<(), Unsuited> {
        let driver = fields.get("driver").unwrap_or_default().to_owned();
        let place = |keys: &[&str]| -> Vec<(&str, &str)> {
            let of = |field: &'_ brisk_vm::qemu::cmdline::Field| keys.contains(&&*field.key);
            let found = fields.iter().filter(|field| of(field));
            found.map(|field| (&*field.key, &*field.value)).collect()
        };
        match &*driver {
            // Memory, and what has its place in it: nothing that counts as a slot.
            "pc-dimm" | "nvdimm" | "virtio-mem-pci" | "virtio-pmem-pci" | "vmcoreinfo" => {
                return Ok(());
            }
            driver if driver.starts_with("tpm-") => return Ok(()),
            "usb-host" => {
                let kept = place(&["id", "bus", "port"]);
                self.push("device", joined(Some("usb-mouse"), &kept));
                return Ok(());
            }
            driver if needs_host(driver) => {
                let kept = place(&["id", "bus", "addr", "multifunction"]);
                self.push("device", joined(Some(SUBSTITUTE), &kept));
                return Ok(());
            }
            _ => {}
        }
        let mut dropped = BACKENDS.to_vec();
        dropped.extend(["driver", "drive", "chardev", "vhost"]);
        let mut kept = without(fields, &dropped);
        kept.retain(|(key, _)| !key.contains('.'));
        let node;
        let driver = match &*driver {
            // A disk of the host's, by SCSI commands.
            "scsi-block" | "scsi-generic" => "scsi-hd",
            driver => driver,
        };
        if DISKS.contains(&driver) {
            self.nodes += 1;
            node = format!("brisk{}", self.nodes);
            let size = if driver == "floppy" {
                FLOPPY_BYTES
            } else {
                DISK_BYTES
            };
            let read_only = if driver.ends_with("-cd") { "on" } else { "off" };
            let argument =
                format!("driver=null-co,node-name={node},size={size},read-only={read_only}");
            self.push("blockdev", argument);
            kept.push(("drive", &node));
        } else if fields.get("chardev").is_some() {
            self.nodes += 1;
            node = format!("brisk{}", self.nodes);
            self.push("chardev", format!("null,id={node}"));
            kept.push(("chardev", &node));
        }
        self.push("device", joined(Some(driver), &kept));
        Ok(())
    }

    fn drive(&mut self, fields: &Fields) {
        let interface = fields.get("if");
        // Firmware is of no device; a disk without an interface belongs to a device, which has its own.
        if matches!(interface, Some("none" | "pflash")) {
            return;
        }
        let keys = ["if", "media", "index", "bus", "unit"];
        let found = fields.iter().filter(|field| keys.contains(&&*field.key));
        let kept: Vec<_> = found.map(|field| (&*field.key, &*field.value)).collect();
        let nothing = if interface == Some("floppy") {
            FLOPPY
        } else {
            NOTHING
        };
        let comma = if kept.is_empty() { "" } else { "," };
        self.push("drive", format!("{}{comma}{nothing}", joined(None, &kept)));
    }

    fn nic(&mut self, fields: &Fields) {
        match fields.get("type") {
            Some("none") => self.push("nic", "none"),
            _ => {
                let keys = ["model", "mac", "macaddr", "addr"];
                let found = fields.iter().filter(|field| keys.contains(&&*field.key));
                let kept: Vec<_> = found.map(|field| (&*field.key, &*field.value)).collect();
                self.push("nic", joined(Some("hubport,hubid=0"), &kept));
            }
        }
    }
}

const NOTHING: &str = "driver=null-co,size=1073741824,read-only=off";
const DISK_BYTES: &str = "1073741824";
const FLOPPY: &str = "driver=null-co,size=1474560,read-only=off";
const FLOPPY_BYTES: &str = "1474560";

/// A model of a CPU with its features, without hardware: there is no `host` then, and what QEMU lacks
/// is no error.
fn cpu(text: &str) -> String {
    let parts = text
        .split(',')
        .enumerate()
        .filter_map(|(place, part)| match part {
            "host" if place == 0 => Some("max"),
            "enforce" | "enforce=on" | "check" => None,
            part => Some(part),
        });
    parts.collect::<Vec<_>>().join(",")
}

/// Whether a device is one of the host, or is made by another program of it.
fn needs_host(driver: &str) -> bool {
    let starts = [
        "vfio-",
        "vhost-",
        "ivshmem",
        "virtio-9p",
        "virtio-vga-gl",
        "virtio-gpu-gl",
    ];
    starts.iter().any(|start| driver.starts_with(start))
}

fn without<'a>(fields: &'a Fields, keys: &[&str]) -> Vec<(&'a str, &'a str)> {
    let kept = fields.iter().filter(|field| !keys.contains(&&*field.key));
    kept.map(|field| (&*field.key, &*field.value)).collect()
}

fn joined(first: Option<&str>, pairs: &[(&str, &str)]) -> String {
    let pairs = pairs
        .iter()
        .map(|(key, value)| format!("{key}={}", escape(value)));
    let all: Vec<_> = first.map(str::to_owned).into_iter().chain(pairs).collect();
    all.join(",")
}

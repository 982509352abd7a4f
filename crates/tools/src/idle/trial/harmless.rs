//! A command line as QEMU can be asked about it: the same machine and devices, and nothing of the
//! host. Pure.
//!
//! Only what is known to touch nothing is kept: the machine, its CPUs and its devices, with the
//! properties that are about the guest alone. Disks are of nothing, networks lead nowhere, and what
//! needs a device, a socket or a directory of the host is left out, or another device takes its slot.
//! A device that is not known is not tried.

use std::ffi::OsString;

use brisk_vm::qemu::cmdline::{CommandLine, Fields, Item, escape};

use super::known::{
    DEVICES, DISKS, GLOBALS, MACHINE, OF_HOST, PROPERTIES, SOUND, USB_OF_HOST, WITHOUT_SLOT,
};

/// Why a command line cannot be asked about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsuited(String);

/// Options that are kept as they are: they describe the guest, and open nothing.
const KEPT: [&str; 11] = [
    "nodefaults",
    "no-hpet",
    "no-acpi",
    "no-fd-bootchk",
    "no-reboot",
    "no-shutdown",
    "vga",
    "usb",
    "rtc",
    "smp",
    "uuid",
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
    for global in line.globals() {
        let name = format!("{}.{}", global.driver, global.property);
        if GLOBALS.contains(&&*name) {
            made.push("global", format!("{name}={}", plain(&global.value)?));
        }
    }
    let mut words: Vec<String> = ["-accel", "tcg,tb-size=1", "-m", MEMORY]
        .map(str::to_owned)
        .into();
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

    /// A name of a back end that has no other.
    fn node(&mut self) -> String {
        self.nodes += 1;
        format!("brisk{}", self.nodes)
    }

    fn add(&mut self, item: &Item) -> Result<(), Unsuited> {
        let name = &*item.name;
        let fields = item.fields().unwrap_or_default();
        match name {
            _ if KEPT.contains(&name) => {
                self.words.push(format!("-{name}"));
                if item.argument.is_some() {
                    self.words.push(plain(&item.text())?.to_owned());
                }
            }
            _ if NOT_FOLLOWED.contains(&name) => {
                return Err(Unsuited(format!("-{name} is not followed")));
            }
            "cpu" => {
                let model = cpu(plain(&item.text())?);
                self.push("cpu", model);
            }
            "machine" => self.machine(&fields)?,
            "device" => self.device(&fields)?,
            "drive" => self.drive(&fields)?,
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
            "nic" => self.nic(&fields)?,
            // A front end alone; what it is connected to is another option.
            "net" if item.text().starts_with("nic") => {
                let kept = only(&fields, &["model", "macaddr", "addr"])?;
                self.push("net", joined(Some("nic"), &kept));
            }
            "net" if item.text() == "none" => self.push("net", "none"),
            _ => {}
        }
        Ok(())
    }

    fn machine(&mut self, fields: &Fields) -> Result<(), Unsuited> {
        if fields.get("confidential-guest-support").is_some() {
            return Err(Unsuited(
                "a confidential guest needs the host's firmware".into(),
            ));
        }
        let mut kept = only(fields, MACHINE)?;
        kept.retain(|(key, _)| *key != "kernel-irqchip");
        if let Some(place) = kept.iter().position(|(key, _)| *key == "type") {
            let (key, kind) = kept.remove(place);
            // Proxmox VE names its own revisions of a type behind a plus sign.
            let kind = kind.split_once("+pve").map_or(kind, |(kind, _)| kind);
            kept.insert(0, (key, kind));
        }
        if !kept.is_empty() {
            self.push("machine", joined(None, &kept));
        }
        Ok(())
    }

    fn device(&mut self, fields: &Fields) -> Result<(), Unsuited> {
        let driver = plain(fields.get("driver").unwrap_or_default())?;
        let starts = |names: &[&str]| names.iter().any(|name| driver.starts_with(name));
        // A disk of the host's, by SCSI commands.
        let driver = match driver {
            "scsi-block" | "scsi-generic" => "scsi-hd",
            driver => driver,
        };
        if WITHOUT_SLOT.contains(&driver) {
            return Ok(());
        }
        if USB_OF_HOST.contains(&driver) {
            let kept = only(fields, &["id", "bus", "port"])?;
            self.push("device", joined(Some("usb-mouse"), &kept));
            return Ok(());
        }
        if starts(OF_HOST) {
            let kept = only(fields, &["id", "bus", "addr", "multifunction"])?;
            self.push("device", joined(Some(SUBSTITUTE), &kept));
            return Ok(());
        }
        let known = [DISKS, SOUND, DEVICES];
        if !known.iter().any(|list| list.contains(&driver)) {
            return Err(Unsuited(format!("the device {driver} is not known")));
        }
        let mut kept = only(fields, PROPERTIES)?;
        let node;
        if DISKS.contains(&driver) {
            let size = if driver == "floppy" {
                FLOPPY_BYTES
            } else {
                DISK_BYTES
            };
            let read_only = if driver.ends_with("-cd") { "on" } else { "off" };
            node = self.node();
            let argument =
                format!("driver=null-co,node-name={node},size={size},read-only={read_only}");
            self.push("blockdev", argument);
            kept.push(("drive", &node));
        } else if SOUND.contains(&driver) {
            node = self.node();
            self.push("audiodev", format!("none,id={node}"));
            kept.push(("audiodev", &node));
        } else if fields.get("chardev").is_some() {
            node = self.node();
            self.push("chardev", format!("null,id={node}"));
            kept.push(("chardev", &node));
        }
        self.push("device", joined(Some(driver), &kept));
        Ok(())
    }

    fn drive(&mut self, fields: &Fields) -> Result<(), Unsuited> {
        let interface = fields.get("if");
        // Firmware is of no device; a disk without an interface belongs to a device, which has its own.
        if matches!(interface, Some("none" | "pflash")) {
            return Ok(());
        }
        let kept = only(fields, &["if", "media", "index", "bus", "unit"])?;
        let nothing = if interface == Some("floppy") {
            FLOPPY
        } else {
            NOTHING
        };
        let comma = if kept.is_empty() { "" } else { "," };
        self.push("drive", format!("{}{comma}{nothing}", joined(None, &kept)));
        Ok(())
    }

    fn nic(&mut self, fields: &Fields) -> Result<(), Unsuited> {
        match fields.get("type") {
            Some("none") => self.push("nic", "none"),
            _ => {
                let kept = only(fields, &["model", "mac", "macaddr", "addr"])?;
                self.push("nic", joined(Some("hubport,hubid=0"), &kept));
            }
        }
        Ok(())
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

/// Those fields of an option that are known to be about the guest alone.
fn only<'a>(fields: &'a Fields, keys: &[&str]) -> Result<Vec<(&'a str, &'a str)>, Unsuited> {
    let kept = fields.iter().filter(|field| keys.contains(&&*field.key));
    kept.map(|field| Ok((&*field.key, plain(&field.value)?)))
        .collect()
}

/// A value without anything that QEMU could take for more than a value.
fn plain(text: &str) -> Result<&str, Unsuited> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.,=+-:/ ".contains(c);
    let asks = text
        .split([',', '='])
        .any(|part| matches!(part, "help" | "?"));
    match text.chars().all(is_plain) && !asks {
        true => Ok(text),
        false => Err(Unsuited(format!("{text:?} is not followed"))),
    }
}

fn joined(first: Option<&str>, pairs: &[(&str, &str)]) -> String {
    let pairs = pairs
        .iter()
        .map(|(key, value)| format!("{key}={}", escape(value)));
    let all: Vec<_> = first.map(str::to_owned).into_iter().chain(pairs).collect();
    all.join(",")
}

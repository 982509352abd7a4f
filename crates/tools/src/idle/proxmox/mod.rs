//! Guests of Proxmox VE: their configuration, and the commands that change it. Pure.
//!
//! A configuration is what `qm config` prints, or a file of `/etc/pve/qemu-server`. It is read as
//! Proxmox VE 9 starts it (`PVE::QemuServer` and `Cfg2Cmd` of qemu-server 9.2), as far as that has
//! to do with idle guests. The command line has `-id`, as Proxmox' own.

mod command;
mod words;

use std::collections::BTreeMap;

use super::rules::GuestOs;
pub use command::{command, has_own_cpu, id};

/// Bytes of the largest configuration.
const LARGEST: usize = 1 << 20;
/// Keys that many configurations have.
const KEYS: [&str; 19] = [
    "agent", "bios", "boot", "bootdisk", "cores", "cpu", "efidisk0", "machine", "memory", "meta",
    "name", "net0", "numa", "ostype", "scsihw", "smbios1", "sockets", "vga", "vmgenid",
];
/// Those that only Proxmox has.
const OWN: [&str; 6] = [
    "bootdisk", "efidisk0", "ostype", "scsihw", "smbios1", "vmgenid",
];
/// Kinds of guests (`ostype`), of containers, too.
const KINDS: [&str; 14] = [
    "l24", "l26", "other", "solaris", "w2k", "w2k3", "w2k8", "win10", "win11", "win7", "win8",
    "wvista", "wxp", "none",
];
/// Kinds of screens, without the number that some have.
const SCREENS: [&str; 8] = [
    "cirrus",
    "none",
    "qxl",
    "serial",
    "std",
    "virtio",
    "virtio-gl",
    "vmware",
];

/// A configuration.
#[derive(Debug)]
pub(super) struct Config<'a> {
    keys: BTreeMap<&'a str, &'a str>,
    /// Number of the guest, by the command that printed the configuration.
    number: Option<u32>,
}

impl<'a> Config<'a> {
    /// The configuration of the next start: with what is pending, without snapshots. None for other
    /// texts.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        if text.len() > LARGEST {
            return None;
        }
        let mut keys = BTreeMap::new();
        let mut is_pending = false;
        let mut lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .peekable();
        let number = lines.peek().and_then(|line| printed(line));
        let lines = lines.skip(usize::from(number.is_some()));
        for line in lines.filter(|line| !line.starts_with('#')) {
            if line.starts_with('[') {
                match line.eq_ignore_ascii_case("[pending]") {
                    true => is_pending = true,
                    false => break,
                }
                continue;
            }
            let (key, value) = line.split_once(':')?;
            let is_part =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.".contains(c);
            if key.is_empty() || !key.chars().all(is_part) {
                return None;
            }
            let value = value.trim();
            // As people explain their own.
            let end = value.find(" #").filter(|_| key != "args");
            let value = value[..end.unwrap_or(value.len())].trim_end();
            if is_pending && key == "delete" {
                for key in value.split(',') {
                    keys.remove(key.trim().trim_start_matches('!'));
                }
            } else {
                keys.insert(key, value);
            }
        }
        let count = |known: &[&str]| known.iter().filter(|key| keys.contains_key(*key)).count();
        let is_one = count(&KEYS) >= 2 && count(&OWN) >= 1;
        is_one.then_some(Self { keys, number })
    }

    /// The line that decides about the guest and has a value that Proxmox does not know.
    pub(super) fn unknown(&self) -> Option<String> {
        let kind = self.get("ostype").filter(|kind| !KINDS.contains(kind));
        let screen = Some(self.screen_kind()).filter(|screen| {
            let without = screen.trim_end_matches(|c: char| c.is_ascii_digit());
            !SCREENS.contains(&without)
        });
        let arch = self
            .get("arch")
            .filter(|arch| !["x86_64", "aarch64"].contains(arch));
        let line = |key: &str, value: &str| format!("{key}: {value}");
        let kind = kind.map(|kind| line("ostype", kind));
        let arch = arch.map(|arch| line("arch", arch));
        kind.or(arch)
            .or_else(|| screen.map(|screen| line("vga", screen)))
    }

    /// The guest's operating system: a name with a version of Windows says it, and else `ostype`.
    pub(super) fn os(&self) -> Option<GuestOs> {
        let name = self.get("name").unwrap_or_default().to_lowercase();
        let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
        let named = words.find_map(|word| {
            let version = word.strip_prefix("windows").or(word.strip_prefix("win"))?;
            match version {
                "11" | "2025" | "2k25" => Some(GuestOs::Windows11),
                "8" | "81" | "10" | "2012" | "2016" | "2019" | "2022" => Some(GuestOs::Windows),
                "xp" | "7" | "vista" | "2k" | "2k3" | "2003" | "2008" => Some(GuestOs::Windows7),
                _ => None,
            }
        });
        named.or(match self.get("ostype")? {
            "l24" | "l26" => Some(GuestOs::Linux),
            "solaris" => Some(GuestOs::Other),
            "win11" => Some(GuestOs::Windows11),
            "win8" | "win10" => Some(GuestOs::Windows),
            _ if self.windows() > 0 => Some(GuestOs::Windows7),
            _ => None,
        })
    }

    /// Whether it is a container's, which QEMU does not run.
    pub(super) fn is_of_container(&self) -> bool {
        self.keys.contains_key("rootfs") || self.keys.contains_key("hostname")
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.keys.get(key).copied()
    }

    fn is_on(&self, key: &str) -> bool {
        matches!(self.get(key), Some("1" | "on" | "yes" | "true"))
    }

    fn is_off(&self, key: &str) -> bool {
        matches!(self.get(key), Some("0" | "off" | "no" | "false"))
    }
}

/// A property of a value: `local:100/disk.qcow2,media=cdrom`.
fn property<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// The number in a command that prints a configuration: `root@pve:~# qm config 107`.
fn printed(line: &str) -> Option<u32> {
    let mut words = line.rsplit(' ');
    let number = words.next()?.parse().ok()?;
    (words.next() == Some("config") && words.next() == Some("qm")).then_some(number)
}

#[cfg(test)]
mod tests;

//! Guests of Proxmox VE: their configuration, and the commands that change it. Pure.
//!
//! A configuration is what `qm config` prints, or a file of `/etc/pve/qemu-server`. It is read as
//! Proxmox VE 9 starts it (`PVE::QemuServer` and `Cfg2Cmd` of qemu-server 9.2), as far as that has
//! to do with idle guests. The command line has `-id`, as Proxmox' own.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use brisk_vm::hardware::Place;
use brisk_vm::qemu::cmdline::CommandLine;

use brisk_lint::Finding;

/// Keys that many configurations have.
const KEYS: [&str; 19] = [
    "agent", "bios", "boot", "bootdisk", "cores", "cpu", "efidisk0", "machine", "memory", "meta",
    "name", "net0", "numa", "ostype", "scsihw", "smbios1", "sockets", "vga", "vmgenid",
];
/// Those that only Proxmox has.
const OWN: [&str; 6] = [
    "bootdisk", "efidisk0", "ostype", "scsihw", "smbios1", "vmgenid",
];
/// Version of a machine type from which Linux guests have no HPET.
const WITHOUT_HPET: (u32, u32) = (10, 1);
/// The controller of SATA disks.
const AHCI: &str = "ahci,id=ahci0,multifunction=on";

/// A configuration.
#[derive(Debug)]
pub(super) struct Config<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Config<'a> {
    /// The configuration that counts: what follows are snapshots and changes to come. None for
    /// other texts.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let mut keys = BTreeMap::new();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        for line in lines.filter(|line| !line.starts_with('#')) {
            if line.starts_with('[') {
                break;
            }
            let (key, value) = line.split_once(':')?;
            let is_part =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
            if key.is_empty() || !key.chars().all(is_part) {
                return None;
            }
            keys.insert(key, value.trim());
        }
        let count = |known: &[&str]| known.iter().filter(|key| keys.contains_key(*key)).count();
        let is_one = count(&KEYS) >= 2 && count(&OWN) >= 1;
        is_one.then_some(Self(keys))
    }

    /// Whether it is a container's, which QEMU does not run.
    pub(super) fn is_of_container(&self) -> bool {
        self.0.contains_key("rootfs") || self.0.contains_key("hostname")
    }

    /// The command line of QEMU, of the guest with a number if that is known.
    pub(super) fn words(&self, number: Option<u32>) -> Vec<OsString> {
        let mut words = Words::default();
        let arch = self.get("arch").unwrap_or("x86_64");
        let program = match arch {
            "x86_64" => "/usr/bin/kvm".to_owned(),
            arch => format!("/usr/bin/qemu-system-{arch}"),
        };
        words.add([program]);
        let number = number.map_or_else(|| "VMID".to_owned(), |number| number.to_string());
        words.add(["-id".to_owned(), number]);
        if let Some(name) = self.get("name") {
            words.add(["-name", name]);
        }
        if let Some(uuid) = self.get("smbios1").and_then(|text| property(text, "uuid")) {
            words.add(["-smbios", &format!("type=1,uuid={uuid}")]);
        }
        words.add(["-nodefaults"]);
        self.machine(&mut words);
        self.screen(&mut words);
        self.sound(&mut words);
        for (key, value) in &self.0 {
            self.device(key, value, &mut words);
        }
        if self.get("balloon") != Some("0") {
            words.add(["-device", "virtio-balloon-pci,id=balloon0"]);
        }
        if self.windows() >= 5 || self.is_on("localtime") {
            words.add(["-rtc", "driftfix=slew,base=localtime"]);
        }
        let more = self.get("args").and_then(shlex::split).unwrap_or_default();
        words.add(more);
        words.0
    }

    fn machine(&self, words: &mut Words) {
        let is_q35 = self.machine_type().contains("q35");
        let hpet = match self.has_hpet() {
            Some(true) => "",
            // Version 9 has none; qm showcmd says what an older one has.
            Some(false) | None => ",hpet=off",
        };
        words.add(["-machine", &format!("type={}{hpet}", self.machine_type())]);
        words.add(["-accel", if self.is_off("kvm") { "tcg" } else { "kvm" }]);
        let cpu = self.get("cpu").unwrap_or("kvm64");
        let model = cpu.split(',').next().unwrap_or_default();
        let mut cpu = model.strip_prefix("cputype=").unwrap_or(model).to_owned();
        for flag in self.enlightenments() {
            cpu += ",";
            cpu += flag;
        }
        words.add(["-cpu", &cpu]);
        // The controllers of a q35 are in a file of Proxmox's, with an EHCI.
        let is_x86 = self.get("arch").is_none_or(|arch| arch == "x86_64");
        match (is_x86, is_q35) {
            (true, false) => {
                words.add(["-device", "piix3-usb-uhci,id=uhci,bus=pci.0,addr=0x1.0x2"])
            }
            (true, true) => {
                words.add(["-device", "ich9-usb-ehci1,id=ehci,bus=pcie.0,addr=0x1d.0x7"])
            }
            (false, _) => words.add(["-device", "usb-ehci,id=ehci"]),
        }
        if self.has_tablet() {
            let bus = if is_x86 && !is_q35 { "uhci" } else { "ehci" };
            words.add([
                "-device",
                &format!("usb-tablet,id=tablet,bus={bus}.0,port=1"),
            ]);
        }
    }

    fn machine_type(&self) -> &str {
        let text = self.get("machine").unwrap_or_default();
        let kind = property(text, "type").or(text.split(',').next());
        match (
            kind.filter(|kind| !kind.is_empty() && !kind.contains('=')),
            self.get("arch"),
        ) {
            (Some(kind), _) => kind,
            (None, Some("aarch64")) => "virt",
            (None, _) => "pc",
        }
    }

    /// Version of a machine type that has one: `pc-q35-9.0+pve1`, `pc-i440fx-4.1.pxe`.
    fn version(&self) -> Option<(u32, u32)> {
        let kind = self.machine_type().split('+').next()?;
        let mut parts = kind.rsplit_once('-')?.1.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }

    /// Whether there is an HPET, by the rules of version 9; None if the machine type leaves it open.
    fn has_hpet(&self) -> Option<bool> {
        match self.get("ostype").unwrap_or("other") {
            _ if self.windows() >= 6 => Some(false),
            "l26" => self.version().map(|version| version < WITHOUT_HPET),
            _ => Some(true),
        }
    }

    /// What Proxmox calls the version: 5 for XP, 0 for no Windows.
    fn windows(&self) -> u32 {
        match self.get("ostype").unwrap_or_default() {
            "wxp" | "w2k" | "w2k3" => 5,
            "w2k8" | "wvista" => 6,
            other => other
                .strip_prefix("win")
                .and_then(|version| version.parse().ok())
                .unwrap_or(0),
        }
    }

    fn enlightenments(&self) -> &'static [&'static str] {
        match self.windows() {
            // Windows 7 cannot have them with UEFI.
            ..=5 => &[],
            6 | 7 if self.get("bios") == Some("ovmf") => &[],
            6 => &[
                "hv_spinlocks=0x1fff",
                "hv_vapic",
                "hv_time",
                "hv_reset",
                "hv_vpindex",
                "hv_runtime",
            ],
            _ => &[
                "hv_spinlocks=0x1fff",
                "hv_vapic",
                "hv_time",
                "hv_reset",
                "hv_vpindex",
                "hv_runtime",
                "hv_relaxed",
                "hv_synic",
                "hv_stimer",
                "hv_ipi",
            ],
        }
    }

    /// Kind of its screen: `qxl2`, `serial0`, `std`.
    fn vga(&self) -> &str {
        let text = self.get("vga").unwrap_or_default();
        let kind = property(text, "type").or(text.split(',').next());
        match kind.filter(|kind| !kind.is_empty() && !kind.contains('=')) {
            Some(kind) => kind,
            None if self.windows() > 7 || self.windows() == 0 => "std",
            None => "cirrus",
        }
    }

    fn has_tablet(&self) -> bool {
        let is_needed = !self.vga().starts_with("qxl") && !self.vga().starts_with("serial");
        !self.is_off("tablet") && (is_needed || self.is_on("tablet"))
    }

    fn screen(&self, words: &mut Words) {
        match self.vga() {
            "none" => return,
            kind if kind.starts_with("serial") => return,
            kind if kind.starts_with("qxl") => {
                words.add(["-device", "qxl-vga,id=vga"]);
                words.add(["-spice", "tls-port=61000,addr=127.0.0.1"]);
            }
            kind if kind.starts_with("virtio") => words.add(["-device", "virtio-vga,id=vga"]),
            "cirrus" => words.add(["-device", "cirrus-vga,id=vga"]),
            _ => words.add(["-device", "VGA,id=vga"]),
        }
        words.add(["-vnc", "unix:/run/qemu-server/vnc,password=on"]);
    }

    fn sound(&self, words: &mut Words) {
        let Some(text) = self.get("audio0") else {
            return;
        };
        let driver = property(text, "driver").unwrap_or("spice");
        words.add(["-audiodev", &format!("{driver},id=a0")]);
        match property(text, "device").unwrap_or("ich9-intel-hda") {
            "AC97" => words.add(["-device", "AC97,id=audiodev0,audiodev=a0"]),
            device => {
                words.add(["-device", &format!("{device},id=audiodev0")]);
                words.add(["-device", "hda-micro,bus=audiodev0.0,audiodev=a0"]);
            }
        }
    }

    fn device(&self, key: &str, value: &str, words: &mut Words) {
        let Some(at) = key.find(|c: char| c.is_ascii_digit()) else {
            return;
        };
        let (kind, number) = key.split_at(at);
        let is_cdrom = property(value, "media") == Some("cdrom");
        let is_empty = is_cdrom && value.starts_with("none");
        let drive = match is_empty {
            true => String::new(),
            false => format!(",drive={key}"),
        };
        match kind {
            "ide" | "sata" | "scsi" | "virtio" => {
                let model = match (kind, is_cdrom, self.get("scsihw")) {
                    ("virtio", ..) => "virtio-blk-pci",
                    ("scsi", true, _) => "scsi-cd",
                    ("scsi", false, _) => "scsi-hd",
                    (_, true, _) => "ide-cd",
                    (_, false, _) => "ide-hd",
                };
                let bus = match kind {
                    "sata" => ",bus=ahci0.0".to_owned(),
                    _ => String::new(),
                };
                let has_ahci = words.0.iter().any(|word| word == AHCI);
                if kind == "sata" && !has_ahci {
                    words.add(["-device", AHCI]);
                }
                if !is_empty {
                    words.add(["-drive", &format!("file=/dev/null,if=none,id={key}")]);
                }
                words.add(["-device", &format!("{model},id={key}{bus}{drive}")]);
            }
            "net" => {
                let model = value.split(['=', ',']).next().unwrap_or_default();
                let (model, vhost) = match model {
                    "virtio" if !self.is_off("kvm") => ("virtio-net-pci", ",vhost=on"),
                    "virtio" => ("virtio-net-pci", ""),
                    model => (model, ""),
                };
                words.add([
                    "-netdev",
                    &format!("type=tap,id={key},ifname=tap{number}{vhost}"),
                ]);
                words.add(["-device", &format!("{model},netdev={key},id={key}")]);
            }
            _ => {}
        }
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.0.get(key).copied()
    }

    fn is_on(&self, key: &str) -> bool {
        matches!(self.get(key), Some("1" | "on" | "yes" | "true"))
    }

    fn is_off(&self, key: &str) -> bool {
        matches!(self.get(key), Some("0" | "off" | "no" | "false"))
    }
}

/// Words of a command line.
#[derive(Debug, Default)]
struct Words(Vec<OsString>);

impl Words {
    fn add<T: AsRef<OsStr>>(&mut self, words: impl IntoIterator<Item = T>) {
        let words = words.into_iter().map(|word| word.as_ref().to_owned());
        self.0.extend(words);
    }
}

/// A property of a value: `local:100/disk.qcow2,media=cdrom`.
fn property<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// Number of a guest of Proxmox VE, by its command line; `VMID` if its configuration did not say it.
#[must_use]
pub fn id(words: &[OsString]) -> Option<String> {
    let line = CommandLine::with_program(words);
    let id = line.value("id")?.to_str()?;
    let is_id = id == "VMID" || id.parse::<u32>().is_ok();
    is_id.then(|| id.to_owned())
}

/// The command that changes what was found of a guest of Proxmox VE; None for other guests, and
/// where Proxmox has no setting for it.
#[must_use]
pub fn command(words: &[OsString], finding: &Finding) -> Option<String> {
    let id = id(words)?;
    let has = |start: &str| {
        let mut all = words.iter().filter_map(|word| word.to_str());
        all.any(|word| word.starts_with(start))
    };
    let change = match finding.rule {
        "usb-uhci" if has("usb-tablet,id=tablet") => "--tablet 0".to_owned(),
        // Other arguments stay.
        "hpet" => format!("--args \"$(qm config {id} | sed -n 's/^args: //p') -machine hpet=off\""),
        "display-client" if has("qxl-vga,id=vga") => "--vga std".to_owned(),
        "audio" => "--delete audio0".to_owned(),
        "cdrom" => {
            let drive = drive(finding, words)?;
            format!("--delete {drive}")
        }
        _ => return None,
    };
    Some(format!("qm set {id} {change}"))
}

/// The key of a drive that was found: `ide2` of `ide-cd,bus=ide.1,unit=0,id=ide2`.
fn drive<'a>(finding: &Finding, words: &'a [OsString]) -> Option<&'a str> {
    let Some(Place::Words(range)) = &finding.place else {
        return None;
    };
    let words = words.get(range.clone())?.iter();
    let mut ids = words.filter_map(|word| property(word.to_str()?, "id"));
    ids.find(|id| {
        let kind = id.trim_end_matches(|c: char| c.is_ascii_digit());
        ["ide", "sata", "scsi"].contains(&kind)
    })
}

#[cfg(test)]
mod tests;

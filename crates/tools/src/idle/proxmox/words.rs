//! The command line that Proxmox VE makes of a configuration.

use std::ffi::{OsStr, OsString};

use super::{Config, property};

/// Version of a machine type from which Linux guests have no HPET.
const WITHOUT_HPET: (u32, u32) = (10, 1);
/// The controller of SATA disks.
const AHCI: &str = "ahci,id=ahci0,multifunction=on";

/// Enlightenments of Windows 7 and later; Vista has the first six.
const ENLIGHTENMENTS: [&str; 10] = [
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
];

impl Config<'_> {
    /// The command line of QEMU, of the guest with a number if that is known.
    pub(in crate::idle) fn words(&self, number: Option<u32>) -> Vec<OsString> {
        let mut words = Words::default();
        let arch = self.get("arch").unwrap_or("x86_64");
        let program = match arch {
            "x86_64" => "/usr/bin/kvm".to_owned(),
            arch => format!("/usr/bin/qemu-system-{arch}"),
        };
        words.add([program]);
        let number = number.or(self.number);
        let number = number.map_or_else(|| "VMID".to_owned(), |number| number.to_string());
        words.add(["-id".to_owned(), number]);
        // QEMU 11 names threads without being asked to.
        let name = self.get("name").unwrap_or("vm");
        words.add(["-name", &format!("{name},debug-threads=on")]);
        if let Some(uuid) = self.get("smbios1").and_then(|text| property(text, "uuid")) {
            words.add(["-smbios", &format!("type=1,uuid={uuid}")]);
        }
        words.add(["-nodefaults"]);
        self.machine(&mut words);
        self.screen(&mut words);
        self.sound(&mut words);
        for (key, value) in &self.keys {
            self.device(key, value, &mut words);
        }
        if self.get("balloon") != Some("0") {
            words.add(["-device", "virtio-balloon-pci,id=balloon0"]);
        }
        self.clock(&mut words);
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
        let kind = self.get("machine").and_then(kind);
        let kind = kind.filter(|kind| !kind.is_empty() && !kind.contains('='));
        match (kind, self.get("arch")) {
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
    pub(super) fn windows(&self) -> u32 {
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
            6 => &ENLIGHTENMENTS[..6],
            _ => &ENLIGHTENMENTS,
        }
    }

    fn clock(&self, words: &mut Words) {
        let is_windows = self.windows() >= 5;
        let by_default = |key: &str, usual: bool| self.is_on(key) || usual && !self.is_off(key);
        let mut parts = Vec::new();
        if by_default("tdf", is_windows && !self.is_off("acpi")) {
            parts.push("driftfix=slew".to_owned());
        }
        match self.get("startdate").filter(|date| *date != "now") {
            Some(date) => parts.push(format!("base={date}")),
            None if by_default("localtime", is_windows) => parts.push("base=localtime".to_owned()),
            None => {}
        }
        if !parts.is_empty() {
            words.add(["-rtc", &parts.join(",")]);
        }
    }

    /// Kind of its screen: `qxl2`, `serial0`, `std`.
    pub(super) fn screen_kind(&self) -> &str {
        let Some(text) = self.get("vga") else {
            let mut devices = self
                .keys
                .iter()
                .filter(|(key, _)| key.starts_with("hostpci"));
            let is_passed = devices.any(|(_, value)| property(value, "x-vga") == Some("1"));
            return match self.get("arch") {
                _ if is_passed => "none",
                Some("aarch64") => "virtio",
                _ if self.windows() == 5 => "cirrus",
                _ => "std",
            };
        };
        kind(text).unwrap_or("std")
    }

    fn has_tablet(&self) -> bool {
        let kind = self.screen_kind();
        let is_needed = !kind.starts_with("qxl") && !kind.starts_with("serial");
        !self.is_off("tablet") && (is_needed || self.is_on("tablet"))
    }

    fn screen(&self, words: &mut Words) {
        let kind = self.screen_kind();
        let device = match kind {
            "none" => return,
            kind if kind.starts_with("serial") => return,
            kind if kind.starts_with("qxl") => "qxl-vga,id=vga",
            "virtio-gl" => "virtio-vga-gl,id=vga",
            "virtio" => "virtio-vga,id=vga",
            "cirrus" => "cirrus-vga,id=vga",
            "vmware" => "vmware-svga,id=vga",
            _ => "VGA,id=vga",
        };
        words.add(["-device", device]);
        words.add(["-vnc", "unix:/run/qemu-server/vnc,password=on"]);
        if kind.starts_with("qxl") || kind.starts_with("virtio") {
            words.add(["-spice", "tls-port=61000,addr=127.0.0.1"]);
        }
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
        // Its content is made again from the configuration at each start.
        let file = match value.contains("cloudinit") {
            true => "/dev/null/cloudinit",
            false => "/dev/null",
        };
        let drive = match is_empty {
            true => String::new(),
            false => format!(",drive={key}"),
        };
        match kind {
            "ide" | "sata" | "scsi" | "virtio" => {
                let model = match (kind, is_cdrom) {
                    ("virtio", _) => "virtio-blk-pci",
                    ("scsi", true) => "scsi-cd",
                    ("scsi", false) => "scsi-hd",
                    (_, true) => "ide-cd",
                    (_, false) => "ide-hd",
                };
                let bus = match kind {
                    "sata" => ",bus=ahci0.0",
                    _ => "",
                };
                let has_ahci = words.0.iter().any(|word| word == AHCI);
                if kind == "sata" && !has_ahci {
                    words.add(["-device", AHCI]);
                }
                if !is_empty {
                    words.add(["-drive", &format!("file={file},if=none,id={key}")]);
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
            "usb" if value.starts_with("spice") => {
                let channel = format!("spicevmc,id=usbredirchardev{number},name=usbredir");
                words.add(["-chardev", &channel]);
            }
            _ => {}
        }
    }
}

/// The kind that a value has first, without a name or with one: `qxl,memory=32`, `type=pc,viommu=intel`.
fn kind(text: &str) -> Option<&str> {
    let first = text.split(',').next().filter(|first| !first.contains('='));
    property(text, "type").or(first)
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

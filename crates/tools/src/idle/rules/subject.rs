//! A guest as the rules see it.

use std::collections::BTreeSet;

use brisk_vm::hardware::{Form, GuestHardware, parameters};

use crate::idle::measure::Signature;

/// Parts of names that no Windows has.
const OTHERS: [&str; 20] = [
    "alma",
    "alpine",
    "android",
    "arch",
    "bsd",
    "centos",
    "debian",
    "fedora",
    "gentoo",
    "haos",
    "hassos",
    "homeassistant",
    "linux",
    "mac",
    "nixos",
    "osx",
    "rhel",
    "rocky",
    "suse",
    "ubuntu",
];

/// Operating system of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestOs {
    /// Windows 11 or Windows Server 2025, or later.
    Windows11,
    /// Windows 8, Windows Server 2012, or later, or one of which that is not known.
    Windows,
    /// Windows 7, Windows Server 2008 R2, or earlier.
    Windows7,
    /// Linux.
    Linux,
    /// Something else.
    Other,
    /// Nothing says what it is.
    Unknown,
}

/// Facts about the host. None where they are not known, as of a file that comes from elsewhere.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Host {
    /// Whether its CPUs are AMD's.
    pub is_amd: Option<bool>,
    /// Whether interrupts of guests are delivered without exits (APICv, AVIC).
    pub has_apicv: Option<bool>,
    /// Enlightenments that its QEMU and kernel know, without `hv-`.
    pub hyperv: Option<BTreeSet<String>>,
    /// Major and minor version of its QEMU.
    pub qemu: Option<(u32, u32)>,
    /// Longest time, in nanoseconds, for which KVM polls after a vCPU halts.
    pub halt_poll_ns: Option<u64>,
    /// Numbers of its processors.
    pub cpus: Option<Vec<usize>>,
    /// Bytes of memory in huge pages of the default size that are set aside and free.
    pub free_huge_pages: Option<u64>,
    /// CPU time of the thread that merges equal pages (ksmd), in percent of a CPU.
    pub ksmd: Option<f64>,
    /// CPU time of the thread that makes huge pages (khugepaged), in percent of a CPU.
    pub khugepaged: Option<f64>,
}

/// A guest, its host, and what was measured.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The guest's hardware.
    pub hardware: GuestHardware,
    /// Its operating system.
    pub os: GuestOs,
    /// The host.
    pub host: Host,
    /// What was measured of it, if it runs.
    pub live: Option<Signature>,
    /// Whether it is a VM of brisk's whose definition lets it have no huge pages.
    pub has_small_pages: bool,
}

impl GuestOs {
    /// From what describes a guest: its libosinfo identifier, then what it has that only Windows
    /// uses, then its name.
    #[must_use]
    pub fn of(guest: &GuestHardware) -> Self {
        if let Some(id) = guest.os.as_deref() {
            return Self::of_identifier(id);
        }
        if guest.boot.kernel.is_some() {
            return Self::Linux;
        }
        // A vendor alone is a trick against drivers that refuse virtual machines, of Linux, too.
        let uses = |(name, value): (&String, &String)| name != "vendor-id" && value != "off";
        let hyperv = guest.cpu.hyperv.iter().any(uses);
        let name = guest.name.as_deref().unwrap_or_default().to_lowercase();
        let mut words = name.split(|c: char| !c.is_alphanumeric());
        let is_named = |word: &str| {
            let rest = word.strip_prefix("windows").or(word.strip_prefix("win"));
            rest.is_some_and(|rest| {
                rest.chars()
                    .all(|c| c.is_ascii_digit() || "kxp".contains(c))
            })
        };
        match () {
            () if name.contains("win11") || name.contains("win2k25") => Self::Windows11,
            () if hyperv || words.any(is_named) => Self::Windows,
            // Some set it for others, too.
            () if OTHERS.iter().any(|other| name.contains(other)) => Self::Unknown,
            () if guest.timers.rtc_base.as_deref() == Some("localtime") => Self::Windows,
            () => Self::Unknown,
        }
    }

    fn of_identifier(id: &str) -> Self {
        let Some((_, version)) = id.split_once("microsoft.com/") else {
            let others = ["bsd", "macosx", "solaris", "haiku", "apple", "dos"];
            return if others.iter().any(|name| id.contains(name)) {
                Self::Other
            } else {
                Self::Linux
            };
        };
        if version.starts_with("win/11") || version.starts_with("win/2k25") {
            Self::Windows11
        } else {
            Self::Windows
        }
    }

    /// Whether it is a Windows.
    #[must_use]
    pub const fn is_windows(self) -> bool {
        matches!(self, Self::Windows | Self::Windows7 | Self::Windows11)
    }
}

impl Subject {
    /// A guest of which nothing else is known.
    #[must_use]
    pub fn of(hardware: GuestHardware) -> Self {
        Self {
            os: GuestOs::of(&hardware),
            hardware,
            host: Host::default(),
            live: None,
            has_small_pages: false,
        }
    }

    /// Whether QEMU runs it: a libvirt domain may be of another hypervisor.
    #[must_use]
    pub fn is_qemu(&self) -> bool {
        let mut accelerators = self.hardware.accelerators.iter();
        accelerators.any(|name| matches!(&**name, "kvm" | "tcg" | "hvf"))
    }

    /// Whether it is a Windows known to be older than Windows 8 and Server 2012.
    pub(super) fn is_before_windows_8(&self) -> bool {
        const IDS: [&str; 12] = [
            "2k3", "2k8", "2k8r2", "xp", "vista", "7", "2k", "me", "98", "95", "nt4.0", "nt3.51",
        ];
        const NAMES: [&str; 9] = [
            "xp", "winxp", "vista", "win7", "windows7", "win2k", "win2k3", "win2k8", "win98",
        ];
        if self.os == GuestOs::Windows7 {
            return true;
        }
        if let Some(id) = self.hardware.os.as_deref() {
            let version = id.split_once("microsoft.com/win/");
            return version.is_some_and(|(_, version)| IDS.contains(&version));
        }
        let name = self.hardware.name.as_deref().unwrap_or_default();
        let name = name.to_lowercase();
        let mut words = name.split(|c: char| !c.is_alphanumeric());
        self.os.is_windows() && words.any(|word| NAMES.contains(&word))
    }

    /// Whether KVM is the first accelerator that is tried.
    pub(crate) fn has_kvm(&self) -> bool {
        let first = self.hardware.accelerators.first();
        first.is_some_and(|name| name == "kvm")
    }

    /// Whether an enlightenment is on.
    pub(super) fn is_enlightened(&self, name: &str) -> bool {
        let cpu = &self.hardware.cpu;
        if self.is_hidden() {
            return false;
        }
        let own = cpu.is_on(&format!("hv-{name}"));
        own.unwrap_or(cpu.is_on("hv-passthrough") == Some(true))
    }

    /// Whether the CPU says that there is no hypervisor: Windows uses no enlightenment then.
    pub(super) fn is_hidden(&self) -> bool {
        self.hardware.cpu.is_on("hypervisor") == Some(false)
    }

    /// Whether the guest has ACPI's tables. libvirt has QEMU leave them out unless the XML asks for
    /// them; a Q35 of QEMU 10.0 has them also with `acpi=off`.
    pub(super) fn has_acpi(&self) -> bool {
        let machine = &self.hardware.machine;
        let by_default = self.hardware.form != Form::Xml;
        machine.is_q35() || machine.is_on("acpi").unwrap_or(by_default)
    }

    /// Whether the guest has no local APIC, or does not use it.
    pub(super) fn lacks_lapic(&self) -> bool {
        let off = self.hardware.globals.iter().any(|global| {
            global.driver.ends_with("-cpu") && global.property == "apic" && global.value == "off"
        });
        off || self.has_parameter("nolapic") || self.hardware.cpu.is_on("apic") == Some(false)
    }

    /// Whether the kernel's command line has a parameter.
    pub(super) fn has_parameter(&self, word: &str) -> bool {
        let append = &self.hardware.boot.append;
        let mut places = parameters::places(append).into_iter();
        places.any(|place| &append[place] == word)
    }
}

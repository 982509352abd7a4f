//! The hardware of a guest as one value.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::cpu::{Cpu, CpuMode};
use super::device::{Backend, Class, Device};
use super::memory::Memory;
use super::parameters;
use super::place::{Form, Part, Place};
use super::timers::Timers;
use crate::qemu::cmdline::{Global, boolean};

/// The machine type and its options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Machine type, such as `pc-q35-10.0`; empty if libvirt chooses it.
    pub kind: String,
    /// Architecture, such as `x86_64`; empty if it is the host's.
    pub arch: String,
    /// Options in QEMU's spelling, such as `hpet` and `smp.cpus`.
    pub options: BTreeMap<String, String>,
}

/// What the guest starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Boot {
    /// File of the firmware, or `efi` where libvirt chooses one. None for QEMU's default.
    pub firmware: Option<String>,
    /// Kernel that is given from outside.
    pub kernel: Option<String>,
    /// Its initramfs.
    pub initrd: Option<String>,
    /// Its command line.
    pub append: String,
    /// Whether the firmware's boot menu waits for a key.
    pub menu: bool,
}

/// The hardware of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestHardware {
    /// What it was read from.
    pub form: Form,
    /// Name of the guest.
    pub name: Option<String>,
    /// Operating system by its identifier in libosinfo, such as `http://microsoft.com/win/11`.
    pub os: Option<String>,
    /// Program of QEMU.
    pub emulator: Option<PathBuf>,
    /// Machine type.
    pub machine: Machine,
    /// Accelerators in the order in which they are tried.
    pub accelerators: Vec<String>,
    /// Whether KVM emulates Xen for it (`-accel kvm,xen-version=…`).
    pub emulates_xen: bool,
    /// CPU.
    pub cpu: Cpu,
    /// Timers and clocks.
    pub timers: Timers,
    /// Memory.
    pub memory: Memory,
    /// What it starts.
    pub boot: Boot,
    /// What the guest sees, in order.
    pub devices: Vec<Device>,
    /// Back ends of devices: block nodes, network back ends, character devices, objects.
    pub backends: Vec<Backend>,
    /// Properties that every device of a driver gets.
    pub globals: Vec<Global>,
    /// Whether QEMU adds devices that nobody asked for.
    pub adds_defaults: bool,
    /// Whether QEMU names its threads (`-name debug-threads=on`); libvirt has it always do so.
    pub names_threads: bool,
    /// What could not be read: why, and where.
    pub unread: Vec<(String, Place)>,
    pub(super) places: BTreeMap<Part, Place>,
}

impl GuestHardware {
    /// A guest of which nothing is known yet.
    pub(super) fn empty(form: Form) -> Self {
        Self {
            form,
            name: None,
            os: None,
            emulator: None,
            machine: Machine::default(),
            accelerators: Vec::new(),
            emulates_xen: false,
            cpu: Cpu::default(),
            timers: Timers::default(),
            memory: Memory::default(),
            boot: Boot::default(),
            devices: Vec::new(),
            backends: Vec::new(),
            globals: Vec::new(),
            adds_defaults: false,
            names_threads: form == Form::Xml,
            unread: Vec::new(),
            places: BTreeMap::new(),
        }
    }

    /// Where a part is written.
    #[must_use]
    pub fn place(&self, part: Part) -> Place {
        self.places.get(&part).cloned().unwrap_or_default()
    }

    /// The devices of a class.
    pub fn devices(&self, class: Class) -> impl Iterator<Item = &Device> {
        self.devices
            .iter()
            .filter(move |device| device.class == class)
    }

    /// Whether there is a device of a class.
    #[must_use]
    pub fn has(&self, class: Class) -> bool {
        self.devices(class).next().is_some()
    }

    /// Whether KVM is tried.
    #[must_use]
    pub fn asks_for_kvm(&self) -> bool {
        self.accelerators.iter().any(|name| name == "kvm")
    }

    /// Whether its CPU is the host's, or the model that is most like it.
    #[must_use]
    pub fn has_cpu_of_host(&self) -> bool {
        match (self.cpu.mode, self.form) {
            (CpuMode::Host | CpuMode::HostModel | CpuMode::Maximum, _) => true,
            // libvirt writes host-model as the model that is most like the host's.
            (CpuMode::Named, Form::Arguments | Form::Process) => !self.cpu.is_generic(),
            (CpuMode::Named | CpuMode::Default, _) => false,
        }
    }

    /// Whether the kernel's command line has a parameter that begins so.
    #[must_use]
    pub fn has_parameter(&self, start: &str) -> bool {
        let append = &self.boot.append;
        let mut places = parameters::places(append).into_iter();
        places.any(|place| append[place].starts_with(start))
    }

    /// Whether there is a port for the guest agent.
    #[must_use]
    pub fn has_agent(&self) -> bool {
        self.devices(Class::Channel)
            .any(|channel| channel.name.as_deref() == Some("org.qemu.guest_agent.0"))
    }
}

impl Machine {
    /// Whether it is a microvm.
    #[must_use]
    pub fn is_microvm(&self) -> bool {
        self.kind.starts_with("microvm")
    }

    /// Whether it is an x86 machine.
    #[must_use]
    pub fn is_x86(&self) -> bool {
        matches!(
            &*self.arch,
            "" | "x86_64" | "i386" | "i486" | "i586" | "i686"
        )
    }

    /// Whether it is one of QEMU's PCs (i440FX or Q35), of any version; also if libvirt chooses it.
    #[must_use]
    pub fn is_pc(&self) -> bool {
        let pc = ["pc", "pc-i440fx-", "q35", "pc-q35-", "pc-0.", "pc-1."];
        let is_one = |name: &&str| {
            self.kind == **name || self.kind.starts_with(*name) && name.ends_with(['-', '.'])
        };
        self.is_x86() && (self.kind.is_empty() || pc.iter().any(is_one))
    }

    /// Whether it is a Q35, of any version.
    #[must_use]
    pub fn is_q35(&self) -> bool {
        self.kind == "q35" || self.kind.starts_with("pc-q35-")
    }

    /// Whether an option is on; None if it is left to a default.
    #[must_use]
    pub fn is_on(&self, option: &str) -> Option<bool> {
        let value = self.options.get(option)?;
        boolean(value)
    }

    /// Whether there is a controller for a PS/2 keyboard and mouse. A microvm has none.
    #[must_use]
    pub fn has_ps2(&self) -> bool {
        !self.is_microvm() && self.is_on("i8042") != Some(false)
    }
}

impl Boot {
    /// Whether the firmware is UEFI, as far as its name tells.
    #[must_use]
    pub fn is_efi(&self) -> bool {
        self.firmware.as_deref().is_some_and(|firmware| {
            let name = firmware.to_lowercase();
            ["efi", "ovmf", "edk2"]
                .iter()
                .any(|part| name.contains(part))
        })
    }
}

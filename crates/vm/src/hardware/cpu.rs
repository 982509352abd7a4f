//! The CPU of a guest.

use std::collections::BTreeMap;

use crate::qemu::cmdline::Fields;

/// How the CPU model was chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CpuMode {
    /// QEMU's default, or libvirt's.
    #[default]
    Default,
    /// A model by its name. On a command line it may be what libvirt made of `host-model`.
    Named,
    /// The host's CPU (`-cpu host`, `host-passthrough`).
    Host,
    /// The model that is most like the host's (`host-model`); of libvirt only.
    HostModel,
    /// Whatever the accelerator can do (`max`, `maximum`).
    Maximum,
}

impl CpuMode {
    /// libvirt's name. None for a model, and for the default.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Default | Self::Named => None,
            Self::Host => Some("host-passthrough"),
            Self::HostModel => Some("host-model"),
            Self::Maximum => Some("maximum"),
        }
    }
}

/// How many CPUs there are, and how they are arranged. None where it is left to QEMU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Topology {
    /// CPUs that are there at the start.
    pub cpus: Option<u32>,
    /// CPUs that can be there.
    pub max: Option<u32>,
    /// Sockets.
    pub sockets: Option<u32>,
    /// Dies in a socket.
    pub dies: Option<u32>,
    /// Cores in a die.
    pub cores: Option<u32>,
    /// Threads in a core.
    pub threads: Option<u32>,
}

/// The CPU of a guest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpu {
    /// How the model was chosen.
    pub mode: CpuMode,
    /// Its name.
    pub model: Option<String>,
    /// Features in QEMU's spelling, such as `x2apic` and `kvm-poll-control`, with their values.
    pub features: BTreeMap<String, String>,
    /// Enlightenments for Hyper-V guests without `hv-`: `stimer` is `on`, `spinlocks` a number.
    pub hyperv: BTreeMap<String, String>,
    /// Number and arrangement.
    pub topology: Topology,
    /// Whether vCPUs are bound to CPUs of the host; known from XML only.
    pub is_pinned: bool,
    /// Whether the guest may put host CPUs to sleep (`-overcommit cpu-pm`).
    pub power_management: Option<bool>,
}

/// A number of retries as libvirt writes it, whose command lines have it in hexadecimal.
fn decimal(value: &str) -> String {
    let number = value.strip_prefix("0x");
    let number = number.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.map_or_else(|| value.to_owned(), |number| number.to_string())
}

/// Models that say nothing of the host.
const GENERIC: &[&str] = &["qemu64", "qemu32", "kvm64", "kvm32", "base", "486"];

impl Cpu {
    /// From the pairs of `-cpu`.
    pub(super) fn of_fields(fields: &Fields) -> Self {
        let mut cpu = Self::default();
        for field in fields.iter() {
            match (&*field.key, field.key.strip_prefix("hv-")) {
                ("model", _) => cpu.model = Some(field.value.clone()),
                (_, Some(name)) => {
                    // An alias (`x86_cpu_initfn` of QEMU's target/i386/cpu.c).
                    let name = if name == "apicv" { "avic" } else { name };
                    cpu.hyperv.insert(name.to_owned(), decimal(&field.value));
                }
                (name, None) => {
                    cpu.features.insert(name.to_owned(), field.value.clone());
                }
            }
        }
        cpu.mode = match cpu.model.as_deref() {
            None => CpuMode::Default,
            Some("host") => CpuMode::Host,
            Some("max") => CpuMode::Maximum,
            Some(_) => CpuMode::Named,
        };
        cpu
    }

    /// Whether a feature or an enlightenment is on; None if it is left to the model.
    #[must_use]
    pub fn is_on(&self, feature: &str) -> Option<bool> {
        let value = match feature.strip_prefix("hv-") {
            Some(name) => self.hyperv.get(name),
            None => self.features.get(feature),
        }?;
        // Some have numbers; none is 0 when it is on.
        Some(crate::qemu::cmdline::boolean(value).unwrap_or(value != "0"))
    }

    /// Whether the model is one that gives a guest little of what hosts have.
    #[must_use]
    pub fn is_generic(&self) -> bool {
        match (&self.mode, &self.model) {
            (CpuMode::Default, None) => true,
            (_, Some(model)) => GENERIC.contains(&&**model),
            _ => false,
        }
    }
}

//! The plan of a VM: everything that its command line is written from.

use std::path::PathBuf;

use super::machine::{
    Accelerator, Channels, Disk, Filesystem, Firmware, Machine, Network, Parameter, Ram, State,
};

/// Processors of a guest.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Processors {
    /// CPU model with flags.
    #[serde(rename = "cpu")]
    pub model: String,
    /// How many the kernel knows of.
    #[serde(rename = "cpus")]
    pub count: u32,
    /// What starts the kernel, and one more CPU of which it does not know, to have its code
    /// translated ahead; see [`crate::pretranslation`].
    #[serde(default, alias = "starter")]
    pub pretranslator: Option<PathBuf>,
    /// Whether that CPU is to work, if it waits in memory that was kept.
    #[serde(default, alias = "ahead")]
    pub pretranslates: bool,
    /// Whether QEMU traces the TBs that it translates, for a list of TB pretranslation.
    #[serde(default)]
    pub traced: bool,
    /// Whether the guest's time is its count of instructions, a nanosecond each, and everything
    /// random is pinned.
    pub instructions: bool,
}

/// Memory of a guest.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct GuestMemory {
    /// How much, MiB.
    #[serde(rename = "memory_mib")]
    pub mib: u64,
    /// Where it lies.
    pub ram: Ram,
    /// Whether it comes when the guest runs already.
    #[serde(default, alias = "late_memory")]
    pub postcopy: bool,
    /// Whether the guest says which of it is free, so that the host has that meanwhile.
    #[serde(default, rename = "reports_free_memory")]
    pub reports_free: bool,
    /// Whether QEMU locks its memory and the guest's (mlockall(2)). It needs a limit for that
    /// (`RLIMIT_MEMLOCK`), which brisk raises where it may.
    #[serde(default, rename = "lock_memory")]
    pub locked: bool,
}

/// What a guest boots.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BootPayload {
    /// A vmlinux with PVH entry, or a bzImage.
    pub kernel: PathBuf,
    /// initramfs.
    pub initramfs: PathBuf,
    /// Kernel command line.
    pub parameters: Vec<Parameter>,
}

/// Devices of a guest, besides its channels.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Devices {
    /// Disks, `/dev/vda` first.
    pub disks: Vec<Disk>,
    /// Directories.
    pub filesystems: Vec<Filesystem>,
    /// Network card.
    pub network: Network,
    /// Its hardware address; none: [`Network::ADDRESS`].
    #[serde(default)]
    pub mac: Option<[u8; 6]>,
    /// Notifies the guest's kernel, through ACPI, that it has been cloned when it is another one than
    /// before; none: no device for that.
    #[serde(default)]
    pub generation: Option<[u8; 16]>,
}

/// Ports through which a boot is watched.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Debugging {
    /// Whether SeaBIOS's debug console is read.
    pub firmware_log: bool,
    /// Whether there is a port for a debugger.
    #[serde(default)]
    pub debugger: bool,
}

/// A VM. Runtime records and suspend images have it as one flat object, as it was before it had
/// parts.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct VmConfig {
    /// The QEMU binary.
    pub program: PathBuf,
    /// Its version, major and minor.
    pub version: (u32, u32),
    /// Machine type.
    pub machine: Machine,
    /// The versioned machine type that [`Self::machine`] stood for when the guest booted; none: the
    /// type has no versions, or the guest ends with this QEMU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_version: Option<String>,
    /// Firmware.
    pub firmware: Firmware,
    /// Accelerator.
    pub accelerator: Accelerator,
    /// Processors.
    #[serde(flatten)]
    pub processors: Processors,
    /// Memory.
    #[serde(flatten)]
    pub memory: GuestMemory,
    /// Kernel, initramfs and parameters.
    #[serde(flatten)]
    pub boot: BootPayload,
    /// The state of the devices that belongs to memory which was kept: the guest goes on instead
    /// of booting.
    pub state: Option<State>,
    /// Disks, directories, network.
    #[serde(flatten)]
    pub devices: Devices,
    /// Other end of console and control channels.
    pub channels: Channels,
    /// Observation of the boot.
    #[serde(flatten)]
    pub debugging: Debugging,
    /// Whether QEMU's seccomp filters are used.
    pub sandbox: bool,
    /// Whether the processors wait for a command to run.
    pub stopped: bool,
    /// Whether a reset by a panicking kernel ends QEMU.
    pub exit_on_reset: bool,
    /// The user's own words for QEMU.
    pub extra: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qemu::machine::DiskFormat;

    /// A VM as brisk wrote it when the structure had no parts, and other names for some fields.
    const OLD: &str = r#"{
        "program": "/usr/bin/qemu-system-x86_64", "version": [10, 0],
        "machine": {"Pc": {"acpi": false}}, "firmware": {"Qboot": "/rom"}, "accelerator": "Tcg",
        "cpu": "max,-apic", "cpus": 2, "starter": "/cache/ahead", "ahead": true, "traced": true,
        "memory_mib": 512, "ram": {"Kept": "/dev/shm/ram"},
        "state": {"path": "/state", "offset": 4096}, "late_memory": true,
        "kernel": "/kernel", "initramfs": "/initramfs",
        "parameters": [{"text": "quiet", "why": "no words"}],
        "disks": [{"path": "/disk", "format": "Qcow2", "writable": true, "sector_size": 512}],
        "filesystems": [{"Virtiofs": {"tag": "root"}}],
        "network": "User", "mac": [82, 84, 0, 1, 2, 3],
        "generation": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        "reports_free_memory": true, "lock_memory": true,
        "channels": {"Listening": {"ports": 4}}, "firmware_log": true, "instructions": true,
        "sandbox": true, "stopped": true, "debugger": true, "exit_on_reset": true,
        "extra": ["-S"]
    }"#;

    fn old() -> VmConfig {
        VmConfig {
            program: "/usr/bin/qemu-system-x86_64".into(),
            version: (10, 0),
            machine: Machine::Pc { acpi: false },
            machine_version: None,
            firmware: Firmware::Qboot("/rom".into()),
            accelerator: Accelerator::Tcg,
            processors: Processors {
                model: "max,-apic".into(),
                count: 2,
                pretranslator: Some("/cache/ahead".into()),
                pretranslates: true,
                traced: true,
                instructions: true,
            },
            memory: GuestMemory {
                mib: 512,
                ram: Ram::File("/dev/shm/ram".into()),
                postcopy: true,
                reports_free: true,
                locked: true,
            },
            boot: BootPayload {
                kernel: "/kernel".into(),
                initramfs: "/initramfs".into(),
                parameters: vec![Parameter::new("quiet", "no words")],
            },
            state: Some(State {
                path: "/state".into(),
                offset: 4096,
            }),
            devices: Devices {
                disks: vec![Disk {
                    path: "/disk".into(),
                    format: DiskFormat::Qcow2,
                    backing: Vec::new(),
                    device: false,
                    writable: true,
                    sector_size: 512,
                }],
                filesystems: vec![Filesystem::Virtiofs { tag: "root".into() }],
                network: Network::User,
                mac: Some([0x52, 0x54, 0, 1, 2, 3]),
                generation: Some([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
            },
            channels: Channels::Listening { ports: 4 },
            debugging: Debugging {
                firmware_log: true,
                debugger: true,
            },
            sandbox: true,
            stopped: true,
            exit_on_reset: true,
            extra: vec!["-S".into()],
        }
    }

    #[test]
    fn a_machine_of_an_older_brisk_is_read() {
        assert_eq!(serde_json::from_str::<VmConfig>(OLD).unwrap(), old());
    }

    /// An older brisk reads what this one writes.
    #[test]
    fn a_machine_is_written_without_parts() {
        let written = serde_json::to_value(old()).unwrap();
        let mut expected: serde_json::Value = serde_json::from_str(OLD).unwrap();
        let fields = expected.as_object_mut().unwrap();
        for (before, now) in [
            ("starter", "pretranslator"),
            ("ahead", "pretranslates"),
            ("late_memory", "postcopy"),
        ] {
            let value = fields.remove(before).unwrap();
            fields.insert(now.into(), value);
        }
        expected["ram"] = serde_json::json!({ "File": "/dev/shm/ram" });
        expected["disks"][0]["backing"] = serde_json::json!([]);
        expected["disks"][0]["device"] = false.into();
        assert_eq!(written, expected);
    }

    #[test]
    fn what_an_older_brisk_did_not_know_has_its_default() {
        let mut text: serde_json::Value = serde_json::from_str(OLD).unwrap();
        let fields = text.as_object_mut().unwrap();
        for name in [
            "starter",
            "ahead",
            "traced",
            "late_memory",
            "mac",
            "generation",
            "reports_free_memory",
            "lock_memory",
            "debugger",
        ] {
            fields.remove(name).unwrap();
        }
        let read: VmConfig = serde_json::from_value(text).unwrap();
        assert_eq!(read.processors.pretranslator, None);
        assert!(!read.processors.pretranslates && !read.processors.traced);
        assert!(!read.memory.postcopy && !read.memory.reports_free && !read.memory.locked);
        assert_eq!((read.devices.mac, read.devices.generation), (None, None));
        assert!(!read.debugging.debugger);
    }
}

//! Parts of a VM: machine type, firmware, devices.

use std::path::PathBuf;

use crate::virtiofs::Access;

/// Accelerator, which executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Accelerator {
    /// The processor, through `/dev/kvm`.
    Kvm,
    /// QEMU's Tiny Code Generator.
    Tcg,
}

impl Accelerator {
    /// Name on QEMU's command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

/// Machine type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Machine {
    /// No chipset to emulate and few devices; PCI Express only if asked for.
    Microvm {
        /// With a PCI Express host bridge, for kernels with virtio-pci built in.
        pcie: bool,
    },
    /// PCI Express chipset.
    Q35,
    /// The i440FX chipset of 1996.
    Pc {
        /// With ACPI. Without it a kernel finds one processor, uses the interval timer and the
        /// interrupt controller of 1981, and has no local APIC to calibrate.
        acpi: bool,
    },
}

/// Attachment of virtio devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Transport {
    /// On the PCI bus.
    Pci,
    /// Memory-mapped.
    Mmio,
}

impl Machine {
    /// Name on QEMU's command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Microvm { .. } => "microvm",
            Self::Q35 => "q35",
            Self::Pc { .. } => "pc",
        }
    }

    /// Attachment of the machine type's virtio devices.
    #[must_use]
    pub const fn transport(self) -> Transport {
        match self {
            Self::Microvm { pcie: false } => Transport::Mmio,
            _ => Transport::Pci,
        }
    }
}

impl Transport {
    /// Ending of the names of virtio devices.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Pci => "pci",
            Self::Mmio => "device",
        }
    }
}

/// Firmware, which starts the kernel.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Firmware {
    /// qboot: sets up tables and jumps to the kernel.
    Qboot(PathBuf),
    /// The machine type's own, SeaBIOS.
    Default,
}

/// Guest memory.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Ram {
    /// Anonymous memory of QEMU; the cheapest.
    Private,
    /// A shared file, the descriptor [`Fds::RAM`]: virtiofs can map it, and migration
    /// with `x-ignore-shared` can leave it out.
    Shared,
    /// This shared file, of the right size; if it has a name, it is kept when QEMU ends.
    #[serde(alias = "Kept")]
    File(PathBuf),
    /// A template, in pages that are shared until one of the guests writes.
    Template(PathBuf),
    /// A template, copied to a file as of [`Self::Shared`].
    Copy(PathBuf),
}

/// State of devices, as QEMU's migration writes it, in a file.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct State {
    /// The file.
    pub path: PathBuf,
    /// Offset of the state in the file, bytes.
    pub offset: u64,
}

/// Format of a disk image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum DiskFormat {
    /// Byte for byte; handed to QEMU as a descriptor.
    Raw,
    /// QEMU's own; its backing files are handed over as descriptors, too.
    Qcow2,
}

impl DiskFormat {
    /// QEMU's name of the driver.
    #[must_use]
    pub const fn driver(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        }
    }
}

/// A file that a disk image reads from where it has no data of its own.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Backing {
    /// Path of the file.
    pub path: PathBuf,
    /// Its format.
    pub format: DiskFormat,
}

/// A virtio disk.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Disk {
    /// The image.
    pub path: PathBuf,
    /// Its format.
    pub format: DiskFormat,
    /// The files that it reads from besides itself, the nearest first.
    #[serde(default)]
    pub backing: Vec<Backing>,
    /// Whether it is a block device of the host.
    #[serde(default)]
    pub device: bool,
    /// Whether the guest may write.
    pub writable: bool,
    /// Bytes in a sector, 512 or 4096.
    pub sector_size: u32,
}

impl Disk {
    /// The node of the disk at an index below 26, in the guest.
    #[must_use]
    pub fn node(index: usize) -> String {
        let letter = char::from(b'a' + index as u8);
        format!("/dev/vd{letter}")
    }
}

/// A directory of the host.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Filesystem {
    /// Served by a virtiofsd at the other end of a socket.
    Virtiofs {
        /// Name the guest mounts it by.
        tag: String,
    },
    /// Served by QEMU itself.
    NineP {
        /// Name the guest mounts it by.
        tag: String,
        /// Directory.
        path: PathBuf,
        /// Whether the guest may write.
        #[serde(rename = "writable")]
        access: Access,
    },
}

/// Network card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Network {
    /// None.
    None,
    /// QEMU's user network: outgoing connections only.
    User,
}

impl Network {
    /// The hardware address that QEMU gives a card by itself.
    pub const ADDRESS: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
}

/// Other end of a VM's channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Channels {
    /// This brisk process, which has connected them, and without which the VM ends.
    Connected,
    /// Sockets for any process of the owner; the console goes to a file.
    Listening {
        /// Number of ports for commands.
        ports: u32,
    },
}

/// A parameter of the kernel's command line.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Parameter {
    /// As the kernel reads it.
    pub text: String,
    /// Reason for the parameter.
    pub why: String,
}

impl Parameter {
    /// A parameter and its reason.
    pub fn new(text: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            why: why.into(),
        }
    }
}

/// Descriptors that QEMU inherits. Sockets without a name cannot be left behind.
#[derive(Debug, Clone, Copy)]
pub struct Fds;

impl Fds {
    /// Path by which QEMU opens a descriptor of its own anew.
    #[must_use]
    pub fn path(number: i32) -> String {
        format!("/proc/self/fd/{number}")
    }

    /// Control channel.
    pub const QMP: i32 = 3;
    /// First serial port.
    pub const CONSOLE: i32 = 4;
    /// The port of brisk's init.
    pub const GUEST: i32 = 5;
    /// Guest memory.
    pub const RAM: i32 = 6;
    /// Kernel.
    pub const KERNEL: i32 = 7;
    /// initramfs.
    pub const INITRAMFS: i32 = 8;
    /// Debug console of the firmware.
    pub const FIRMWARE: i32 = 9;
    /// Device state of a template or image.
    pub const STATE: i32 = 10;
    /// Out-of-band control channel, for postcopy.
    pub const OOB: i32 = 11;
    /// Other end of [`Fds::OOB`].
    pub const OOB_PEER: i32 = 12;
    /// The directory where QEMU makes the socket for a new page server.
    pub const POSTCOPY: i32 = 13;
    /// Debugger port.
    pub const DEBUGGER: i32 = 14;
    /// File that starts the kernel where its code is pretranslated.
    pub const PRETRANSLATOR: i32 = 15;
    /// File that QEMU traces to.
    pub const TRACE: i32 = 80;
    /// Lock that reserves QEMU's user; QEMU never uses it.
    pub const USER: i32 = 81;
    /// The program of QEMU, where its user cannot reach that by its name.
    pub const PROGRAM: i32 = 82;
    /// First file with code for the guest, such as firmware, that QEMU's user cannot read by its
    /// name; the others follow, up to 127.
    pub const ROMS: i32 = 96;
    /// First port for commands; the others follow.
    pub const PORTS: i32 = 64;
    /// First disk; the others follow.
    pub const DISKS: i32 = 16;
    /// First backing file of a disk; the others follow, disk by disk.
    pub const BACKING: i32 = 128;
    /// First virtiofs socket; the others follow.
    pub const FILESYSTEMS: i32 = 32;
}

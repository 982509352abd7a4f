//! How a disk is attached to the host, and to the VM.

use std::path::Path;

use brisk_host::sysfs;
use serde::Serialize;

/// What a disk of the VM is attached to: what the initial RAM disk needs a driver for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bus {
    /// virtio-blk.
    VirtioBlk,
    /// SCSI of virtio.
    VirtioScsi,
    /// SATA.
    Ahci,
    /// NVMe.
    Nvme,
    /// LSI MegaRAID SAS.
    MegaRaid,
    /// LSI Fusion MPT SAS.
    MptSas,
    /// VMware's paravirtual SCSI.
    Pvscsi,
    /// A USB disk.
    Usb,
}

impl Bus {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::VirtioBlk => "virtio-blk",
            Self::VirtioScsi => "virtio-scsi",
            Self::Ahci => "AHCI",
            Self::Nvme => "NVMe",
            Self::MegaRaid => "megaraid_sas",
            Self::MptSas => "mptsas",
            Self::Pvscsi => "vmw_pvscsi",
            Self::Usb => "USB",
        }
    }

    /// QEMU's device that it needs.
    #[must_use]
    pub const fn device(self) -> &'static str {
        match self {
            Self::VirtioBlk => "virtio-blk-pci",
            Self::VirtioScsi => "virtio-scsi-pci",
            Self::Ahci => "ide-hd",
            Self::Nvme => "nvme",
            Self::MegaRaid => "megasas",
            Self::MptSas => "mptsas1068",
            Self::Pvscsi => "pvscsi",
            Self::Usb => "usb-storage",
        }
    }

    /// Begins the kernel's names of its disks.
    #[must_use]
    pub const fn family(self) -> &'static str {
        match self {
            Self::VirtioBlk => "vd",
            Self::Nvme => "nvme",
            _ => "sd",
        }
    }

    /// The one whose disks have names such as this, `sda2`.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            _ if name.starts_with("nvme") => Some(Self::Nvme),
            _ if name.starts_with("sd") => Some(Self::Ahci),
            _ if name.starts_with("vd") => Some(Self::VirtioBlk),
            _ => None,
        }
    }

    /// The one that a driver of the kernel is for.
    fn of_driver(driver: &str) -> Option<Self> {
        match driver {
            "ahci" => Some(Self::Ahci),
            "megaraid_sas" => Some(Self::MegaRaid),
            "mptsas" => Some(Self::MptSas),
            "vmw_pvscsi" => Some(Self::Pvscsi),
            "nvme" => Some(Self::Nvme),
            _ => None,
        }
    }
}

/// How a disk is attached to the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attachment {
    /// What it is attached to in the VM.
    pub bus: Bus,
    /// The host's driver, if the VM has nothing for it.
    pub unlike: Option<String>,
}

impl Attachment {
    /// Looks at a disk, such as `sda`, in sysfs below `root`.
    #[must_use]
    pub fn of(root: &Path, name: &str) -> Self {
        let like = |bus| Self { bus, unlike: None };
        let path = root.join("sys/class/block").join(name).canonicalize();
        let path = path.unwrap_or_default();
        let parts = || path.iter().filter_map(|part| part.to_str());
        let has = |start: &str| {
            parts().any(|part| {
                let rest = part.strip_prefix(start);
                rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            })
        };
        if name.starts_with("nvme") {
            return like(Bus::Nvme);
        }
        if has("virtio") {
            return like(match name.starts_with("sd") {
                true => Bus::VirtioScsi,
                false => Bus::VirtioBlk,
            });
        }
        if has("usb") {
            return like(Bus::Usb);
        }
        let driver = driver(root, &path);
        let known = driver.as_deref().and_then(Bus::of_driver);
        if let Some(bus) = known {
            return like(bus);
        }
        // A device on no bus, such as a loop device, has no driver that could be missed.
        Self {
            bus: Bus::of_name(name).unwrap_or(Bus::VirtioBlk),
            unlike: driver,
        }
    }
}

/// The driver of the nearest device above a disk that is on a bus of the host.
fn driver(root: &Path, disk: &Path) -> Option<String> {
    let root = root.canonicalize().ok()?;
    let above = disk.ancestors().skip(1);
    let above = above.take_while(|path| path.starts_with(&root) && **path != *root);
    // The SCSI layer's driver of disks says nothing about what they are attached to.
    above
        .filter_map(|path| {
            let inside = path.strip_prefix(&root).ok()?;
            let link = inside.strip_prefix("sys").ok()?.join("driver");
            sysfs::link_name(&root, link.to_str()?)
        })
        .find(|driver| driver != "sd")
}

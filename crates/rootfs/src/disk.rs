use std::fmt;
use std::path::PathBuf;

use super::partition::{Partition, Reason};
use super::qcow2::Backing;

/// A file system that a guest can mount as its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Filesystem {
    /// ext2, ext3 and ext4: one driver mounts them all.
    Ext4,
    /// EROFS.
    Erofs,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// SquashFS.
    Squashfs,
}

impl Filesystem {
    /// The type for mount(2).
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Erofs => "erofs",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::Squashfs => "squashfs",
        }
    }

    /// The modules a guest must load, unless they are built in. Their dependencies are a matter
    /// of the kernel's `modules.dep`.
    pub fn kernel_modules(self) -> &'static [&'static str] {
        match self {
            Self::Ext4 => &["ext4"],
            Self::Erofs => &["erofs"],
            Self::Xfs => &["xfs"],
            Self::Btrfs => &["btrfs"],
            Self::Squashfs => &["squashfs"],
        }
    }

    /// Whether it can only be read; changes then need an overlay.
    pub fn is_read_only(self) -> bool {
        matches!(self, Self::Erofs | Self::Squashfs)
    }
}

impl fmt::Display for Filesystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The format of a disk image, as QEMU's `format=` has it. To be passed on always: guessing it
/// from content that a guest wrote is how a guest reads files of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The bytes of the disk.
    Raw,
    /// QEMU's qcow2.
    Qcow2,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        })
    }
}

/// A disk image or block device with a root file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is a block device.
    pub device: bool,
    /// Its format.
    pub format: Format,
    /// The files that it reads from besides itself, the nearest first.
    pub backing: Vec<Backing>,
    /// The root file system in it.
    pub filesystem: Filesystem,
    /// The number of the root's partition; `None` if the file system fills the disk.
    pub partition: Option<u32>,
    /// Bytes in a sector as the partition table counts them, 512 or 4096: what QEMU must give the
    /// disk as `logical_block_size`, or the guest finds no partitions.
    pub sector_size: u32,
    /// All partitions.
    pub partitions: Vec<Partition>,
    /// Why this partition.
    pub reason: Option<Reason>,
}

impl Disk {
    /// The device node in the guest where this is the first virtio disk.
    pub fn device(&self) -> String {
        match self.partition {
            Some(number) => format!("/dev/vda{number}"),
            None => "/dev/vda".into(),
        }
    }

    /// The modules a guest must load for the file system.
    pub fn kernel_modules(&self) -> &'static [&'static str] {
        self.filesystem.kernel_modules()
    }

    pub(super) fn explain(&self) -> String {
        let path = self.path.display();
        let (format, filesystem) = (self.format, self.filesystem);
        let device = self.device();
        let (Some(number), Some(reason)) = (self.partition, self.reason) else {
            return format!(
                "{path} is a disk image ({format}) with {filesystem} and no partitions; the root \
                 is {device}"
            );
        };
        let mut text = format!(
            "{path} is a disk image ({format}) with {} partitions; the root is {device} with \
             {filesystem}, because {reason}",
            self.partitions.len()
        );
        for partition in &self.partitions {
            let mark = if partition.number == number { '*' } else { ' ' };
            text += &format!(
                "\n{mark} {:>3}  {:>8} MiB  {}",
                partition.number,
                partition.length >> 20,
                partition.content
            );
        }
        text
    }
}

use std::path::PathBuf;

use super::filesystem::Filesystem;
use super::format::Format;
use super::partition::{Partition, Reason};
use super::qcow2::Backing;

/// A disk image or block device with a root file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Path of the image or device.
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
    /// Reason for the choice of this partition.
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

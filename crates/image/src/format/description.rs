//! The sealed description of the VM of an image.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::memory::PAGE_SIZE;
use serde::{Deserialize, Serialize};

/// Longest text of a description in bytes, except for the definition.
pub const MAX_TEXT: usize = 4096;
/// Longest definition of a VM in bytes.
pub(crate) const MAX_DEFINITION: usize = 1 << 20;
/// Longest description in bytes, as JSON.
pub const MAX_DESCRIPTION: usize = 4 << 20;
/// Most disks, ranges of memory and registers of CPU features.
const MAX_LIST: usize = 1024;

/// Description of the suspended VM. An older brisk ignores fields that it does not know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Description {
    /// Name of the VM.
    pub name: String,
    /// UUID of the VM.
    pub uuid: [u8; 16],
    /// Version of QEMU as it reports it, such as `10.0.2`.
    pub qemu: String,
    /// QEMU's machine type with its version, such as `pc-i440fx-10.0`.
    pub machine: String,
    /// CPU model, as given to QEMU.
    pub cpu: String,
    /// Features of the CPU that the guest saw, as bits by the leaf and register of CPUID, such as
    /// `CPUID.01H:EDX`. Empty: unknown.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu_features: BTreeMap<String, u32>,
    /// The kernel that was booted directly, if one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Kernel>,
    /// The disks, as they were when the guest was stopped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<Disk>,
    /// The recipients that the image was encrypted to when it was written, in a form that
    /// distinguishes one set of recipients from another. Empty: unknown, or the image was rekeyed
    /// since.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub locks: String,
    /// Definition of the VM, not interpreted here.
    pub definition: String,
    /// Places of the memory in the guest's physical addresses. Empty: all of it from 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<Range>,
}

/// Kernel of a VM.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kernel {
    /// Path of the kernel image.
    pub path: PathBuf,
    /// Its release.
    pub version: String,
    /// A hash of its content, in hexadecimal; empty if unknown.
    pub hash: String,
}

/// Identity and state of a disk, to detect changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// Path of the file or device.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// Device that its inode is on.
    pub dev: u64,
    /// Number of its inode.
    pub ino: u64,
    /// Last change of its content: seconds and nanoseconds since 1970.
    pub mtime: (i64, i64),
    /// Last change of its inode.
    pub ctime: (i64, i64),
    /// Whether the VM may write to it.
    pub writable: bool,
    /// Hash of the first 8 MiB of a block device, which has no such times, in hexadecimal.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hash: String,
}

/// A range of the memory's file in the guest's physical addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// Offset in the memory's file.
    pub offset: u64,
    /// The guest's physical address.
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
}

impl Description {
    /// The ranges; one for all of the memory where none is given.
    #[must_use]
    pub fn ranges(&self, memory: u64) -> Vec<Range> {
        if !self.ranges.is_empty() {
            return self.ranges.clone();
        }
        vec![Range {
            offset: 0,
            address: 0,
            length: memory,
        }]
    }

    /// Checks that texts and lists are within bounds, and ranges within the memory of `memory`
    /// bytes.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn check(&self, memory: u64) -> Result<(), String> {
        let kernel = self.kernel.iter().flat_map(|kernel| {
            [
                ("kernel", kernel.path.as_os_str().len()),
                ("kernel's version", kernel.version.len()),
                ("kernel's hash", kernel.hash.len()),
            ]
        });
        let disks = self.disks.iter().flat_map(|disk| {
            [
                ("path of a disk", disk.path.as_os_str().len()),
                ("hash of a disk", disk.hash.len()),
            ]
        });
        let features = self.cpu_features.keys();
        let features = features.map(|name| ("name of CPU features", name.len()));
        let texts = [
            ("name", self.name.len()),
            ("QEMU version", self.qemu.len()),
            ("machine type", self.machine.len()),
            ("CPU model", self.cpu.len()),
        ];
        if self.locks.len() > MAX_DEFINITION {
            return Err(format!(
                "its list of locks is longer than {MAX_DEFINITION} bytes"
            ));
        }
        let mut texts = texts.into_iter().chain(kernel).chain(disks).chain(features);
        if let Some((what, length)) = texts.find(|(_, length)| *length > MAX_TEXT) {
            return Err(format!(
                "the {what} is longer than {MAX_TEXT}: {length} bytes"
            ));
        }
        if self.definition.len() > MAX_DEFINITION {
            return Err(format!(
                "the definition is longer than {MAX_DEFINITION} bytes"
            ));
        }
        let lists = [self.disks.len(), self.ranges.len(), self.cpu_features.len()];
        if lists.iter().any(|length| *length > MAX_LIST) {
            return Err(format!(
                "more than {MAX_LIST} disks, ranges of memory or registers of CPU features"
            ));
        }
        for range in &self.ranges {
            let page = |value: u64| value % PAGE_SIZE == 0;
            let whole = page(range.offset) && page(range.address) && page(range.length);
            let end = range.offset.checked_add(range.length);
            let physical = range.address.checked_add(range.length);
            if !whole || end.is_none_or(|end| end > memory) || physical.is_none() {
                return Err(format!("a range of memory that cannot be: {range:?}"));
            }
        }
        Ok(())
    }
}

//! What an image says about its machine.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use brisk_vm::cache;
use brisk_vm::image::{Description, Disk, Kernel};
use serde_json::json;

use super::definition::Definition;
use super::error::{Error, file};
use super::home::Home;
use super::lifecycle::Running;

/// How much of a block device is held against what it was, bytes.
const HEAD: u64 = 8 << 20;

/// What an image says about its machine.
pub(super) fn describe(
    home: &Home,
    running: &Running,
    definition: &Definition,
) -> Result<Description, Error> {
    let wrong = |source| home.wrong(source);
    let text = definition.text().map_err(wrong)?;
    let plan = &running.machine;
    let disks = plan
        .disks
        .iter()
        .map(|disk| identify(&disk.path, disk.writable));
    let machine = serde_json::to_string(running)
        .map_err(|error| file("describe", home.plan())(error.into()))?;
    Ok(Description {
        name: home.name.clone(),
        uuid: definition.uuid().map_err(wrong)?.unwrap_or_default(),
        qemu: running.qemu.clone(),
        machine: plan.machine.name().to_owned(),
        cpu: plan.cpu.clone(),
        kernel: Some(Kernel {
            path: plan.kernel.clone(),
            version: running.kernel.clone(),
            hash: String::new(),
        }),
        disks: disks.collect::<Result<_, _>>()?,
        locks: definition.suspend.locks(),
        definition: json!({ "definition": text, "machine": machine }).to_string(),
        ranges: plan.ranges(),
    })
}

/// What tells one state of a disk from another.
pub(super) fn identify(path: &Path, writable: bool) -> Result<Disk, Error> {
    let meta = fs::metadata(path).map_err(file("look at", path))?;
    if meta.file_type().is_block_device() {
        return identify_device(path, writable).map_err(file("read", path));
    }
    Ok(Disk {
        path: path.to_owned(),
        size: meta.size(),
        dev: meta.dev(),
        ino: meta.ino(),
        mtime: (meta.mtime(), meta.mtime_nsec()),
        ctime: (meta.ctime(), meta.ctime_nsec()),
        writable,
        hash: String::new(),
    })
}

/// A device may be another one after this host was restarted, and nobody notes when it was written
/// to. Its beginning has a partition table or a superblock, which who mounts it changes.
fn identify_device(path: &Path, writable: bool) -> io::Result<Disk> {
    let mut device = File::open(path)?;
    let mut head = Vec::new();
    (&device).take(HEAD).read_to_end(&mut head)?;
    Ok(Disk {
        path: path.to_owned(),
        size: device.seek(SeekFrom::End(0))?,
        writable,
        hash: cache::key(&head),
        ..Disk::default()
    })
}

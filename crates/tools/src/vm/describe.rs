//! Description of a VM in its image.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use brisk_image::{Description, Disk, Image, Kernel};
use brisk_vm::cache;
use rustix::fs::statfs;
use serde_json::json;

use super::cpu_features::CpuFeatures;
use super::definition::Definition;
use super::error::{Error, file};
use super::paths::VmPaths;
use super::running::Running;

/// Bytes at the beginning of a block device that are compared.
const HEAD: u64 = 8 << 20;

/// Describes a VM, whose guest sees these features of its CPU, for its image.
pub(super) fn describe(
    paths: &VmPaths,
    running: &Running,
    definition: &Definition,
    cpu_features: CpuFeatures,
) -> Result<Description, Error> {
    let wrong = |source| paths.wrong(source);
    let text = definition.text().map_err(wrong)?;
    let plan = &running.machine;
    let mut disks = Vec::new();
    for disk in &plan.devices.disks {
        disks.push(identify(&disk.path, disk.writable)?);
        for backing in &disk.backing {
            disks.push(identify(&backing.path, false)?);
        }
    }
    let machine = serde_json::to_string(running)
        .map_err(|error| file("describe", paths.plan())(error.into()))?;
    Ok(Description {
        name: paths.name.clone(),
        uuid: definition.uuid().map_err(wrong)?.unwrap_or_default(),
        qemu: running.qemu.clone(),
        machine: plan.machine.name().to_owned(),
        cpu: plan.processors.model.clone(),
        cpu_features,
        kernel: Some(Kernel {
            path: plan.boot.kernel.clone(),
            version: running.kernel.clone(),
            hash: String::new(),
        }),
        disks,
        locks: definition.suspend.locks(),
        definition: json!({ "definition": text, "machine": machine }).to_string(),
        ranges: plan.ranges(),
    })
}

/// Whether a disk is unchanged since its guest was stopped, as far as that can be found out after a
/// restart of this host. Device numbers change then (`st_dev`: device mapper, the order of NVMe
/// disks, Btrfs, NFS), and so do inode numbers where the file system makes them up. Looking at a
/// file changes at most its ctime.
///
/// # Errors
/// If it cannot be looked at.
pub(super) fn is_unchanged(then: &Disk) -> Result<bool, Error> {
    let now = identify(&then.path, then.writable)?;
    let content = |disk: &Disk| (disk.size, disk.mtime, disk.hash.clone());
    Ok(content(&now) == content(then) && (now.ino == then.ino || !keeps_inode_numbers(&then.path)))
}

/// Whether a file's file system has stable inode numbers, also after it was mounted again.
fn keeps_inode_numbers(path: &Path) -> bool {
    /// Magic numbers of file systems that number inodes as they meet them (linux/magic.h): FUSE
    /// with virtiofs and sshfs, 9p, SMB in its three versions, overlayfs.
    const MADE_UP: [u32; 6] = [
        0x6573_5546,
        0x0102_1997,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
        0x794c_7630,
    ];
    statfs(path).is_ok_and(|stat| !MADE_UP.contains(&(stat.f_type as u32)))
}

/// Identifies the present state of a disk.
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

/// Identifies the state of a block device by its beginning: a partition table or a superblock,
/// which changes when it is mounted. Its number may be that of another device after a restart of
/// this host, and it has no time of its last change.
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

/// The disks must be what they were when the guest stood still, with all files that they read from,
/// but for those that the administrator says are.
pub(super) fn disks_are_as_noted(image: &Image, accepted: &[PathBuf]) -> Result<(), Error> {
    let disks = &image.description().disks;
    for disk in disks.iter().filter(|disk| !accepted.contains(&disk.path)) {
        if !is_unchanged(disk)? {
            return Err(Error::Unlike {
                path: image.path().to_owned(),
                reason: format!(
                    "its disk {0} has changed since, and what the guest has in memory of it is not \
                     true any more; if you know that {0} is what it was, say so with \
                     --accept-disk {0}",
                    disk.path.display()
                ),
            });
        }
    }
    Ok(())
}

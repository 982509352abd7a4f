//! The disks that a system starts from: those below its mounted file systems.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use brisk_host::{files, sysfs};
use serde::Serialize;

use super::attachment::Attachment;

/// File systems whose disks every rehearsal has.
const OF_INIT: [&str; 6] = ["/", "/usr", "/etc", "/var", "/boot", "/boot/efi"];
/// Most disks.
pub(super) const MOST: usize = 6;
/// Most devices below each other.
const DEEPEST: usize = 16;
/// Lines of the table of mounts that are looked at.
const LINES: usize = 1 << 16;

/// A disk of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostDisk {
    /// The kernel's name, such as `sda`.
    pub name: String,
    /// How it is attached.
    pub attachment: Attachment,
    /// Its serial number, where the kernel knows it.
    pub serial: Option<String>,
}

/// Reason why the disks are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DisksError {
    /// The table of mounts.
    #[error("cannot read which disks this system is on in {}", .0.display())]
    NoTable(PathBuf),
    /// The root is on no disk of the host.
    #[error(
        "the root file system is {kind} on {origin}, which is no disk of this machine that is known: \
         name an image or a block device with --disk"
    )]
    NoDisk {
        /// Kind of file system.
        kind: String,
        /// Device or share.
        origin: String,
    },
    /// There are more than a VM can have.
    #[error(
        "this system is on {0} disks, and a rehearsal takes {MOST}: name those it needs with --disk"
    )]
    TooMany(usize),
}

/// The disks of the system below `root`, in the order of their names; with `all`, those of all its
/// file systems, as `/etc/fstab` may ask for them.
///
/// # Errors
/// If the root file system is on none.
pub(super) fn of_system(root: &Path, all: bool) -> Result<Vec<HostDisk>, DisksError> {
    let path = root.join("proc/self/mountinfo");
    let table = files::text_within(&path, 16 << 20).ok_or(DisksError::NoTable(path))?;
    let mounts: Vec<_> = table.lines().take(LINES).filter_map(Mount::parse).collect();
    let system = mounts.iter().rev().find(|mount| mount.point == "/");
    let mut names = BTreeSet::new();
    for mount in &mounts {
        let below = disks_below(root, mount);
        match OF_INIT.contains(&&*mount.point) {
            true => names.extend(below),
            false if all => names.extend(below.into_iter().filter(|name| !is_made(name))),
            false => {}
        }
    }
    match system {
        Some(mount) if !disks_below(root, mount).is_empty() => {}
        Some(mount) => {
            return Err(DisksError::NoDisk {
                kind: mount.kind.clone(),
                origin: mount.source.clone(),
            });
        }
        None => return Err(DisksError::NoTable(root.join("proc/self/mountinfo"))),
    }
    if names.len() > MOST {
        return Err(DisksError::TooMany(names.len()));
    }
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by_key(|name| (family(name).to_owned(), name.len(), name.clone()));
    let disks = names.into_iter().map(|name| HostDisk::of(root, name));
    Ok(disks.collect())
}

impl HostDisk {
    /// Looks at a disk, such as `sda`.
    #[must_use]
    pub fn of(root: &Path, name: String) -> Self {
        let paths = ["serial", "device/serial"];
        let serial = paths
            .iter()
            .find_map(|path| sysfs::line(root, &format!("class/block/{name}/{path}")));
        Self {
            attachment: Attachment::of(root, &name),
            serial: serial.filter(|serial| is_serial(serial)),
            name,
        }
    }

    /// The whole disk that a device of the host, or a partition of one, is on.
    #[must_use]
    pub fn of_number(root: &Path, major: u32, minor: u32) -> Option<Self> {
        let name = sysfs::link_name(root, &format!("dev/block/{major}:{minor}"))?;
        Some(Self::of(root, name))
    }

    /// Bytes that were written to it since the machine was started
    /// (`Documentation/block/stat.rst`: sectors are of 512 bytes).
    #[must_use]
    pub fn written(root: &Path, name: &str) -> Option<u64> {
        let line = sysfs::line(root, &format!("class/block/{name}/stat"))?;
        let sectors: u64 = line.split_whitespace().nth(6)?.parse().ok()?;
        sectors.checked_mul(512)
    }
}

/// Whether a text may be the serial number of a disk of QEMU's: of virtio-blk it has up to 20
/// characters.
fn is_serial(text: &str) -> bool {
    let is_usual = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=20).contains(&text.len()) && text.chars().all(is_usual)
}

/// Whether a device is made of a file, memory or another machine's disk, and not there before a
/// system has made it: packages of snapd are mounted from such.
fn is_made(name: &str) -> bool {
    let made = ["loop", "ram", "zram", "nbd", "rbd", "drbd", "sr"];
    made.iter().any(|start| name.starts_with(start))
}

/// `sd` of `sda`.
fn family(name: &str) -> &str {
    ["nvme", "sd", "vd", "xvd", "mmcblk"]
        .into_iter()
        .find(|family| name.starts_with(family))
        .unwrap_or(name)
}

/// A line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    /// Major and minor number of the device, with a colon; major 0 if it is none.
    number: String,
    point: String,
    kind: String,
    source: String,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(2);
        let number = fields.next()?.to_owned();
        let point = plain(fields.nth(1)?);
        let mut fields = after.split(' ');
        Some(Self {
            number,
            point,
            kind: fields.next()?.to_owned(),
            source: plain(fields.next()?),
        })
    }
}

/// Text in which some characters are written as a backslash and three octal digits.
fn plain(text: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .into_iter()
    .fold(text.to_owned(), |text, (code, c)| text.replace(code, c))
}

/// Names of the disks that a mounted file system is on.
fn disks_below(root: &Path, mount: &Mount) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let Some(device) = device(root, mount) else {
        return names;
    };
    let devices = match &*mount.kind {
        "btrfs" => btrfs_devices(root, device),
        _ => vec![device],
    };
    for device in devices {
        descend(root, &device, DEEPEST, &mut names);
    }
    names
}

/// The kernel's name of the device of a mounted file system. btrfs has a number that is no device's.
fn device(root: &Path, mount: &Mount) -> Option<String> {
    if !mount.number.starts_with("0:") {
        let path = format!("dev/block/{}", mount.number);
        return sysfs::link_name(root, &path);
    }
    let path = mount.source.strip_prefix("/dev/")?;
    if path.split('/').any(|part| part == "..") {
        return None;
    }
    let is_known = |name: &String| root.join("sys/class/block").join(name).exists();
    if let Some(name) = path.strip_prefix("mapper/") {
        let named = |device: &String| {
            sysfs::line(root, &format!("class/block/{device}/dm/name")).as_deref() == Some(name)
        };
        return sysfs::names(root, "class/block").into_iter().find(named);
    }
    let link = root.join("dev").join(path);
    let name = link.read_link().ok();
    let name = name.as_deref().and_then(Path::file_name);
    let name = name.map_or(path.to_owned(), |name| name.to_string_lossy().into_owned());
    Some(name).filter(is_known)
}

/// All devices of the btrfs that has this one (`/sys/fs/btrfs/UUID/devices`).
fn btrfs_devices(root: &Path, device: String) -> Vec<String> {
    let systems = sysfs::names(root, "fs/btrfs").into_iter();
    let devices = systems.map(|id| sysfs::names(root, &format!("fs/btrfs/{id}/devices")));
    let mut of_this = devices.filter(|devices| devices.contains(&device));
    of_this.next().unwrap_or_else(|| vec![device])
}

/// Adds the disks below a device: below what is mapped or joined, and of a partition its disk.
fn descend(root: &Path, name: &str, deepest: usize, names: &mut BTreeSet<String>) {
    if deepest == 0 || name.contains('/') || name.starts_with('.') {
        return;
    }
    let mut below = sysfs::names(root, &format!("class/block/{name}/slaves"));
    below.sort();
    // The paths of a multipath device lead to one disk.
    let id = sysfs::line(root, &format!("class/block/{name}/dm/uuid"));
    if id.is_some_and(|id| id.starts_with("mpath-")) {
        below.truncate(1);
    }
    if !below.is_empty() {
        for one in below {
            descend(root, &one, deepest - 1, names);
        }
        return;
    }
    let is_there = || root.join("sys/class/block").join(name).exists();
    let disk = sysfs::disk_of_partition(root, name);
    let disk = disk.or_else(|| is_there().then(|| name.to_owned()));
    names.extend(disk);
}

#[cfg(test)]
mod tests;

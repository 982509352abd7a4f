//! Disks of a guest besides its root.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use brisk_host::files;

use super::detect::{ReadAt, decide, partitions};
use super::magic::{self, Kind};
use super::{Backing, Error, Filesystem, Format, partition, qcow2};

const MAKE: &str =
    "`qemu-img create -f qcow2 FILE 10G` or `truncate -s 10G FILE` makes an empty one";

/// A disk image or block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Path of the image or device.
    pub path: PathBuf,
    /// Whether it is a block device.
    pub device: bool,
    /// Its format.
    pub format: Format,
    /// The files that it reads from besides itself, the nearest first.
    pub backing: Vec<Backing>,
    /// Bytes in a sector, as [`Disk::sector_size`](super::Disk::sector_size).
    pub sector_size: u32,
    /// The file systems on it and on its partitions that brisk knows, each once.
    pub filesystems: Vec<Filesystem>,
}

/// Identifies a disk by its type and its first bytes: a raw image or a qcow2 one. Its content is
/// the guest's and may be empty. `known` is its format, if that is known.
///
/// # Errors
/// The path cannot be read, is no disk, or has the format of another hypervisor.
pub fn image(path: &Path, known: Option<Format>) -> Result<Image, Error> {
    let not = |what: &str, hint| Error::NotADisk {
        path: path.into(),
        what: what.into(),
        hint,
    };
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => not("does not exist", MAKE),
        _ => super::detect::access(path, source),
    };
    let kind = fs::metadata(path).map_err(failed)?.file_type();
    if kind.is_dir() {
        let hint = "--share shows a directory to a guest";
        return Err(not("is a directory", hint));
    }
    if !kind.is_file() && !kind.is_block_device() {
        let hint = "give an image or a block device";
        return Err(not("is neither a file nor a block device", hint));
    }
    let file = files::open(path).map_err(failed)?;
    let head = qcow2::read_at(&file, 0, magic::HEAD).map_err(failed)?;
    if head.is_empty() {
        return Err(not("is empty", MAKE));
    }
    let raw = |offset, length| qcow2::read_at(&file, offset, length).map_err(failed);
    match magic::kind(&head) {
        Kind::Other(what, hint) if known.is_none() && hint == magic::CONVERT => {
            return Err(not(&format!("is {what}"), hint));
        }
        _ => {}
    }
    let format = decide(path, kind.is_block_device(), &head, known)?;
    let backing = match format {
        Format::Qcow2 => qcow2::backing_chain(path).map_err(|error| match error {
            Error::NotARoot { what, hint, .. } => not(&format!("is {what}"), hint),
            other => other,
        })?,
        Format::Raw => Vec::new(),
    };
    let inner = |offset, length| qcow2::read(path, offset, length);
    let read: &ReadAt<'_> = match format {
        Format::Qcow2 => &inner,
        Format::Raw => &raw,
    };
    let (sector_size, filesystems) = content(path, read)?;
    Ok(Image {
        path: path.into(),
        device: kind.is_block_device(),
        format,
        backing,
        sector_size,
        filesystems,
    })
}

/// Sector size and file systems. A damaged partition table is no error: it is the guest's.
fn content(path: &Path, read: &ReadAt<'_>) -> Result<(u32, Vec<Filesystem>), Error> {
    let head = read(0, partition::TABLE.max(magic::HEAD))?;
    if let Kind::Filesystem(filesystem) = magic::kind(&head) {
        return Ok((512, vec![filesystem]));
    }
    let (sector_size, partitions) = match partitions(path, &head, read) {
        Ok(found) => found.unwrap_or((512, Vec::new())),
        Err(Error::Damaged { .. }) => (512, Vec::new()),
        Err(error) => return Err(error),
    };
    let mut filesystems = Vec::new();
    for filesystem in partitions.iter().filter_map(|one| one.filesystem) {
        if !filesystems.contains(&filesystem) {
            filesystems.push(filesystem);
        }
    }
    Ok((sector_size, filesystems))
}

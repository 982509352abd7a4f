//! Disks of a clone: those that the suspended VM writes to are copied, so that no two guests write
//! to one disk.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use brisk_host::files::sync_directory;
use brisk_image::Progress;
use brisk_vm::qemu::{Disk, DiskFormat, VmConfig};
use rustix::fs::statvfs;

use super::copy::{OpenFile, copy, data, share};
use super::definition::Definition;
use super::directories::Directories;
use super::error::{Error, file};
use super::paths::VmPaths;
use super::running::Running;
use crate::guest::ExtraDisk;

/// Ending of the name of an incomplete copy.
const PARTIAL: &str = "partial";

/// A disk that the clone gets a copy of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnDisk {
    from: PathBuf,
    to: PathBuf,
    format: DiskFormat,
}

impl fmt::Display for OwnDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, .. } = self;
        write!(f, "Disk {} is a copy of {}", to.display(), from.display())
    }
}

/// Whether the copying of a clone's disks was killed.
pub(super) fn are_partial(paths: &VmPaths) -> bool {
    let files = fs::read_dir(paths.state()).into_iter().flatten().flatten();
    files
        .map(|file| file.path())
        .any(|path| path.extension().is_some_and(|end| end == PARTIAL))
}

/// Disks that the clone of a VM needs copies of, in `dir`: those that the VM writes to, and those
/// that it will write to at its next start.
///
/// # Errors
/// The disk that cannot be copied, and what to try.
pub(super) fn needed(
    running: &Running,
    definition: &Definition,
    dir: &Path,
) -> Result<Vec<OwnDisk>, (String, &'static str)> {
    let plan = &running.machine;
    let written = running.directories.as_ref().and_then(Directories::written);
    if let Some(written) = written {
        return Err((
            format!(
                "writes to the directory {}, and a clone would write to it, too",
                written.display()
            ),
            "clones are made of VMs that write to images, or to none",
        ));
    }
    let disks = definition.extra_disks();
    let disks = disks.iter().filter(|disk| disk.writable);
    let root = definition.rw.is_writable() && definition.root != "none";
    let root = root.then(|| PathBuf::from(&definition.root));
    let will: Vec<_> = root
        .into_iter()
        .chain(disks.map(|disk| disk.path.clone()))
        .collect();
    let has = |path: &&PathBuf| !plan.devices.disks.iter().any(|disk| disk.path == **path);
    if let Some(other) = will.iter().find(has) {
        return Err((
            format!(
                "will write to {} when it is started anew, which is no disk that it has now, and a \
                 clone would write to it, too",
                other.display()
            ),
            "brisk vm set has it be as it was, or not write (--rw=false, --disk PATH:ro)",
        ));
    }
    let mine = |disk: &&Disk| disk.writable || will.contains(&disk.path);
    let own = |(number, disk): (usize, &Disk)| OwnDisk {
        from: disk.path.clone(),
        to: dir.join(format!("disk{number}.{}", disk.format.driver())),
        format: disk.format,
    };
    Ok(plan
        .devices
        .disks
        .iter()
        .filter(mine)
        .enumerate()
        .map(own)
        .collect())
}

/// Checks that these disks can be copied, and that no file has a copy's name.
pub(super) fn check(paths: &VmPaths, plan: &VmConfig, disks: &[OwnDisk]) -> Result<(), Error> {
    for OwnDisk { from, to, .. } in disks {
        let refused = |what: String, hint: &str| Err(Error::state(&paths.name, what, hint));
        let meta = fs::metadata(from).map_err(file("look at", from))?;
        if !meta.is_file() {
            return refused(
                format!(
                    "writes to {}, which is no file and cannot be copied for a clone",
                    from.display()
                ),
                "qemu-img convert makes an image of a device, which brisk vm set --root names",
            );
        }
        let disk = plan.devices.disks.iter().find(|disk| disk.path == *from);
        if let Some(other) = disk.and_then(|disk| disk.backing.first()) {
            return refused(
                format!(
                    "writes to {}, which needs {}: a copy for a clone would not have that beside it",
                    from.display(),
                    other.path.display()
                ),
                "qemu-img convert -O qcow2 makes one image of both, which brisk vm set --root \
                 names",
            );
        }
        if to.symlink_metadata().is_ok() {
            return Err(brisk_image::Error::Exists { path: to.clone() }.into());
        }
    }
    Ok(())
}

/// Replaces the disks of the clone's configuration by the copies.
pub(super) fn give(disks: &[OwnDisk], plan: &mut VmConfig) {
    for disk in &mut plan.devices.disks {
        if let Some(own) = disks.iter().find(|own| own.from == disk.path) {
            disk.path.clone_from(&own.to);
        }
    }
}

/// Replaces the disks of the clone's definition by the copies.
pub(super) fn name(disks: &[OwnDisk], definition: &mut Definition) -> Result<(), Error> {
    let own = |path: &Path| {
        let Some(own) = disks.iter().find(|own| own.from == path) else {
            return Ok(None);
        };
        let path = std::path::absolute(&own.to).map_err(file("find", &own.to))?;
        let text = path.to_str().ok_or(io::ErrorKind::InvalidInput.into());
        let text = text.map_err(file("name", &own.to))?;
        Ok::<_, Error>(Some((text.to_owned(), own.format)))
    };
    if let Some((path, format)) = own(Path::new(&definition.root))? {
        definition.root = path;
        definition.root_format = Some(format.into());
    }
    let extra = definition.extra_disks();
    for (text, disk) in definition.disks.iter_mut().zip(extra) {
        if let Some((path, format)) = own(&disk.path)? {
            let own = ExtraDisk {
                path: path.into(),
                format: Some(format),
                ..disk
            };
            *text = own.to_string();
        }
    }
    Ok(())
}

/// Copies the disks, durably; the result is the number of bytes that were copied. `more` bytes of
/// other data are to be written later. A copy gets its name when it is complete.
///
/// # Errors
/// If there is no room, a disk cannot be read or written, or the user cancels. Files that were made
/// are left: they are in the directory of a VM that the caller removes.
pub(super) fn make(
    disks: &[OwnDisk],
    more: u64,
    control: brisk_image::Control<'_>,
) -> Result<u64, Error> {
    let made = disks.iter().map(Making::begin);
    let mut made = made.collect::<Result<Vec<_>, _>>()?;
    let total = made.iter().map(|making| making.left).sum();
    if let Some(making) = made.first().filter(|_| total > 0) {
        has_room(&making.partial, total)?;
    }
    let mut done = 0;
    let mut step = |bytes| {
        done += bytes;
        (control.progress)(Progress {
            done,
            total: total + more,
            stored: 0,
        });
        match control.cancelled() {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    };
    for making in made.iter_mut().filter(|making| making.left > 0) {
        let source = OpenFile {
            file: &making.source,
            path: &making.disk.from,
        };
        let target = OpenFile {
            file: &making.target,
            path: &making.partial,
        };
        copy(source, target, &mut step)?;
    }
    // Also where nothing was copied, it may have taken long.
    step(0)?;
    for making in made {
        making.finish()?;
    }
    if let Some(dir) = disks.first().and_then(|disk| disk.to.parent()) {
        sync_directory(dir).map_err(file("write", dir))?;
    }
    Ok(done)
}

/// A copy that is being made.
struct Making<'a> {
    disk: &'a OwnDisk,
    source: File,
    target: File,
    partial: PathBuf,
    /// Bytes to be copied; 0 if the blocks are shared.
    left: u64,
}

impl<'a> Making<'a> {
    fn begin(disk: &'a OwnDisk) -> Result<Self, Error> {
        let source = File::open(&disk.from).map_err(file("open", &disk.from))?;
        let partial = disk.to.with_extension(PARTIAL);
        let target = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&partial)
            .map_err(file("make", &partial))?;
        let left = match share(&source, &target) {
            true => 0,
            false => data(&source).map_err(file("read", &disk.from))?,
        };
        Ok(Self {
            disk,
            source,
            target,
            partial,
            left,
        })
    }

    fn finish(self) -> Result<(), Error> {
        let synced = self.target.sync_all();
        synced.map_err(file("write", &self.partial))?;
        fs::rename(&self.partial, &self.disk.to).map_err(file("name", &self.disk.to))
    }
}

/// Checks that this many bytes fit beside a file.
fn has_room(path: &Path, bytes: u64) -> Result<(), Error> {
    let dir = path.parent().unwrap_or(path);
    let stat = statvfs(dir).map_err(|errno| file("look at", dir)(errno.into()))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if bytes <= free {
        return Ok(());
    }
    Err(Error::Space {
        path: dir.to_owned(),
        needed: bytes,
        free,
    })
}

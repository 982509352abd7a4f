//! Reservation of disks for suspended VMs. Their guests have parts of the disks in memory, so a
//! write by another guest would destroy the disks' content.
//!
//! The directory of a suspended VM has a record (`suspended`) that names the files of its disks;
//! that of a VM which is being suspended has another (`standing`), which counts as long as its QEMU
//! is there. Every command that gives a disk to another guest for writing reads these records of
//! its user. Other programs are not kept from writing; a resume finds that the disk has changed.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use brisk_host::files;
use brisk_host::proc::Procfs;
use brisk_vm::qemu::Disk;
use serde::{Deserialize, Serialize};

use brisk_host::block_devices::{overlap, shows};

/// Record of a VM that is being suspended, in its directory.
pub(crate) const STANDING: &str = "standing";
/// Process number of a VM's QEMU, in its directory.
pub(crate) const PROCESS: &str = "process";

/// Most bytes of a record.
const LARGEST: u64 = 16 << 20;

/// A disk in a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reserved {
    path: PathBuf,
    /// Device and inode number of a file, device number of a block device.
    file: (u64, u64),
}

/// A disk that must not be written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// The disk, as it was asked for.
    pub(crate) path: PathBuf,
    /// The suspended VM.
    pub(crate) machine: String,
}

impl Reserved {
    /// All files of these disks, files that are only read included: a write to one makes the
    /// guest's memory of it stale.
    pub(crate) fn all(disks: &[Disk]) -> Vec<Self> {
        let files = disks.iter().flat_map(|disk| {
            let backing = disk.backing.iter().map(|one| &*one.path);
            std::iter::once(&*disk.path).chain(backing)
        });
        files.filter_map(Self::of).collect()
    }

    /// The disk at a path, if it exists.
    fn of(path: &Path) -> Option<Self> {
        Some(Self {
            path: path.to_owned(),
            file: file(path)?,
        })
    }

    /// Whether this is the disk at a path. Device numbers change when the host is restarted, paths
    /// do not.
    ///
    /// A block device is also one that this is on, or that is on this.
    fn is(&self, path: &Path) -> bool {
        let canonical = |path: &Path| path.canonicalize().ok();
        file(path) == Some(self.file)
            || canonical(path).is_some_and(|one| canonical(&self.path) == Some(one))
            || self.overlaps(path)
    }

    fn overlaps(&self, path: &Path) -> bool {
        let root = Path::new("/");
        match (device(&self.path), device(path)) {
            (Some(own), Some(other)) => overlap(root, own, other),
            (Some(own), None) => file(path).is_some_and(|it| shows(root, own, it)),
            (None, Some(other)) => shows(root, other, self.file),
            (None, None) => false,
        }
    }
}

/// Number of a block device; none of a file.
fn device(path: &Path) -> Option<u64> {
    let meta = fs::metadata(path).ok()?;
    meta.file_type().is_block_device().then(|| meta.rdev())
}

fn file(path: &Path) -> Option<(u64, u64)> {
    let meta = fs::metadata(path).ok()?;
    Some(match meta.file_type().is_block_device() {
        true => (0, meta.rdev()),
        false => (meta.dev(), meta.ino()),
    })
}

/// Fields of a record.
#[derive(Deserialize)]
struct Record {
    /// `None` while the VM is being suspended.
    image: Option<PathBuf>,
    #[serde(default)]
    disks: Vec<Reserved>,
}

/// The valid records of a VM, by its directory.
fn records(machine: &Path) -> impl Iterator<Item = Record> {
    let read = |name: &str| {
        let text = files::read_regular(&machine.join(name), LARGEST).ok()?;
        serde_json::from_slice::<Record>(&text).ok()
    };
    let lives = || Procfs::default().recorded(&machine.join(PROCESS)).is_some();
    // A guest runs from its image, and whoever resumed it was killed before it could say so. If none
    // runs, the resume was cut off, and may be gone on with.
    let used = |record: &Record| {
        let is_resumed = record.image.as_ref().is_some_and(|image| {
            brisk_image::resumed_name(image).exists() && brisk_image::resumable(image).is_none()
        });
        is_resumed && lives()
    };
    let suspended = read("suspended").filter(|record| !used(record));
    let standing = read(STANDING).filter(|_| lives());
    suspended.into_iter().chain(standing)
}

/// The first of these disks that a suspended VM has, of the VMs whose directories are in
/// `machines`.
pub(crate) fn conflict<'a>(
    disks: impl IntoIterator<Item = &'a Path>,
    machines: &Path,
) -> Option<Conflict> {
    let disks: Vec<_> = disks.into_iter().collect();
    if disks.is_empty() {
        return None;
    }
    for entry in fs::read_dir(machines).ok()?.flatten() {
        let reserved: Vec<_> = records(&entry.path())
            .flat_map(|record| record.disks)
            .collect();
        let taken = |disk: &&&Path| reserved.iter().any(|one| one.is(disk));
        if let Some(disk) = disks.iter().find(taken) {
            return Some(Conflict {
                path: disk.to_path_buf(),
                machine: entry.file_name().to_string_lossy().into_owned(),
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of VMs with one that is suspended and writes to `disk`.
    fn suspended(disk: &Path) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let machine = dir.path().join("a");
        fs::create_dir(&machine).unwrap();
        let image = machine.join("a.brisk");
        fs::write(&image, "").unwrap();
        let disks = [Reserved::of(disk).unwrap()];
        let record = serde_json::json!({ "image": image, "disks": disks });
        fs::write(machine.join("suspended"), record.to_string()).unwrap();
        dir
    }

    #[test]
    fn the_disks_of_a_resume_that_was_cut_off_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("disk");
        fs::write(&disk, "").unwrap();
        let machines = suspended(&disk);
        let is_held = || conflict([&*disk], machines.path()).is_some();
        let image = machines.path().join("a/a.brisk");
        fs::rename(&image, brisk_image::resumed_name(&image)).unwrap();
        assert!(is_held());
        // It runs: its QEMU has its own locks.
        let process = machines.path().join("a").join(PROCESS);
        Procfs::default()
            .record(std::process::id(), &process)
            .unwrap();
        assert!(!is_held());
    }

    #[test]
    fn a_disk_is_known_by_any_of_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let [disk, other, link] = ["disk", "other", "link"].map(|name| dir.path().join(name));
        fs::write(&disk, "").unwrap();
        fs::write(&other, "").unwrap();
        fs::hard_link(&disk, &link).unwrap();
        let machines = suspended(&disk);
        let held = |path: &Path| conflict([path], machines.path()).map(|found| found.machine);
        assert_eq!(held(&disk), Some("a".to_owned()));
        assert_eq!(held(&link), Some("a".to_owned()));
        assert_eq!(held(&other), None);
        assert_eq!(conflict([], machines.path()), None);
        // Restored from a backup, or with another device number after a restart.
        let restored = dir.path().join("restored");
        fs::write(&restored, "").unwrap();
        fs::rename(&restored, &disk).unwrap();
        assert_eq!(held(&disk), Some("a".to_owned()));
        fs::remove_file(machines.path().join("a/suspended")).unwrap();
        assert_eq!(held(&disk), None);
    }
}

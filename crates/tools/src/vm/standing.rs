//! Record of a VM whose guest was stopped to be suspended.
//!
//! QEMU releases the locks on the disks when it has written the device state. If brisk is killed
//! then, the guest is stopped, and any other guest could write to its disks. So the disks are
//! recorded before: no command of brisk's gives them to another guest as long as that QEMU is
//! there, and the guest continues only if they are unchanged.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use brisk_host::files::{self, Durability};
use brisk_vm::qemu::control::{self, Control};
use brisk_vm::qemu::{Disk, DiskFormat};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::describe::{identify, is_unchanged};
use super::error::{Error, file};
use super::paths::{LARGEST, VmPaths};
use crate::reservation::{Reserved, STANDING};
use brisk_host::chain;

/// The record, in the directory of the VM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Standing {
    /// The files of its disks, for [`crate::reservation::conflict`].
    disks: Vec<Reserved>,
    /// State of all files of its disks when the guest was stopped.
    identities: Vec<brisk_image::Disk>,
}

impl Standing {
    /// The disks of a guest that has just been stopped. QEMU may still write to the metadata of qcow2
    /// images: those are left out unless it has `finished`.
    pub(super) fn of(disks: &[Disk], finished: bool) -> Result<Self, Error> {
        let mut identities = Vec::new();
        for disk in disks {
            if finished || disk.format == DiskFormat::Raw {
                identities.push(identify(&disk.path, disk.writable)?);
            }
            for backing in &disk.backing {
                identities.push(identify(&backing.path, false)?);
            }
        }
        Ok(Self {
            disks: Reserved::all(disks),
            identities,
        })
    }

    /// Records them.
    pub(super) fn write(&self, paths: &VmPaths) -> Result<(), Error> {
        let path = path(paths);
        let write = || {
            let text = serde_json::to_vec(self)?;
            files::replace(&path, &text, Durability::Atomic)
        };
        write().map_err(file("write", &path))
    }

    /// The record of a VM that stands still.
    ///
    /// # Errors
    /// If that cannot be read: its disks may have changed.
    pub(super) fn read(paths: &VmPaths) -> Result<Option<Self>, Error> {
        let path = path(paths);
        let read = match files::read_regular(&path, LARGEST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.and_then(|text| Ok(serde_json::from_slice(&text)?)),
        };
        read.map(Some).map_err(|error| {
            let what = format!(
                "stands still since a suspend was ended in the middle, and {}, which says what its \
                 disks were, cannot be read ({error})",
                path.display()
            );
            let hint = "brisk vm resume has it go on when that can be read; brisk vm kill ends it";
            Error::state(&paths.name, what, hint)
        })
    }

    /// Removes the record: the guest runs, or its QEMU has ended.
    pub(super) fn remove(paths: &VmPaths) {
        let _ = fs::remove_file(path(paths));
    }
}

fn path(paths: &VmPaths) -> PathBuf {
    paths.state().join(STANDING)
}

/// Continues a guest that a suspend has left stopped, if its disks are what was noted of them, except
/// for accepted ones.
///
/// # Errors
/// If a disk has changed, or QEMU refuses.
pub(super) fn go_on(
    paths: &VmPaths,
    qmp: &mut Control<'_>,
    noted: Option<&Standing>,
    accepted: &[PathBuf],
) -> Result<(), Error> {
    if let Some(standing) = noted {
        // Nobody else writes to them from then on.
        activate_soon(qmp)?;
        let others = standing.identities.iter();
        for disk in others.filter(|disk| !accepted.contains(&disk.path)) {
            if !is_unchanged(disk)? {
                let disk = disk.path.display();
                return Err(Error::state(
                    &paths.name,
                    format!(
                        "stands still since a suspend was ended in the middle, and its disk {disk} \
                         has changed since: what the guest has in memory of it is not true any more"
                    ),
                    format!(
                        "brisk vm kill ends it; if you know that {disk} is what it was: brisk vm \
                         resume --accept-disk {disk}"
                    ),
                ));
            }
        }
    }
    qmp.execute("cont", &json!(null))?;
    Standing::remove(paths);
    Ok(())
}

/// Time in which a program such as `qemu-img info` has looked at a disk.
const LOOK: Duration = Duration::from_secs(10);
/// Interval of tries.
const AGAIN: Duration = Duration::from_millis(200);

/// Has QEMU take its disks, and waits for a program that has locked one of them for a moment.
fn activate_soon(qmp: &mut Control<'_>) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        match activate_disks(qmp, &mut || false) {
            Err(error) if begun.elapsed() < LOOK && chain(&error).contains(" lock") => {
                thread::sleep(AGAIN);
            }
            other => return other,
        }
    }
}

/// Has QEMU take its disks, with its locks on them, before the guest runs. QEMU before 10.0 takes
/// them when it does.
pub(super) fn activate_disks(
    qmp: &mut Control<'_>,
    wait: &mut dyn FnMut() -> bool,
) -> Result<(), Error> {
    let active = json!({ "active": true });
    match qmp.execute_while("blockdev-set-active", &active, wait) {
        Err(control::Error::Refused { reason, .. }) if reason.contains("has not been found") => {
            Ok(())
        }
        other => Ok(other.map(drop)?),
    }
}

//! Suspend record: the image that a VM is suspended to, so that no other image is taken for it, and
//! a missing one is noticed.

use std::fs;
use std::path::{Path, PathBuf};

use brisk_host::files::{self, Durability};
use brisk_image::{Description, Header, Image};
use brisk_vm::qemu::Disk;
use serde::{Deserialize, Serialize};

use super::definition::Definition;
use super::error::{Error, file};
use super::paths::{LARGEST, VmPaths, make_dir};
use super::running::Running;
use super::unlock::host_keys;
use crate::reservation::Reserved;

/// Record of a VM's image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SuspendRecord {
    /// Usual name of the image.
    pub(super) image: PathBuf,
    id: [u8; 16],
    uuid: Option<String>,
    /// The files of its disks, which no other guest may write to meanwhile.
    #[serde(default)]
    disks: Vec<Reserved>,
}

impl SuspendRecord {
    /// Writes the record of an image that is to get this identity while the VM still runs: what there
    /// is no room for is found before it stands still.
    pub(super) fn prepare(&self, paths: &VmPaths) -> Result<(), Error> {
        self.put(&prepared(paths))?;
        self.name(paths)
    }

    /// Notes that this image counts while the VM's QEMU is there.
    fn name(&self, paths: &VmPaths) -> Result<(), Error> {
        let path = paths.in_image();
        let written = files::replace(&path, &self.id, Durability::Atomic);
        written.map_err(file("write", path))
    }

    /// A record of a VM with these disks, and of its image with an identity.
    pub(super) fn of(definition: &Definition, image: &Path, id: [u8; 16], disks: &[Disk]) -> Self {
        Self {
            image: image.to_owned(),
            id,
            uuid: definition.uuid.clone(),
            disks: Reserved::all(disks),
        }
    }

    /// Records durably that a VM has been suspended to the image that was prepared for, wherever that
    /// is by now: without a record, one that was moved away would not be missed.
    pub(super) fn place(paths: &VmPaths) -> Result<(), Error> {
        let (from, to) = (prepared(paths), paths.suspended());
        let placed = fs::rename(&from, &to).and_then(|()| files::sync_directory(&paths.state()));
        placed.map_err(file("write", &to))?;
        // Where definitions cannot be written, only a missing state directory goes unnoticed.
        let _ = files::read_regular(&to, LARGEST)
            .and_then(|text| files::replace(&paths.suspended_copy(), &text, Durability::Atomic));
        Ok(())
    }

    /// Removes what [`Self::prepare`] wrote: the VM goes on.
    pub(super) fn forget_prepared(paths: &VmPaths) {
        let _ = fs::remove_file(prepared(paths));
        let _ = fs::remove_file(paths.in_image());
    }

    /// The record, if it is of this VM and not of an earlier one of its name.
    pub(super) fn read(paths: &VmPaths) -> Option<Self> {
        Self::away(paths).or_else(|| Self::read_at(paths, &paths.suspended()))
    }

    /// The copy of the record beside the definition, if there is nothing else of the VM: its state
    /// directory is not mounted, was removed, or has never been made.
    fn away(paths: &VmPaths) -> Option<Self> {
        let is_away = !paths.has_directory();
        is_away.then(|| Self::read_at(paths, &paths.suspended_copy()))?
    }

    fn read_at(paths: &VmPaths, path: &Path) -> Option<Self> {
        let mut noted: Self =
            serde_json::from_slice(&files::read_regular(path, LARGEST).ok()?).ok()?;
        match paths.definition() {
            // One without a UUID was suspended before its definition had one, or it was lost.
            Ok(Definition {
                uuid: now @ Some(_),
                ..
            }) if noted.uuid.is_some() && noted.uuid != now => None,
            _ => {
                noted.image = brisk_image::real_path(noted.image);
                Some(noted)
            }
        }
    }

    /// Records the image that a VM with these disks is about to be resumed from, if it is not
    /// recorded, as one of another host. From its QEMU's start until the record is removed, this
    /// image alone counts.
    ///
    /// # Errors
    /// If it cannot be written: nothing would tell the image from others while QEMU is there.
    pub(super) fn ensure(paths: &VmPaths, image: &Image, disks: &[Disk]) -> Result<(), Error> {
        let definition = paths.definition()?;
        let noted = Self::of(&definition, image.path(), image.header().id, disks);
        noted.name(paths)?;
        match Self::read(paths) {
            Some(_) => Ok(()),
            None => noted.put(&paths.suspended()),
        }
    }

    /// Checks that an image is the one that the VM was suspended to, as far as a record says so.
    ///
    /// # Errors
    /// If it is another one.
    pub(super) fn admits(paths: &VmPaths, image: &Image) -> Result<(), Error> {
        match counting(paths, false) {
            Some(ids) if !ids.contains(&image.header().id) => Err(image_missing(paths)),
            _ => Ok(()),
        }
    }

    fn put(&self, path: &Path) -> Result<(), Error> {
        let write = || {
            let text = serde_json::to_vec(self)?;
            files::replace(path, &text, Durability::Durable)
        };
        write().map_err(file("write", path))
    }

    /// Removes the record if it is of the image that a guest, which runs, was resumed from: whoever
    /// resumed it could not say so.
    pub(super) fn remove_used(paths: &VmPaths) {
        let used = |noted: &Self| {
            let header = Header::read(&brisk_image::resumed_name(&noted.image));
            header.is_ok_and(|header| header.id == noted.id)
        };
        if Self::read(paths).is_some_and(|noted| used(&noted)) {
            // The guest runs all the same.
            let _ = Self::remove(paths);
        }
    }

    /// Removes the record durably: the VM is not suspended any more, and after a power cut its
    /// image would be missed.
    ///
    /// # Errors
    /// If it, or its copy, is still there.
    pub(super) fn remove(paths: &VmPaths) -> Result<(), Error> {
        Self::forget_prepared(paths);
        let removed = |path: PathBuf| match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(file("remove", path)(error))
            }
            other => Ok(other.is_ok()),
        };
        let copy = removed(paths.suspended_copy());
        if removed(paths.suspended())? {
            // It is gone all the same as long as this host runs.
            let _ = files::sync_directory(&paths.state());
        }
        copy.map(drop)
    }
}

/// Checks that a VM's state directory may be made: a new one would hide that the VM is suspended.
///
/// # Errors
/// If the copy of its record says that it is suspended.
pub(super) fn check_away(paths: &VmPaths) -> Result<(), Error> {
    match SuspendRecord::away(paths) {
        Some(noted) => Err(Error::away(&paths.name, &noted.image, &paths.state())),
        None => Ok(()),
    }
}

/// Makes the state directory of a VM, with the copy of the record as record, so that the suspend can
/// be forgotten.
pub(super) fn put_back(paths: &VmPaths) -> Result<(), Error> {
    if let Some(noted) = SuspendRecord::away(paths) {
        make_dir(&paths.state(), 0o700)?;
        noted.put(&paths.suspended())?;
    }
    Ok(())
}

/// Where a record is until its image is there.
fn prepared(paths: &VmPaths) -> PathBuf {
    paths.suspended().with_extension("new")
}

/// Identities of the images that count for a VM. `has_qemu`: its QEMU is there.
///
/// While it is, only what this QEMU is being suspended to or resumed from counts: a record may be an
/// older one, from a backup. Else the record decides. `None`: neither is there, and an image's own
/// description decides.
fn counting(paths: &VmPaths, has_qemu: bool) -> Option<Vec<[u8; 16]>> {
    if has_qemu {
        let named = files::read_regular(&paths.in_image(), LARGEST).ok();
        return Some(
            named
                .and_then(|id| id.try_into().ok())
                .into_iter()
                .collect(),
        );
    }
    let noted = SuspendRecord::read(paths)?;
    // A suspend that was killed may have written it.
    let written = SuspendRecord::read_at(paths, &prepared(paths));
    Some(
        std::iter::once(noted)
            .chain(written)
            .map(|noted| noted.id)
            .collect(),
    )
}

/// Whether the image that can be resumed by this usual name is what this VM is in, as far as this
/// host can find out. `has_qemu`: its QEMU is there.
pub(super) fn is_own(paths: &VmPaths, path: &Path, has_qemu: bool) -> Option<bool> {
    let now = brisk_image::resumable(path)?;
    let counting = counting(paths, has_qemu);
    match (Header::read(&now), counting) {
        (Err(brisk_image::Error::NotAnImage { .. }), _) => Some(false),
        (Ok(header), Some(ids)) => Some(ids.contains(&header.id)),
        (Ok(_), None) => is_described(paths, &now),
        // It is damaged, and lies where this VM's is.
        (Err(_), _) if SuspendRecord::read(paths).is_some_and(|noted| noted.image == path) => {
            Some(true)
        }
        (Err(_), Some(_)) => Some(false),
        (Err(_), None) if !fs::metadata(&now).is_ok_and(|meta| meta.is_file()) => Some(false),
        (Err(_), None) => None,
    }
}

/// Whether a file that no guest is to be resumed from is an image of this VM: one that it was
/// suspended to or resumed from by its records, or one whose description says so to this host's key.
/// `None` if unknown.
pub(super) fn owns(paths: &VmPaths, path: &Path) -> Option<bool> {
    let header = match Header::read(path) {
        Ok(header) => header,
        Err(brisk_image::Error::NotAnImage { .. }) => return Some(false),
        Err(_) => return None,
    };
    let suspended_to = SuspendRecord::read(paths).is_some_and(|noted| noted.id == header.id);
    let resumed_from = || Running::of(paths).is_ok_and(|it| it.images.contains(&header.id));
    if suspended_to || resumed_from() {
        return Some(true);
    }
    is_described(paths, path)
}

/// Checks that the record can be read, if there is one: a VM without one is not suspended.
///
/// # Errors
/// If it cannot.
pub(super) fn check_readable(paths: &VmPaths) -> Result<(), Error> {
    let path = paths.suspended();
    let what = match files::read_regular(&path, LARGEST) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => error.to_string(),
        Ok(bytes) => match serde_json::from_slice::<SuspendRecord>(&bytes) {
            Ok(_) => return Ok(()),
            Err(error) => error.to_string(),
        },
    };
    Err(Error::state(
        &paths.name,
        format!(
            "may be suspended: {}, which says to which image, cannot be read ({what})",
            path.display()
        ),
        "put it back from a backup; or remove it, and an image at the usual place counts",
    ))
}

/// The UUID that a VM is known by, whose definition has none: that of its record.
#[must_use]
pub fn recorded_uuid(paths: &VmPaths) -> Option<String> {
    SuspendRecord::read(paths)?.uuid
}

/// Whether the description in an image says that it is of this VM; `None` if this host's key does not
/// open it.
fn is_described(paths: &VmPaths, path: &Path) -> Option<bool> {
    let uuid = paths.definition().ok()?.uuid().ok().flatten();
    let image = Image::open(path, &host_keys(paths).ok()?).ok()?;
    let described = image.description();
    Some(described.name == paths.name && has_uuid(described, uuid))
}

/// Whether a resume was cut off by a crash or a power cut: there is an image of this VM that a
/// guest may have run from, and that no process reads from. A guest that is known to have run has no
/// record any more: its disks have changed, and its image is of no use.
pub(super) fn is_cut_off(paths: &VmPaths, image: &Path) -> bool {
    let Some(noted) = SuspendRecord::read(paths) else {
        return false;
    };
    let is_noted = || match Header::read(&brisk_image::resumed_name(image)) {
        Ok(header) => header.id == noted.id,
        // It is damaged, and lies where this VM's is.
        Err(_) => noted.image == image,
    };
    matches!(brisk_image::resumed(image), Ok(Some(false))) && is_noted()
}

/// Whether an image is of a VM with this UUID, as far as both have one.
pub(super) fn has_uuid(described: &Description, uuid: Option<[u8; 16]>) -> bool {
    uuid.is_none_or(|uuid| [uuid, [0; 16]].contains(&described.uuid))
}

/// Path of the missing image of a suspended VM: it was moved, replaced or removed, or is in a file
/// system that is not mounted.
pub(super) fn missing(paths: &VmPaths) -> Option<PathBuf> {
    let noted = SuspendRecord::read(paths)?;
    // A guest has run from it, and whoever resumed it was killed before it could say so.
    let used = brisk_image::resumed_name(&noted.image);
    let is_used = match Header::read(&used) {
        Ok(header) => header.id == noted.id,
        Err(_) => used.symlink_metadata().is_ok(),
    };
    (!is_used).then_some(noted.image)
}

/// Whether the recorded image is at a place.
fn is_noted_at(paths: &VmPaths, place: &Path) -> bool {
    let now = brisk_image::resumable(place).and_then(|now| Header::read(&now).ok());
    let noted = SuspendRecord::read(paths);
    noted.is_some_and(|noted| now.is_some_and(|header| header.id == noted.id))
}

/// Whether another image lies where the missing one of a suspended VM was.
pub(super) fn is_replaced(paths: &VmPaths) -> bool {
    missing(paths).is_some_and(|image| replacing(paths, &image).is_some())
}

/// Path of an image that lies where the missing one of a suspended VM was, or is to be now.
fn replacing(paths: &VmPaths, missing: &Path) -> Option<PathBuf> {
    let usual = paths.image_now().ok();
    let places = [Some(missing.to_owned()), usual];
    let is_taken = |place: &PathBuf| brisk_image::resumable(place).is_some();
    places.into_iter().flatten().find(is_taken)
}

/// A crash or a power cut came between the mark that its guest may run and the end of its image.
pub(super) fn cut_off(paths: &VmPaths, definition: &Definition) -> Error {
    let image = brisk_image::resumed_name(&paths.image(definition));
    Error::state(
        &paths.name,
        format!(
            "was being resumed when that was cut off, and its guest may have run: {} is left",
            image.display()
        ),
        "brisk vm resume --again goes on from there if its disks are what they were, brisk vm discard \
         removes it",
    )
}

/// Its image is gone, or another one lies there.
pub(super) fn image_missing(paths: &VmPaths) -> Error {
    let noted = SuspendRecord::read(paths).map(|noted| noted.image);
    let image = noted.unwrap_or_default();
    match replacing(paths, &image) {
        // The definition was changed by hand, or a link.
        Some(_) if is_noted_at(paths, &image) => Error::state(
            &paths.name,
            format!(
                "is suspended to {}, and its definition, or a link, leads to another place",
                image.display()
            ),
            format!(
                "brisk vm set {} --suspend-path {}",
                paths.name,
                image.display()
            ),
        ),
        Some(other) => Error::replaced(&paths.name, &image, &other),
        None => Error::missing(&paths.name, &image),
    }
}

impl VmPaths {
    /// Where the image of the VM is, or would be: as its definition says, and if that is gone,
    /// as the record of the suspended VM says.
    pub(super) fn image_now(&self) -> Result<PathBuf, Error> {
        match self.definition() {
            Ok(definition) => Ok(self.image(&definition)),
            Err(Error::Undefined { .. }) => Ok(SuspendRecord::read(self)
                .map_or_else(|| self.image(&Definition::default()), |noted| noted.image)),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::StateDirs;

    #[test]
    fn an_image_that_was_moved_away_at_once_is_missed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let dirs = StateDirs {
            config: path("config"),
            state: path("state"),
            runtime: path("run"),
            key: path("key"),
        };
        let paths = dirs.vm("a").unwrap();
        paths.prepare().unwrap();
        let record = SuspendRecord::of(&Definition::default(), &path("a.brisk"), [7; 16], &[]);
        record.prepare(&paths).unwrap();
        SuspendRecord::place(&paths).unwrap();
        assert_eq!(missing(&paths), Some(path("a.brisk")));
        SuspendRecord::remove(&paths).unwrap();
        assert_eq!(missing(&paths), None);
    }
}

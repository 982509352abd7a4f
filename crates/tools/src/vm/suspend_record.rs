//! Suspend record: the image that a VM is suspended to, so that no other image is taken for it, and
//! a missing one is noticed.

use std::fs::{self};
use std::path::{Path, PathBuf};

use brisk_host::files::{self, Durability};
use brisk_image::{Description, Header, Image, State};
use brisk_vm::qemu::Disk;
use serde::{Deserialize, Serialize};

use super::definition::Definition;
use super::error::{Error, file};
use super::paths::VmPaths;
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
        self.put(&prepared(paths))
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

    /// Records durably the image that a VM with these disks has been suspended to.
    pub(super) fn write(
        paths: &VmPaths,
        definition: &Definition,
        image: &Path,
        disks: &[Disk],
    ) -> Result<(), Error> {
        let id = Header::read(image)?.id;
        let (from, to) = (prepared(paths), paths.suspended());
        let ready = fs::read(&from).ok();
        let ready = ready.and_then(|text| serde_json::from_slice::<Self>(&text).ok());
        if ready.is_none_or(|noted| noted.id != id) {
            Self::of(definition, image, id, disks).prepare(paths)?;
        }
        let placed = fs::rename(&from, &to).and_then(|()| files::sync_directory(&paths.state()));
        placed.map_err(file("write", &to))
    }

    /// Removes what [`Self::prepare`] wrote: the VM goes on.
    pub(super) fn forget_prepared(paths: &VmPaths) {
        let _ = fs::remove_file(prepared(paths));
    }

    /// The record, if it is of this VM and not of an earlier one of its name.
    pub(super) fn read(paths: &VmPaths) -> Option<Self> {
        let noted: Self = serde_json::from_slice(&fs::read(paths.suspended()).ok()?).ok()?;
        match paths.definition() {
            // One without a UUID was suspended before its definition had one.
            Ok(definition) if noted.uuid.is_some() && noted.uuid != definition.uuid => None,
            _ => Some(noted),
        }
    }

    /// Records the image that a VM is being resumed from, if it is not recorded, as by another host:
    /// until the record is removed, no guest is known to have run from it.
    pub(super) fn ensure(paths: &VmPaths, image: &Image) -> Result<(), Error> {
        let id = image.header().id;
        if Self::read(paths).is_some_and(|noted| noted.id == id) {
            return Ok(());
        }
        let noted = Self {
            image: image.path().to_owned(),
            id,
            uuid: paths.definition()?.uuid,
            disks: Reserved::all(&Running::of(paths)?.machine.devices.disks),
        };
        noted.put(&paths.suspended())
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
            Self::remove(paths);
        }
    }

    /// Removes the record durably: the VM is not suspended any more, and after a power cut its
    /// image would be missed.
    pub(super) fn remove(paths: &VmPaths) {
        if fs::remove_file(paths.suspended()).is_ok() {
            // It is gone all the same as long as this host runs.
            let _ = files::sync_directory(&paths.state());
        }
    }
}

/// Where a record is until its image is there.
fn prepared(paths: &VmPaths) -> PathBuf {
    paths.suspended().with_extension("new")
}

/// Whether the image that can be resumed by this usual name is this VM's, as far as this host can
/// find out.
pub(super) fn is_own(paths: &VmPaths, path: &Path) -> Option<bool> {
    let now = brisk_image::resumable(path)?;
    match owns(paths, &now) {
        // It is damaged, and lies where this VM's is.
        None if Header::read(&now).is_err() => SuspendRecord::read(paths)
            .is_some_and(|noted| noted.image == path)
            .then_some(true),
        own => own,
    }
}

/// Whether a file is an image of this VM: one that it was suspended to or resumed from by its
/// records, or one whose description says so to this host's key. `None` if unknown.
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
    let used = matches!(brisk_image::state(&noted.image), Ok(State::Resumed { .. }));
    (!used).then_some(noted.image)
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

/// Its image is gone.
pub(super) fn image_missing(paths: &VmPaths) -> Error {
    let image = missing(paths).unwrap_or_default();
    Error::missing(&paths.name, &image)
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

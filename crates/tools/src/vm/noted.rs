//! What a suspended machine's directory says of its image: so that no other one is taken for it,
//! and it is missed if it is gone.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use brisk_vm::image::{self, Description, Header, Image, State};
use serde::{Deserialize, Serialize};

use super::definition::Definition;
use super::error::{Error, file};
use super::home::Home;
use super::unlock::host_keys;

/// The image of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Noted {
    /// Its usual name.
    pub(super) image: PathBuf,
    id: [u8; 16],
    uuid: Option<String>,
}

impl Noted {
    /// Notes the image that a machine has been suspended to, durably.
    pub(super) fn write(home: &Home, definition: &Definition, image: &Path) -> Result<(), Error> {
        let noted = Self {
            image: image.to_owned(),
            id: Header::read(image)?.id,
            uuid: definition.uuid.clone(),
        };
        let path = home.suspended();
        let temporary = path.with_extension("tmp");
        let write = || -> io::Result<()> {
            let mut file = File::create(&temporary)?;
            file.write_all(&serde_json::to_vec(&noted)?)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(home.state())?.sync_all()
        };
        write().map_err(file("write", &path))
    }

    /// What is noted, if it is of this machine.
    pub(super) fn read(home: &Home) -> Option<Self> {
        let noted: Self = serde_json::from_slice(&fs::read(home.suspended()).ok()?).ok()?;
        let definition = home.definition().ok()?;
        (noted.uuid == definition.uuid).then_some(noted)
    }

    /// The machine is not suspended any more.
    pub(super) fn remove(home: &Home) {
        // What is not there need not be removed.
        let _ = fs::remove_file(home.suspended());
    }
}

/// Whether the image at a path is this machine's, as far as this host can tell.
pub(super) fn is_own(home: &Home, definition: &Definition, path: &Path) -> Option<bool> {
    let noted = Noted::read(home);
    let usual = path;
    let path = image::resumable(path)?;
    let header = match Header::read(&path) {
        Ok(header) => header,
        Err(image::Error::NotAnImage { .. }) => return Some(false),
        // It is damaged.
        Err(_) => {
            return noted
                .is_some_and(|noted| noted.image == usual)
                .then_some(true);
        }
    };
    if noted.is_some_and(|noted| noted.id == header.id) {
        return Some(true);
    }
    let image = Image::open(&path, &host_keys(home).ok()?).ok()?;
    let uuid = definition.uuid().ok().flatten();
    let described = image.description();
    Some(described.name == home.name && has_uuid(described, uuid))
}

/// Whether an image is of a machine with this UUID, as far as both say.
pub(super) fn has_uuid(described: &Description, uuid: Option<[u8; 16]>) -> bool {
    uuid.is_none_or(|uuid| [uuid, [0; 16]].contains(&described.uuid))
}

/// The image that a machine was suspended to, of one that is not in its image: it was moved,
/// replaced or removed, or is in a file system that is not mounted.
pub(super) fn missing(home: &Home) -> Option<PathBuf> {
    let noted = Noted::read(home)?;
    // A guest has run from it, and whoever resumed it was killed before it could say so.
    let used = matches!(image::state(&noted.image), Ok(State::Resumed { .. }));
    (!used).then_some(noted.image)
}

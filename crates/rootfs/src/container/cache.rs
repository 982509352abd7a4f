//! Cache of unpacked images, by the digest of their source.
//!
//! `KEY.erofs` is the image and `KEY.json` its configuration, written last: where that is, the
//! image is whole. `IDENTITY.ref` leads from an archive file to its key without reading it.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::manifest;
use super::model::{Container, ContainerConfig, ContainerRoot, Form};
use crate::{Error, Filesystem};

pub(super) struct Cache {
    directory: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    /// In bytes, to notice an image that lost its end.
    length: u64,
    config: ContainerConfig,
}

impl Cache {
    pub(super) fn open(directory: &Path) -> Result<Self, Error> {
        fs::create_dir_all(directory).map_err(|error| write_error(directory, error))?;
        Ok(Self {
            directory: directory.into(),
        })
    }

    pub(super) fn by_identity(&self, identity: &str) -> Option<ContainerRoot> {
        let key = fs::read_to_string(self.path(identity, "ref")).ok()?;
        self.by_key(key.trim_end())
    }

    pub(super) fn by_key(&self, key: &str) -> Option<ContainerRoot> {
        let stored = fs::read(self.path(key, "json")).ok()?;
        let stored: Stored = serde_json::from_slice(&stored).ok()?;
        let image = self.path(key, "erofs");
        if fs::metadata(&image).ok()?.len() != stored.length {
            return None;
        }
        Some(ContainerRoot {
            image,
            filesystem: Filesystem::Erofs,
            config: stored.config,
        })
    }

    /// A new file beside the cached ones, so that it can be renamed to one of them.
    pub(super) fn temporary(&self) -> Result<NamedTempFile, Error> {
        tempfile::Builder::new()
            .prefix(".new-")
            .tempfile_in(&self.directory)
            .map_err(|error| write_error(&self.directory, error))
    }

    pub(super) fn store(
        &self,
        image: NamedTempFile,
        key: &str,
        config: &ContainerConfig,
    ) -> Result<ContainerRoot, Error> {
        let path = self.path(key, "erofs");
        let length = image
            .as_file()
            // After a crash a name must not lead to an image without its data.
            .sync_data()
            .and_then(|()| image.as_file().metadata())
            .map_err(|error| write_error(&path, error))?
            .len();
        image
            .persist(&path)
            .map_err(|error| write_error(&path, error.error))?;
        let stored = serde_json::to_vec(&Stored {
            length,
            config: config.clone(),
        })
        .map_err(|error| write_error(&path, error.into()))?;
        self.replace(&self.path(key, "json"), &stored)?;
        Ok(ContainerRoot {
            image: path,
            filesystem: Filesystem::Erofs,
            config: config.clone(),
        })
    }

    pub(super) fn remember(&self, identity: &str, key: &str) -> Result<(), Error> {
        self.replace(&self.path(identity, "ref"), key.as_bytes())
    }

    fn replace(&self, path: &Path, content: &[u8]) -> Result<(), Error> {
        let mut file = self.temporary()?;
        file.write_all(content)
            .map_err(|error| write_error(path, error))?;
        file.persist(path)
            .map_err(|error| write_error(path, error.error))?;
        Ok(())
    }

    fn path(&self, name: &str, extension: &str) -> PathBuf {
        self.directory.join(format!("{name}.{extension}"))
    }
}

/// Identifies one state of a file without reading it, and the form that it was taken for. The time
/// of the last status change cannot be set back as the modification time can. `None` for a
/// directory: its manifests are small and read each time.
pub(super) fn identity(found: &Container) -> io::Result<Option<String>> {
    let metadata = fs::metadata(&found.path)?;
    if found.form == Form::OciDirectory {
        return Ok(None);
    }
    let mut text = String::new();
    let _ = write!(
        text,
        "{:?} {} {} {} {} {} {} {:?}",
        found.form,
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
        found.name
    );
    Ok(Some(manifest::key(&text)))
}

fn write_error(path: &Path, source: io::Error) -> Error {
    Error::Write {
        path: path.into(),
        source,
    }
}

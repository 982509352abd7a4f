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

use super::manifest;
use super::model::{Container, ContainerConfig, ContainerRoot, Form};
use super::new_file::{self, New};
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
        new_file::clean(directory);
        Ok(Self {
            directory: directory.into(),
        })
    }

    /// A cache that is read only, and need not be there.
    pub(super) fn existing(directory: &Path) -> Self {
        Self {
            directory: directory.into(),
        }
    }

    /// A root by its key, which need not be there.
    pub(super) fn root(&self, key: &str, config: ContainerConfig) -> ContainerRoot {
        ContainerRoot {
            image: self.path(key, "erofs"),
            filesystem: Filesystem::Erofs,
            config,
        }
    }

    pub(super) fn by_identity(&self, identity: &str) -> Option<ContainerRoot> {
        let key = fs::read_to_string(self.path(identity, "ref")).ok()?;
        self.by_key(key.trim_end())
    }

    pub(super) fn by_key(&self, key: &str) -> Option<ContainerRoot> {
        let stored = fs::read(self.path(key, "json")).ok()?;
        let stored: Stored = serde_json::from_slice(&stored).ok()?;
        let root = self.root(key, stored.config);
        let whole = fs::metadata(&root.image).ok()?.len() == stored.length;
        whole.then_some(root)
    }

    /// A new file beside the cached ones, so that it can be named as one of them.
    pub(super) fn temporary(&self) -> Result<New, Error> {
        New::in_directory(&self.directory).map_err(|error| write_error(&self.directory, error))
    }

    pub(super) fn store(
        &self,
        image: New,
        key: &str,
        config: &ContainerConfig,
    ) -> Result<ContainerRoot, Error> {
        let path = self.path(key, "erofs");
        let length = image
            .file()
            // After a crash a name must not lead to an image without its data.
            .sync_data()
            .and_then(|()| image.file().metadata())
            .map_err(|error| write_error(&path, error))?
            .len();
        image
            .name(&path)
            .map_err(|error| write_error(&path, error))?;
        let stored = serde_json::to_vec(&Stored {
            length,
            config: config.clone(),
        })
        .map_err(|error| write_error(&path, error.into()))?;
        self.replace(&self.path(key, "json"), &stored)?;
        Ok(self.root(key, config.clone()))
    }

    pub(super) fn remember(&self, identity: &str, key: &str) -> Result<(), Error> {
        self.replace(&self.path(identity, "ref"), key.as_bytes())
    }

    fn replace(&self, path: &Path, content: &[u8]) -> Result<(), Error> {
        let new = self.temporary()?;
        let written = new.file().write_all(content);
        written
            .and_then(|()| new.name(path))
            .map_err(|error| write_error(path, error))
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

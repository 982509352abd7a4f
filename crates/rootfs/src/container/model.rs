//! Container images as they are named, found and run.

use std::path::PathBuf;

use rustix::fs::StatVfs;
use serde::{Deserialize, Serialize};

use crate::Filesystem;

/// What form a container image has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A directory with an OCI image layout.
    OciDirectory,
    /// A tar archive of an OCI image layout.
    OciArchive,
    /// What `docker save` writes.
    DockerArchive,
    /// A root file system packed as tar.
    Tarball,
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::OciDirectory => "OCI layout",
            Self::OciArchive => "OCI archive",
            Self::DockerArchive => "docker archive",
            Self::Tarball => "root file system as tar archive",
        })
    }
}

/// A container image that was found, not yet unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The file or directory.
    pub path: PathBuf,
    /// What form it has.
    pub form: Form,
    /// Which of several images: what followed `#`.
    pub name: Option<String>,
}

/// How the image wants its program to be run. Everything is empty for a plain tar archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerConfig {
    /// `NAME=value`, in order.
    pub env: Vec<String>,
    /// Words before the command.
    pub entrypoint: Vec<String>,
    /// The command unless another is given.
    pub cmd: Vec<String>,
    /// The directory to start in; empty means `/`.
    pub workdir: String,
    /// `user`, `uid`, `user:group` or `uid:gid`; empty means root.
    pub user: String,
    /// The image's users and groups; `None` before it is unpacked.
    #[serde(default)]
    pub accounts: Option<Accounts>,
}

/// Lists of the users and groups of an image. Empty where there is none, or one beyond 1 MiB.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounts {
    /// `/etc/passwd`; see passwd(5).
    pub passwd: String,
    /// `/etc/group`; see group(5).
    pub group: String,
}

/// A container image ready to be mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerRoot {
    /// The erofs image, in the cache.
    pub image: PathBuf,
    /// Always [`Filesystem::Erofs`].
    pub filesystem: Filesystem,
    /// How to run what is in it.
    pub config: ContainerConfig,
}

/// Bounds on what an image may ask of us.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Entries in all layers together.
    pub(super) entries: u64,
    /// Memory for the tree, in bytes.
    pub(super) memory: u64,
    /// Bytes of all layers unpacked, and of the files in the image.
    pub(super) content: u64,
    /// Bytes of the file system that stay free.
    pub(super) reserve: fn(&StatVfs) -> u64,
}

impl Default for Limits {
    /// A desktop has about half a million files, which take some 150 MB.
    fn default() -> Self {
        Self {
            entries: 4_000_000,
            memory: 768 << 20,
            content: 256 << 30,
            reserve,
        }
    }
}

/// Bytes that stay free: 5 % of the file system, at most 1 GiB.
fn reserve(file_system: &StatVfs) -> u64 {
    let total = file_system.f_blocks.saturating_mul(file_system.f_frsize);
    (total / 20).min(1 << 30)
}

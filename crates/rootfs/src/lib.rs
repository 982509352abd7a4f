//! Roots: identification of the argument of `--root`, and conversion to what a guest can mount.
//!
//! [`detect`] looks at a path and its first bytes. A directory is shared with the guest, a disk
//! image is a block device in it, and a container image becomes a disk image first
//! ([`container()`]). [`Found::explain`] describes all of that in words.

mod container;
mod detect;
mod disk;
mod error;
mod fault;
mod filesystem;
mod format;
mod image;
mod magic;
mod partition;
mod qcow2;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use container::{
    Accounts, Container, ContainerConfig, ContainerRoot, Form, container, container_unread,
};
pub use detect::{detect, format_of};
pub use disk::Disk;
pub use error::Error;
pub use fault::Fault;
pub use filesystem::Filesystem;
pub use format::Format;
pub use image::{Image, image};
pub use partition::{Partition, Reason};
pub use qcow2::{Backing, backing_chain};

/// Kind of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found {
    /// A directory to share with the guest.
    Directory(Directory),
    /// A container image to unpack.
    Container(Container),
    /// A disk image or block device to attach.
    Disk(Disk),
}

/// A directory that may be a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Path of the directory.
    pub path: PathBuf,
    /// A reason to doubt that it is a root.
    pub warning: Option<DirectoryWarning>,
}

/// Reason why a directory may not be a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DirectoryWarning {
    /// It has neither `usr/bin` nor `bin` nor `etc`.
    NoSystem,
}

impl std::fmt::Display for DirectoryWarning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSystem => f.write_str(
                "it has no usr/bin, bin or etc and does not look like the root of a system; \
                 is it the directory above or below?",
            ),
        }
    }
}

impl Found {
    /// Describes what was found and what will be done with it, in one or more lines.
    pub fn explain(&self) -> String {
        match self {
            Self::Directory(directory) => {
                let mut text = format!(
                    "{} is a directory, shared with the guest",
                    directory.path.display()
                );
                if let Some(warning) = directory.warning {
                    text += &format!("\nwarning: {warning}");
                }
                text
            }
            Self::Container(container) => {
                let name = container.name.as_ref();
                let name = name.map(|name| format!(", of which {name} is taken"));
                format!(
                    "{} is a container image ({}){}; it is unpacked into a read-only erofs image \
                     and attached as /dev/vda",
                    container.path.display(),
                    container.form,
                    name.unwrap_or_default()
                )
            }
            Self::Disk(disk) => disk.explain(),
        }
    }
}

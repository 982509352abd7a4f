//! The root file system a guest gets.

use std::path::{Path, PathBuf};

use brisk_vm::cache::Cache;
use brisk_vm::qemu::{Disk, DiskFormat};
use brisk_vm::root::{self, Found};

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
    let failed = |source| Error::Root {
        argument: argument.clone(),
        source: Box::new(source),
    };
    let found = root::detect(Path::new(argument)).map_err(failed)?;
    let mut notes = Vec::new();
    let root = match found {
        Found::Directory(directory) => {
            notes.extend(
                directory
                    .warning
                    .map(|warning| format!("{argument}: {warning}")),
            );
            Root::Directory {
                path: directory.path,
                host: false,
            }
        }
        Found::Container(container) => {
            if options.writable {
                return Err(Error::unfit(
                    "--rw cannot change a container image",
                    "unpack it into a directory and use that as root",
                ));
            }
            let mut report = |done: u64, total: u64| {
                if let Some(percent) = (done * 100).checked_div(total) {
                    progress(&format!("unpacking {argument}: {percent} %"));
                }
            };
            let unpacked =
                root::container(&container, &cache.dir().join("containers"), &mut report)
                    .map_err(failed)?;
            let config = unpacked.config;
            Root::Disk {
                disk: Disk {
                    path: unpacked.image,
                    format: DiskFormat::Raw,
                    writable: false,
                    sector_size: 512,
                },
                device: "/dev/vda".into(),
                filesystem: unpacked.filesystem.name().into(),
                modules: names(unpacked.filesystem.kernel_modules()),
                image: ImageDefaults {
                    env: config.env,
                    entrypoint: config.entrypoint,
                    cmd: config.cmd,
                    workdir: Some(config.workdir).filter(|dir| !dir.is_empty()),
                    user: Some(config.user).filter(|user| !user.is_empty()),
                },
            }
        }
        Found::Disk(disk) => {
            if options.writable && disk.filesystem.is_read_only() {
                return Err(Error::unfit(
                    format!(
                        "{argument} is {}, which cannot be written",
                        disk.filesystem.name()
                    ),
                    "leave out --rw: writes then go to memory",
                ));
            }
            Root::Disk {
                device: disk.device(),
                filesystem: disk.filesystem.name().into(),
                modules: names(disk.kernel_modules()),
                disk: Disk {
                    path: disk.path,
                    format: match disk.format {
                        root::Format::Raw => DiskFormat::Raw,
                        root::Format::Qcow2 => DiskFormat::Qcow2,
                    },
                    writable: options.writable,
                    sector_size: disk.sector_size,
                },
                image: ImageDefaults::default(),
            }
        }
        other => {
            return Err(Error::unfit(
                format!("{argument}: {}", other.explain()),
                "use another root",
            ));
        }
    };
    Ok((root, notes))
}

fn names(modules: &[&str]) -> Vec<String> {
    modules.iter().map(|&name| name.to_owned()).collect()
}

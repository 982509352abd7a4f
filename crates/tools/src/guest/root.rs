//! Root file system and disks of a guest.

use std::path::{Path, PathBuf};

use brisk_host::dirs::Dirs;
use brisk_rootfs::{Accounts, Found};
use brisk_vm::cache::Cache;
use brisk_vm::qemu::{Backing, Disk, DiskFormat};

use super::error::Error;
use super::options::{ExtraDisk, Options, RootOption};
use crate::reservation::{self, Conflict};

/// A root file system that was found and prepared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// Only the initramfs.
    None,
    /// A directory of the host.
    Directory {
        /// Path of the directory.
        path: PathBuf,
        /// Whether it is the host's own root.
        host: bool,
    },
    /// An image.
    Disk {
        /// Disk for QEMU.
        disk: Box<Disk>,
        /// Node in the guest.
        device: String,
        /// Type for `mount(2)`.
        filesystem: String,
        /// Modules that the type needs.
        modules: Vec<String>,
        /// Defaults of a container image for commands.
        image: ImageDefaults,
    },
}

impl Root {
    /// Whether it is a directory of the host, which is served to the guest.
    pub(super) fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }
}

/// A disk besides the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// Disk for QEMU.
    pub disk: Disk,
    /// Modules that its file systems need.
    pub modules: Vec<String>,
}

/// Most disks of a guest.
const DISKS: usize = 16;

/// Defaults of a container image for its command.
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
    /// Its lists of users and groups, if it is a container image that has been unpacked.
    pub accounts: Option<Box<Accounts>>,
}

/// A root, and notes on it.
type Noted = (Root, Vec<String>);

/// Finds what `--root` names; unpacks a container image if that is not done yet.
pub(crate) fn find(
    options: &Options,
    cache: &Cache,
    progress: &mut dyn FnMut(&str),
) -> Result<Noted, Error> {
    let argument = match &options.root.source {
        RootOption::None => return Ok((Root::None, Vec::new())),
        RootOption::Host => return Ok((of_host(options.root.access.is_writable())?, Vec::new())),
        RootOption::Path(argument) => argument,
    };
    let failed = |source| Error::Root {
        argument: argument.clone(),
        source: Box::new(source),
    };
    let known = options.root.format.map(known);
    let root = match brisk_rootfs::detect(Path::new(argument), known).map_err(failed)? {
        Found::Directory(directory) => {
            let warning = directory.warning;
            let notes = warning.map(|warning| format!("{argument}: {warning}"));
            let root = Root::Directory {
                path: directory.path,
                host: false,
            };
            return Ok((root, notes.into_iter().collect()));
        }
        Found::Container(_) if options.root.access.is_writable() => {
            return Err(Error::unfit(
                "--rw cannot change a container image",
                "unpack it into a directory and use that as root",
            ));
        }
        Found::Container(container) => {
            let mut report = |done: u64, total: u64| {
                if let Some(percent) = (done * 100).checked_div(total) {
                    progress(&format!("unpacking {argument}: {percent} %"));
                }
            };
            let images = cache.dir().join("containers");
            let unpacked = match options.root.unread {
                true => brisk_rootfs::container_unread(&container, &images),
                false => brisk_rootfs::container(&container, &images, &mut report),
            };
            of_container(unpacked.map_err(failed)?)
        }
        Found::Disk(disk)
            if options.root.access.is_writable() && disk.filesystem.is_read_only() =>
        {
            return Err(Error::unfit(
                format!(
                    "{argument} is {}, which cannot be written",
                    disk.filesystem.name()
                ),
                "leave out --rw: writes then go to memory",
            ));
        }
        Found::Disk(disk) => of_disk(disk, options.root.access.is_writable()),
        other => {
            return Err(Error::unfit(
                format!("{argument}: {}", other.explain()),
                "use another root",
            ));
        }
    };
    Ok((root, Vec::new()))
}

/// The host's own root, which no guest may change.
fn of_host(writable: bool) -> Result<Root, Error> {
    if writable {
        return Err(Error::unfit(
            "--rw would let the guest change the host's own root",
            "share the directory that it shall change with --share HOST:GUEST",
        ));
    }
    Ok(Root::Directory {
        path: "/".into(),
        host: true,
    })
}

/// The image that a container's was unpacked to.
fn of_container(unpacked: brisk_rootfs::ContainerRoot) -> Root {
    let config = unpacked.config;
    Root::Disk {
        disk: Box::new(Disk {
            path: unpacked.image,
            format: DiskFormat::Raw,
            backing: Vec::new(),
            device: false,
            writable: false,
            sector_size: 512,
        }),
        device: "/dev/vda".into(),
        filesystem: unpacked.filesystem.name().into(),
        modules: names(unpacked.filesystem.kernel_modules()),
        image: ImageDefaults {
            env: config.env,
            entrypoint: config.entrypoint,
            cmd: config.cmd,
            workdir: Some(config.workdir).filter(|dir| !dir.is_empty()),
            user: Some(config.user).filter(|user| !user.is_empty()),
            accounts: config.accounts.map(Box::new),
        },
    }
}

/// A disk's image or a block device.
fn of_disk(disk: brisk_rootfs::Disk, writable: bool) -> Root {
    Root::Disk {
        device: disk.device(),
        filesystem: disk.filesystem.name().into(),
        modules: names(disk.kernel_modules()),
        disk: Box::new(Disk {
            device: disk.device,
            path: disk.path,
            format: format(disk.format),
            backing: backing(&disk.backing),
            writable,
            sector_size: disk.sector_size,
        }),
        image: ImageDefaults::default(),
    }
}

/// Examines the disks of `--disk`.
pub(crate) fn attach(options: &Options, root: &Root) -> Result<Vec<Attached>, Error> {
    let attach = |extra: &ExtraDisk| {
        let found = brisk_rootfs::image(&extra.path, extra.format.map(known));
        let found = found.map_err(|error| Error::Disk(error.into()))?;
        let modules = found
            .filesystems
            .iter()
            .flat_map(|one| one.kernel_modules());
        Ok(Attached {
            modules: modules.map(|&name| name.to_owned()).collect(),
            disk: Disk {
                path: found.path,
                format: format(found.format),
                backing: backing(&found.backing),
                device: found.device,
                writable: extra.writable,
                sector_size: found.sector_size,
            },
        })
    };
    let attached = options.hardware.disks.iter().map(attach);
    let attached = attached.collect::<Result<Vec<_>, Error>>()?;
    let first = match root {
        Root::Disk { disk, .. } => Some(&**disk),
        _ => None,
    };
    let all: Vec<_> = first
        .into_iter()
        .chain(attached.iter().map(|one| &one.disk))
        .collect();
    if all.len() > DISKS {
        return Err(Error::unfit(
            format!("{} disks, and a guest has {DISKS} at most", all.len()),
            "leave some out, or put them into one image with partitions",
        ));
    }
    for (index, disk) in all.iter().enumerate() {
        let same = |other: &&&Disk| other.path == disk.path && (other.writable || disk.writable);
        if let Some(twice) = all[..index].iter().find(same) {
            return Err(Error::unfit(
                format!("{} is there twice, and written to", twice.path.display()),
                "a guest that has a disk twice destroys what is on it; leave one out",
            ));
        }
    }
    is_free(&all)?;
    Ok(attached)
}

/// Checks that no suspended VM has one of the disks.
fn is_free(disks: &[&Disk]) -> Result<(), Error> {
    let written = disks.iter().filter(|disk| disk.writable);
    let Some(state) = Dirs::here().state() else {
        return Ok(());
    };
    let written = written.map(|disk| &*disk.path);
    match reservation::conflict(written, &state.join("vm")) {
        None => Ok(()),
        Some(Conflict { path, machine }) => Err(Error::Reserved { path, machine }),
    }
}

const fn format(format: brisk_rootfs::Format) -> DiskFormat {
    match format {
        brisk_rootfs::Format::Raw => DiskFormat::Raw,
        brisk_rootfs::Format::Qcow2 => DiskFormat::Qcow2,
    }
}

const fn known(format: DiskFormat) -> brisk_rootfs::Format {
    match format {
        DiskFormat::Raw => brisk_rootfs::Format::Raw,
        DiskFormat::Qcow2 => brisk_rootfs::Format::Qcow2,
    }
}

/// Backing chain for QEMU.
pub(crate) fn backing(chain: &[brisk_rootfs::Backing]) -> Vec<Backing> {
    let chain = chain.iter().map(|one| Backing {
        path: one.path.clone(),
        format: format(one.format),
    });
    chain.collect()
}

fn names(modules: &[&str]) -> Vec<String> {
    modules.iter().map(|&name| name.to_owned()).collect()
}

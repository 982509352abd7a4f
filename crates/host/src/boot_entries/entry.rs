//! What boot loaders offer.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use super::once::Once;

/// Boot loader, or what takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loader {
    /// GRUB 2, with its own entries or those of the Boot Loader Specification.
    Grub,
    /// systemd-boot: entries of the Boot Loader Specification and unified kernel images.
    SystemdBoot,
    /// extlinux, or U-Boot with its configuration.
    Extlinux,
    /// The firmware starts a unified kernel image.
    Firmware,
    /// None was found: kernels by where distributions install them.
    None,
}

impl Loader {
    /// Name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Grub => "GRUB",
            Self::SystemdBoot => "systemd-boot",
            Self::Extlinux => "extlinux",
            Self::Firmware => "the firmware",
            Self::None => "no boot loader",
        }
    }
}

/// What an entry starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A Linux kernel, with initial RAM disks and a command line.
    Linux,
    /// A unified kernel image.
    Uki,
    /// Something else: another boot loader, a hypervisor, the firmware's setup.
    Other,
}

/// Boots of an entry that are counted until one succeeds (Boot Loader Specification, "Boot
/// counting").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tries {
    /// Boots that are left.
    pub left: u32,
    /// Boots that failed.
    pub done: u32,
}

/// Problem of an entry. Its text is a sentence without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// There is no such file.
    NoKernel(PathBuf),
    /// The kernel cannot be read, with the error of the system.
    Unreadable(PathBuf, String),
    /// There is no such file.
    NoInitrd(PathBuf),
    /// None was found where distributions have it.
    InitrdUnknown,
    /// The files are on a file system that is not mounted.
    Elsewhere,
}

impl Problem {
    /// Whether it is about initial RAM disks alone.
    #[must_use]
    pub fn is_of_initrd(&self) -> bool {
        matches!(self, Self::NoInitrd(_) | Self::InitrdUnknown)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKernel(path) => write!(f, "the kernel {} is not there", path.display()),
            Self::Unreadable(path, error) => {
                write!(f, "the kernel {} cannot be read: {error}", path.display())
            }
            Self::NoInitrd(path) => {
                write!(f, "the initial RAM disk {} is not there", path.display())
            }
            Self::InitrdUnknown => f.write_str("no initial RAM disk was found for it"),
            Self::Elsewhere => {
                f.write_str("its files are on a file system that is not mounted here")
            }
        }
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An entry of a boot loader, or a kernel that no entry has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// How the boot loader calls it: what `grub-reboot` or `bootctl set-oneshot` take. Of a kernel
    /// that no entry has, its path.
    pub id: String,
    /// Title as the menu shows it.
    pub title: String,
    /// Titles of the menus that it is in, the outermost one first.
    pub menus: Vec<String>,
    /// Number from 0, in GRUB with those of its menus: `1>2`. None of a kernel that no entry has.
    pub number: Option<String>,
    /// What it starts.
    pub kind: Kind,
    /// Release of the kernel as `uname -r` shows it; empty if the image does not say it.
    pub release: String,
    /// Path of the kernel on the system; empty if it starts something that has none.
    pub kernel: PathBuf,
    /// Paths of initial RAM disks on the system, in their order.
    pub initrds: Vec<PathBuf>,
    /// Kernel command line, without `BOOT_IMAGE=` and `initrd=`.
    pub options: String,
    /// File that it was read from.
    pub source: PathBuf,
    /// Boots that are counted.
    pub tries: Option<Tries>,
    /// Problems: without any it can be started.
    pub problems: Vec<Problem>,
}

impl Entry {
    /// Whether it starts a kernel, all of whose files are there.
    #[must_use]
    pub fn is_bootable(&self) -> bool {
        self.kind != Kind::Other && self.problems.is_empty()
    }

    /// Title with those of its menus, as GRUB has them in `saved_entry`.
    #[must_use]
    pub fn full_title(&self) -> String {
        let titles = self.menus.iter().chain([&self.title]);
        let titles: Vec<_> = titles.map(|title| title.replace('>', ">>")).collect();
        titles.join(">")
    }
}

/// An entry that is chosen, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// Index in [`BootEntries::entries`].
    pub entry: usize,
    /// Reason, a sentence without its end.
    pub reason: String,
    /// Whether it is for the next boot alone.
    pub is_once: bool,
}

/// What a system's boot loader offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BootEntries {
    /// The boot loader.
    pub loader: Loader,
    /// Why it is taken to be that one, a sentence without its end.
    pub reason: String,
    /// Entries in the order of the boot loader, and then kernels that no entry has.
    pub entries: Vec<Entry>,
    /// Entry that is started if nobody chooses another one.
    pub default: Option<Choice>,
    /// Entry that is started at the next boot: the default, unless one was chosen for that boot
    /// alone, or the default cannot be started.
    pub next: Option<Choice>,
    /// What the boot loader takes back as it runs next.
    #[serde(skip)]
    pub once: Option<Once>,
    /// What could not be read or understood, each a sentence without its end.
    pub notes: Vec<String>,
}

/// Entries of one boot loader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) entries: Vec<Entry>,
    pub(super) default: Option<Choice>,
    pub(super) next: Option<Choice>,
    pub(super) once: Option<Once>,
    pub(super) notes: Vec<String>,
}

/// Note that a file of a boot loader cannot be read.
pub(super) fn unreadable(path: &Path, error: &io::Error) -> String {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => "; try it as root",
        _ => "",
    };
    format!("{} cannot be read: {error}{hint}", path.display())
}

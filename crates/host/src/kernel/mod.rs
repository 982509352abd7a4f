//! Installed kernels: where distributions put them, which is newest, which one a selector means.
//!
//! Every reader takes the root to look under, so that a captured tree or a mounted image can be
//! examined like the running machine.

mod error;
mod find;
mod resolve;
mod version;

use std::path::PathBuf;

pub use error::Error;
pub use find::installed;
pub use resolve::{resolve, running};
pub use version::{HEADER_LEN, banner, bzimage_version, compare, image_version};
pub(crate) use version::{name_version, version_in};

/// A kernel image with what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Installed {
    /// Kernel release as `uname -r` shows it; empty if the image does not have it.
    pub version: String,
    /// The kernel image: bzImage, ELF, UKI, or a compressed ELF.
    pub image: PathBuf,
    /// The modules directory of that release, if there is one.
    pub modules: Option<PathBuf>,
    /// The build configuration, if installed.
    pub config: Option<PathBuf>,
    /// Convention by which it was found.
    pub source: Convention,
}

/// Naming convention by which a kernel was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Convention {
    /// `/boot/vmlinuz-V` or `/boot/vmlinux-V[.xz]` (Debian, Ubuntu, Fedora, RHEL, SUSE).
    Boot,
    /// `/boot/vmlinuz-PKGBASE`, the release through `/usr/lib/modules/*/pkgbase` (Arch).
    Pkgbase,
    /// `$BOOT/TOKEN/V/linux` (kernel-install, systemd-boot).
    KernelInstall,
    /// `EFI/Linux/*.efi`, a unified kernel image.
    Uki,
    /// `/usr/lib/modules/V/vmlinuz` (Fedora, Arch, SUSE).
    Modules,
    /// Named by its path.
    Path,
}

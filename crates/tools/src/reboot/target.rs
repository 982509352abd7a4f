//! Kernel that a machine is to be restarted into.

use std::path::PathBuf;

use serde::Serialize;

/// A kernel with what it is started with. Paths are absolute, on the system that is restarted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    /// Release as `uname -r` shows it; empty if the image does not say it.
    pub release: String,
    /// Kernel image: bzImage, or a unified kernel image.
    pub kernel: PathBuf,
    /// Initial RAM disks, which the kernel gets one after the other; none of a unified kernel image,
    /// which contains its own.
    pub initrds: Vec<PathBuf>,
    /// Kernel command line, without `BOOT_IMAGE=` and `initrd=`.
    pub cmdline: String,
    /// Whether the image is a unified kernel image.
    pub is_uki: bool,
}

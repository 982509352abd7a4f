//! Kernel that a machine is to be restarted into.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, Serializer};

/// A kernel with what it is started with. Paths are absolute, on the system that is restarted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Release as `uname -r` shows it; empty if the image does not say it.
    pub release: String,
    /// Kernel image: bzImage, or a unified kernel image.
    #[serde(serialize_with = "lossy")]
    pub kernel: PathBuf,
    /// Initial RAM disks, which the kernel gets one after the other; none of a unified kernel image,
    /// which contains its own.
    #[serde(serialize_with = "all_lossy")]
    pub initrds: Vec<PathBuf>,
    /// Kernel command line, without `BOOT_IMAGE=` and `initrd=`.
    pub cmdline: String,
    /// Whether the image is a unified kernel image.
    pub is_uki: bool,
}

/// A path as text: names of files are any bytes, and JSON has only Unicode.
fn lossy<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&path.display())
}

fn all_lossy<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}

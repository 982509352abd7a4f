//! Partitions that systemd-boot reads, and where they are mounted.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use crate::tree::Tree;

/// Where the EFI system partition and the one of extended boot loaders may be mounted.
pub(super) const PARTITIONS: [&str; 3] = ["/efi", "/boot/efi", "/boot"];

/// The partition that a file is on, by its path.
pub(super) fn partition_of(path: &Path) -> Option<&'static str> {
    let mut partitions = PARTITIONS;
    partitions.sort_by_key(|it| Reverse(it.len()));
    partitions.into_iter().find(|it| path.starts_with(it))
}

/// Path of a file that is named on a partition, with `\\` or `/`.
pub(super) fn on_partition(partition: &str, path: &str) -> PathBuf {
    Path::new(partition).join(path.replace('\\', "/").trim_start_matches('/'))
}

/// Directories with this name on the partitions, each once.
pub(super) fn directories(tree: &Tree, name: &str) -> Vec<(&'static str, PathBuf)> {
    let mut found = Vec::new();
    let mut known = Vec::new();
    for partition in PARTITIONS {
        let path = Path::new(partition).join(name);
        let Some(resolved) = tree.resolved(&path).filter(|_| tree.is_dir(&path)) else {
            continue;
        };
        if !known.contains(&resolved) {
            known.push(resolved);
            found.push((partition, path));
        }
    }
    found
}

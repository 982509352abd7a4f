//! Partitions that proxmox-boot-tool copies kernels to: the machine starts from them, and not from
//! `/boot` (`system-booting.adoc` of pve-docs).

use std::path::Path;

use super::mounts::Mounts;
use crate::tree::Tree;

/// UUIDs of their file systems.
const UUIDS: &str = "/etc/kernel/proxmox-boot-uuids";

fn uuids(tree: &Tree) -> Vec<String> {
    let text = tree.text(Path::new(UUIDS)).unwrap_or_default();
    let lines = text.lines().map(str::trim);
    let uuids = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    uuids.map(str::to_owned).collect()
}

/// Whether there are such partitions.
pub(super) fn names_partitions(tree: &Tree) -> bool {
    !uuids(tree).is_empty()
}

/// Why it is not known what starts, where none of them is mounted.
pub(super) fn unmounted(tree: &Tree, mounts: &Mounts) -> Option<String> {
    let uuids = uuids(tree);
    let first = uuids.first()?;
    let is_mounted = uuids.iter().any(|uuid| mounts.has(uuid));
    (!is_mounted).then(|| {
        format!(
            "{UUIDS} names partitions that the machine starts from, and none of them is mounted; \
             try mount /dev/disk/by-uuid/{first} /boot/efi"
        )
    })
}

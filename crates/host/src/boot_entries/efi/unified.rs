//! Unified kernel images in `EFI/Linux`.

use super::super::image::Images;
use super::super::partition::directories;
use super::found::{Found, MOST_ENTRIES, without_tries};
use super::stub::Stub;
use crate::tree::Tree;

/// Entries of the images that systemd-boot finds, or that firmware may start.
pub(in crate::boot_entries) fn unified(tree: &Tree, stub: &Stub<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    for (_, directory) in directories(tree, "EFI/Linux") {
        let names = tree.names(&directory).unwrap_or_default();
        for name in names.into_iter().take(MOST_ENTRIES) {
            if !name.to_ascii_lowercase().ends_with(".efi") {
                continue;
            }
            let path = directory.join(&name);
            // Other programs are not searched for a release.
            let images = Images::new(tree);
            if !images.is_uki(&path) {
                continue;
            }
            let (mut entry, Some(uki)) = images.entry_and_uki(&path) else {
                continue;
            };
            let value = |names: &[&str]| {
                names
                    .iter()
                    .find_map(|name| uki.value(name))
                    .map(str::to_owned)
            };
            entry.title =
                value(&["PRETTY_NAME", "IMAGE_ID", "NAME", "ID"]).unwrap_or_else(|| name.clone());
            (entry.id, entry.tries) = without_tries(&name);
            stub.settle(&mut entry, "");
            entry.source = path;
            found.push(Found {
                entry,
                sort_key: value(&["IMAGE_ID", "ID"]),
                machine_id: String::new(),
                version: value(&["IMAGE_VERSION", "VERSION", "VERSION_ID", "BUILD_ID"])
                    .unwrap_or_default(),
                has_profiles: uki.has_profiles,
            });
        }
    }
    found
}

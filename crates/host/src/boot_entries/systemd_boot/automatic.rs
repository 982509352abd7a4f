//! Entries that systemd-boot makes itself.

use std::path::Path;

use super::super::entry::{Entry, Kind};
use super::super::image::Images;
use crate::tree::Tree;

/// Such entries, with the programs that they are made of.
const PROGRAMS: [(&str, &str, &str); 3] = [
    (
        "auto-windows",
        "Windows Boot Manager",
        "EFI/Microsoft/Boot/bootmgfw.efi",
    ),
    ("auto-efi-shell", "EFI Shell", "shellx64.efi"),
    ("auto-osx", "macOS", "System/Library/CoreServices/boot.efi"),
];

/// Entries that systemd-boot makes of other systems' boot loaders on these partitions
/// (`config_entry_add_loader_auto`).
pub(super) fn automatic(tree: &Tree, partitions: &[&str]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (id, title, program) in PROGRAMS {
        let mut paths = partitions.iter().map(|it| Path::new(it).join(program));
        if let Some(path) = paths.find(|path| tree.is_file(path)) {
            entries.push(Entry {
                id: id.to_owned(),
                title: title.to_owned(),
                kind: Kind::Other,
                kernel: path.clone(),
                source: path,
                ..Images::nothing()
            });
        }
    }
    entries
}

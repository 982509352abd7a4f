//! Boot loaders whose configurations are not read, and what tells that one is there: then it is not the
//! newest kernel that is next.

use std::path::{Path, PathBuf};

use super::partition::PARTITIONS;
use super::systemd_boot::entries_without_program;
use crate::tree::Tree;

/// Configurations, with the boot loader that reads them.
const CONFIGURATIONS: [(&str, &str); 12] = [
    ("/boot/grub/menu.lst", "GRUB Legacy"),
    ("/boot/grub/grub.conf", "GRUB Legacy"),
    ("/etc/lilo.conf", "LILO"),
    ("/etc/elilo.conf", "ELILO"),
    ("/etc/zipl.conf", "zipl"),
    ("/boot/boot.scr", "U-Boot"),
    ("/boot/armbianEnv.txt", "U-Boot"),
    ("/boot/uEnv.txt", "U-Boot"),
    ("/boot/firmware/config.txt", "the Raspberry Pi's firmware"),
    ("/boot/config.txt", "the Raspberry Pi's firmware"),
    ("/boot/refind_linux.conf", "rEFInd"),
    ("/boot/limine.conf", "Limine"),
];
/// Such files of a partition.
const ON_PARTITIONS: [(&str, &str); 8] = [
    ("limine.conf", "Limine"),
    ("limine.cfg", "Limine"),
    ("limine/limine.conf", "Limine"),
    ("EFI/limine/limine.conf", "Limine"),
    ("EFI/BOOT/limine.conf", "Limine"),
    ("EFI/refind/refind.conf", "rEFInd"),
    ("EFI/BOOT/refind.conf", "rEFInd"),
    ("EFI/zbm/config.yaml", "ZFSBootMenu"),
];

/// A note of what is there, a sentence without its end.
pub(super) fn configured(tree: &Tree) -> Option<String> {
    if let Some(directory) = entries_without_program(tree) {
        return Some(format!(
            "{} has entries, and neither systemd-boot (EFI/systemd/*.efi on that partition) nor a \
             grub.cfg that reads them was found",
            directory.display()
        ));
    }
    let fixed = CONFIGURATIONS
        .iter()
        .map(|(path, loader)| (PathBuf::from(path), *loader));
    let of_each = PARTITIONS.iter().flat_map(|partition| {
        let of = |(path, loader): &(&str, &'static str)| (Path::new(partition).join(path), *loader);
        ON_PARTITIONS.iter().map(of)
    });
    let (path, loader) = fixed.chain(of_each).find(|(path, _)| tree.is_file(path))?;
    Some(format!(
        "{} is there, the configuration of {loader}, which is not known here",
        path.display()
    ))
}

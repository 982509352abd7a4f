//! The program of systemd-boot: whether it is installed, and its version, on which it depends how
//! entries are chosen.

use std::path::{Path, PathBuf};

use crate::tree::Tree;

/// What stands before its name and version in the program.
const INFO: &[u8] = b"#### LoaderInfo: ";
/// What its name and version begin with.
const NAME: &str = "systemd-boot ";
/// Bytes of a program that are read at most.
const LONGEST_PROGRAM: u64 = 4 << 20;
/// Programs of a directory that are read at most.
const MOST_PROGRAMS: usize = 20;
/// Where it is on a partition: distributions may call it otherwise than `systemd-bootx64.efi`, such as
/// `grub.efi` behind a shim, and firmware starts the one in the latter by itself.
const DIRECTORIES: [&str; 2] = ["EFI/systemd", "EFI/BOOT"];

/// Whether systemd-boot is installed on a partition.
pub(super) fn is_installed(tree: &Tree, partition: &str) -> bool {
    let is_one = |path: PathBuf| is_named(&path) || information(tree, &path).is_some();
    tree.is_dir(&Path::new(partition).join("loader")) && programs(tree, partition).any(is_one)
}

/// Version of systemd-boot: of the one that started this system, by the EFI variable `LoaderInfo`, else
/// of the one that is installed on one of the partitions.
pub(super) fn version(tree: &Tree, partitions: &[&str], info: Option<&str>) -> Option<u32> {
    let number = |text: &str| {
        let rest = &text[text.find(NAME)? + NAME.len()..];
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        rest[..end].parse().ok()
    };
    info.and_then(number).or_else(|| {
        let mut all = partitions.iter().flat_map(|it| programs(tree, it));
        all.find_map(|path| number(&information(tree, &path)?))
    })
}

/// Programs that may be systemd-boot.
fn programs(tree: &Tree, partition: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let directories = DIRECTORIES.map(|it| Path::new(partition).join(it));
    let of_each = directories.map(|directory| {
        let names = tree.names(&directory).unwrap_or_default().into_iter();
        let is_program = |name: &String| name.to_ascii_lowercase().ends_with(".efi");
        let names = names.filter(is_program).take(MOST_PROGRAMS);
        names.map(|name| directory.join(name)).collect::<Vec<_>>()
    });
    of_each.into_iter().flatten()
}

fn is_named(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("systemd-boot"))
}

/// What the program says of itself, such as `systemd-boot 252.39-1`; none of another program.
fn information(tree: &Tree, path: &Path) -> Option<String> {
    let bytes = tree.bytes(path, LONGEST_PROGRAM).ok()?;
    let at = bytes.windows(INFO.len()).position(|it| it == INFO)?;
    let end = bytes.len().min(at + 100);
    let text = String::from_utf8_lossy(&bytes[at + INFO.len()..end]);
    text.starts_with(NAME).then(|| text.into_owned())
}

//! The version of systemd-boot, on which it depends what identifiers of entries are.

use std::path::Path;

use crate::tree::Tree;

/// What stands before the version in the program.
const INFO: &[u8] = b"#### LoaderInfo: ";
/// Bytes of the program that are read at most.
const LONGEST_PROGRAM: u64 = 4 << 20;

/// Version of systemd-boot: of the one that started this system, by the EFI variable `LoaderInfo`, else
/// of the one that is installed on one of the partitions.
pub(super) fn version(tree: &Tree, partitions: &[&str], info: Option<&str>) -> Option<u32> {
    const BEFORE: &str = "systemd-boot ";
    let number = |text: &str| {
        let rest = &text[text.find(BEFORE)? + BEFORE.len()..];
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        rest[..end].parse().ok()
    };
    info.and_then(number).or_else(|| {
        let mut programs = partitions.iter().flat_map(|partition| {
            let directory = Path::new(partition).join("EFI/systemd");
            let names = tree.names(&directory).unwrap_or_default();
            let names = names
                .into_iter()
                .filter(|name| name.starts_with("systemd-boot"));
            names.map(move |name| directory.join(name))
        });
        programs.find_map(|path| {
            // "#### LoaderInfo: systemd-boot 252.39-1 ####"
            let bytes = tree.bytes(&path, LONGEST_PROGRAM).ok()?;
            let at = bytes.windows(INFO.len()).position(|it| it == INFO)?;
            let end = bytes.len().min(at + 100);
            number(&String::from_utf8_lossy(&bytes[at..end]))
        })
    })
}

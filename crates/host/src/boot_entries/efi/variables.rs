//! EFI variables of boot loaders, and boot options of the firmware.
//!
//! Sources: efivarfs (`Documentation/filesystems/efivarfs.rst` of the kernel), the UEFI
//! Specification 2.10, sections 3.3 and 3.1.3, and the Boot Loader Interface of systemd.

use std::path::{Path, PathBuf};

use super::super::once::Once;
use crate::tree::Tree;

pub(in crate::boot_entries) const DIRECTORY: &str = "/sys/firmware/efi/efivars";
/// Vendor of the variables of boot loaders.
const LOADER: &str = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
/// Entry for the next run of the boot loader alone, which deletes it.
pub(in crate::boot_entries) const ONE_SHOT: &str = "LoaderEntryOneShot";
/// Vendor of the variables of the specification (`EFI_GLOBAL_VARIABLE`).
pub(in crate::boot_entries) const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// Bytes of a variable that are read at most.
const LONGEST: u64 = 64 << 10;
/// `LOAD_OPTION_ACTIVE`
const ACTIVE: u32 = 1;
/// Boot options that are listed at most.
const MOST_OPTIONS: usize = 100;

/// EFI variables.
#[derive(Debug, Clone, Copy)]
pub(in crate::boot_entries) struct Variables<'a> {
    tree: &'a Tree,
}

/// A boot option of the firmware.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::boot_entries) struct BootOption {
    pub(in crate::boot_entries) number: u16,
    pub(in crate::boot_entries) description: String,
    /// Path of the program on its partition, with `/`; none if it is no file.
    pub(in crate::boot_entries) path: Option<PathBuf>,
    /// What the program is given.
    pub(in crate::boot_entries) arguments: String,
    pub(in crate::boot_entries) is_active: bool,
}

impl<'a> Variables<'a> {
    pub(in crate::boot_entries) fn new(tree: &'a Tree) -> Self {
        Self { tree }
    }

    /// A variable of boot loaders that is text.
    pub(in crate::boot_entries) fn loader(&self, name: &str) -> Option<String> {
        Some(utf16(&self.value(name, LOADER)?)).filter(|text| !text.is_empty())
    }

    /// What the boot loader deletes as it runs.
    pub(in crate::boot_entries) fn once(&self) -> Option<Once> {
        let file = Path::new(DIRECTORY).join(format!("{ONE_SHOT}-{LOADER}"));
        let content = self.tree.bytes(&file, LONGEST).ok()?;
        Some(Once::Variable { file, content })
    }

    fn value(&self, name: &str, vendor: &str) -> Option<Vec<u8>> {
        let path = Path::new(DIRECTORY).join(format!("{name}-{vendor}"));
        let bytes = self.tree.bytes(&path, LONGEST).ok()?;
        // Attributes come first.
        Some(bytes.get(4..)?.to_vec())
    }

    pub(in crate::boot_entries) fn numbers(&self, name: &str) -> Vec<u16> {
        let value = self.value(name, GLOBAL).unwrap_or_default();
        let pairs = value.chunks_exact(2).take(MOST_OPTIONS);
        pairs
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
            .collect()
    }

    /// Whether Secure Boot is on; none if no variables are there.
    pub(in crate::boot_entries) fn is_secure(&self) -> Option<bool> {
        if !self.tree.is_dir(Path::new(DIRECTORY)) {
            return None;
        }
        let value = self.value("SecureBoot", GLOBAL);
        Some(value.is_some_and(|value| value.first() == Some(&1)))
    }

    /// The option that this system was started by.
    pub(in crate::boot_entries) fn current(&self) -> Option<BootOption> {
        self.option(*self.numbers("BootCurrent").first()?)
    }

    pub(in crate::boot_entries) fn option(&self, number: u16) -> Option<BootOption> {
        option(number, &self.value(&format!("Boot{number:04X}"), GLOBAL)?)
    }
}

/// Text up to its NUL.
fn utf16(bytes: &[u8]) -> String {
    let units = bytes
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let units: Vec<_> = units.take_while(|unit| *unit != 0).collect();
    String::from_utf16_lossy(&units)
}

/// Reads an `EFI_LOAD_OPTION`.
fn option(number: u16, bytes: &[u8]) -> Option<BootOption> {
    let attributes = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
    let length = u16::from_le_bytes(bytes.get(4..6)?.try_into().ok()?);
    let rest = bytes.get(6..)?;
    let end = rest.chunks_exact(2).position(|pair| pair == [0, 0])?;
    let description = utf16(rest);
    let rest = &rest[2 * end + 2..];
    let nodes = rest.get(..usize::from(length))?;
    Some(BootOption {
        number,
        description,
        path: file_path(nodes),
        arguments: utf16(&rest[usize::from(length)..]).trim().to_owned(),
        is_active: attributes & ACTIVE != 0,
    })
}

/// The file of a device path: its nodes of type 4 (media), subtype 4 (file path).
fn file_path(mut nodes: &[u8]) -> Option<PathBuf> {
    let mut path = String::new();
    while let [kind, subtype, low, high, ..] = *nodes {
        let length = usize::from(u16::from_le_bytes([low, high]));
        if length < 4 || kind == 0x7f {
            break;
        }
        let data = nodes.get(4..length)?;
        if (kind, subtype) == (4, 4) {
            path.push('/');
            path.push_str(utf16(data).trim_matches('\\'));
        }
        nodes = &nodes[length..];
    }
    Some(path.replace('\\', "/").into()).filter(|path: &PathBuf| !path.as_os_str().is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wide(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    fn load_option(path: &str, arguments: &str) -> Vec<u8> {
        let mut nodes = vec![4, 1, 8, 0, 1, 2, 3, 4];
        let name = wide(&format!("{path}\0"));
        nodes.extend([4, 4]);
        nodes.extend((name.len() as u16 + 4).to_le_bytes());
        nodes.extend(name);
        nodes.extend([0x7f, 0xff, 4, 0]);
        let mut bytes = 1_u32.to_le_bytes().to_vec();
        bytes.extend((nodes.len() as u16).to_le_bytes());
        bytes.extend(wide("Arch Linux\0"));
        bytes.extend(nodes);
        bytes.extend(wide(arguments));
        bytes
    }

    #[test]
    fn load_options_are_read() {
        let bytes = load_option(
            r"\vmlinuz-linux",
            r"root=/dev/sda2 initrd=\initramfs-linux.img",
        );
        let found = option(3, &bytes).unwrap();
        let expected = BootOption {
            number: 3,
            description: "Arch Linux".into(),
            path: Some("/vmlinuz-linux".into()),
            arguments: r"root=/dev/sda2 initrd=\initramfs-linux.img".into(),
            is_active: true,
        };
        assert_eq!(found, expected);
        for length in 0..bytes.len() {
            // Cut anywhere there is none, or a shorter one.
            let _ = option(3, &bytes[..length]);
        }
    }

    proptest! {
        #[test]
        fn hostile_options_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = option(0, &bytes);
            let _ = file_path(&bytes);
        }
    }
}

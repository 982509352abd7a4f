//! What waits for the firmware: EFI variables, and files on the EFI system partition.

use std::path::Path;

use brisk_host::{files, sysfs};

/// Vendor GUID of the variables that the UEFI specification defines.
const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// Of the Boot Loader Interface (systemd-boot and others).
const LOADER: &str = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
/// Of fwupd's EFI program (`FWUPDATE_GUID` of fwupd-efi).
const FWUPDATE: &str = "0abba7dc-e516-4167-bbf5-4d9d1c739416";
/// Bytes of a variable that are read: its attributes, and more than any of these has.
const LONGEST: u64 = 4096;
/// Bytes of attributes before the value (`Documentation/filesystems/efivarfs.rst`).
const ATTRIBUTES: usize = 4;
/// Place of the status in fwupd's `struct efi_update_info`: a version, a GUID, flags, a number of
/// the hardware and a time are before it.
const STATUS: usize = 4 + 16 + 4 + 8 + 16;
/// The update is to be made at the next boot (`FWUPDATE_ATTEMPT_UPDATE`).
const ATTEMPT: u32 = 1;
/// Where an EFI system partition may be mounted.
const MOUNTS: [&str; 4] = ["boot/efi", "efi", "boot", "esp"];

/// Work for the firmware, which a warm reboot does not run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Firmware {
    /// Whether the machine started by UEFI.
    pub is_efi: bool,
    /// Whether Secure Boot is on.
    pub has_secure_boot: bool,
    /// Bits of `OsIndications`; 0 if nothing is asked for.
    pub os_indications: u64,
    /// Number of the entry that `BootNext` names.
    pub boot_next: Option<u16>,
    /// Whether the boot loader counts this boot (`LoaderBootCountPath`).
    pub counts_boots: bool,
    /// Names of variables of updates that fwupd has prepared.
    pub updates: Vec<String>,
    /// Files of capsules that the firmware takes from its partition.
    pub capsules: Vec<String>,
}

impl Firmware {
    pub(super) fn read(root: &Path, unread: &mut Vec<String>) -> Self {
        let directory = root.join("sys/firmware/efi/efivars");
        let value = |name: &str, vendor: &str| {
            let bytes = files::start(&directory.join(format!("{name}-{vendor}")), LONGEST).ok()?;
            bytes.get(ATTRIBUTES..).map(<[u8]>::to_vec)
        };
        let is_efi = root.join("sys/firmware/efi").is_dir();
        let names = sysfs::names(root, "firmware/efi/efivars");
        if is_efi && names.is_empty() {
            unread
                .push("EFI variables: efivarfs is not mounted at /sys/firmware/efi/efivars".into());
        }
        let is_waiting = |name: &&String| {
            let vendor = name.strip_suffix(FWUPDATE);
            let stem = vendor.and_then(|stem| stem.strip_suffix('-'));
            let bytes = stem.and_then(|stem| value(stem, FWUPDATE));
            bytes.is_some_and(|bytes| number(&bytes, STATUS, 4) == Some(u64::from(ATTEMPT)))
        };
        let mut updates: Vec<_> = names.iter().filter(is_waiting).cloned().collect();
        updates.sort();
        let boot_next = value("BootNext", GLOBAL).and_then(|bytes| number(&bytes, 0, 2));
        Self {
            is_efi,
            has_secure_boot: value("SecureBoot", GLOBAL).is_some_and(|bytes| bytes == [1]),
            os_indications: value("OsIndications", GLOBAL)
                .and_then(|bytes| number(&bytes, 0, 8))
                .unwrap_or(0),
            boot_next: boot_next.and_then(|number| u16::try_from(number).ok()),
            counts_boots: value("LoaderBootCountPath", LOADER).is_some(),
            updates,
            capsules: capsules(root),
        }
    }
}

/// A number of some bytes, the lowest first.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + size)?.iter().rev();
    Some(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Files in `\EFI\UpdateCapsule` ("Delivery of Capsules via file on Mass Storage Device" of the
/// UEFI specification).
fn capsules(root: &Path) -> Vec<String> {
    let below = MOUNTS.iter().flat_map(|mount| {
        let directory = format!("{mount}/EFI/UpdateCapsule");
        let entries = std::fs::read_dir(root.join(&directory));
        let entries = entries.into_iter().flatten().flatten();
        let path = move |entry: std::fs::DirEntry| {
            format!("/{directory}/{}", entry.file_name().to_string_lossy())
        };
        entries.map(path)
    });
    let mut all: Vec<_> = below.take(256).collect();
    all.sort();
    all
}

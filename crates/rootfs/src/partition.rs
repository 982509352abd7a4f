//! Partition tables. Parsing is pure and accepts any bytes; existing crates either assert on a
//! table's content or allocate as much as it asks for.

use std::fmt;

use crc::{CRC_32_ISO_HDLC, Crc};

use super::filesystem::Filesystem;

/// UEFI specification 2.10, section 5.3: type `4f68bce3-e8cd-4db1-96e7-fbcaf984b709`, root x86-64
/// (UAPI Discoverable Partitions Specification), as stored: the first three parts little-endian.
const ROOT_X86_64: [u8; 16] = [
    0xe3, 0xbc, 0x68, 0x4f, 0xcd, 0xe8, 0xb1, 0x4d, 0x96, 0xe7, 0xfb, 0xca, 0xf9, 0x84, 0xb7, 0x09,
];
const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);
/// 128 entries are usual; the kernel's own bound is about this (block/partitions/efi.c).
const ENTRIES_MAX: u32 = 256;

/// Bytes of the start of a disk that [`gpt`] may need.
pub(super) const TABLE: usize = 4096 * 2 + ENTRIES_MAX as usize * 512;

/// A partition of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Number, as in the device's name.
    pub number: u32,
    /// Start in bytes.
    pub start: u64,
    /// Length in bytes.
    pub length: u64,
    /// Whether the table calls it the root for x86-64.
    pub is_root: bool,
    /// Its content, in a word or two.
    pub content: String,
    /// Its file system, if it could be a root.
    pub filesystem: Option<Filesystem>,
}

/// Reason why a partition was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The table says that it is the root for x86-64.
    Type,
    /// No other has a file system of Linux.
    Only,
    /// It is the largest of those with a file system of Linux.
    Largest,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Type => "its type in the partition table is root (x86-64)",
            Self::Only => "no other partition has a file system of Linux",
            Self::Largest => "it is the largest partition with a file system of Linux",
        })
    }
}

/// Sector size and partitions of a disk with a GPT, or a description of the damage. `disk` is the
/// start of the disk, of which [`TABLE`] bytes are enough.
pub(super) fn gpt(disk: &[u8]) -> Result<(u32, Vec<Partition>), String> {
    // Disks with 4 KiB sectors have it at 4096.
    let sector = [512, 4096]
        .into_iter()
        .find(|&sector| {
            disk.get(sector..)
                .is_some_and(|at| at.starts_with(b"EFI PART"))
        })
        .ok_or("there is no GPT header")?;
    let header = disk
        .get(sector..sector + 512)
        .ok_or("the GPT header is cut off")?;
    let length = u32_at(header, 12) as usize;
    let mut unsummed = header
        .get(..length)
        .filter(|header| header.len() >= 92)
        .ok_or("the GPT header has an impossible length")?
        .to_vec();
    unsummed[16..20].fill(0);
    if CRC.checksum(&unsummed) != u32_at(header, 16) {
        return Err("the checksum of the GPT header is wrong".into());
    }
    let start = u64_at(header, 72);
    let (count, size) = (u32_at(header, 80), u32_at(header, 84));
    if count > ENTRIES_MAX || !(128..=512).contains(&size) {
        return Err(format!("the GPT claims {count} entries of {size} bytes"));
    }
    let table = usize::try_from(start)
        .ok()
        .and_then(|start| start.checked_mul(sector))
        .and_then(|start| disk.get(start..)?.get(..count as usize * size as usize))
        .ok_or("the GPT lies outside of the start of the disk")?;
    if CRC.checksum(table) != u32_at(header, 88) {
        return Err("the checksum of the partition table is wrong".into());
    }
    let entries = (1..).zip(table.chunks(size as usize));
    let size = sector as u32;
    let sector = sector as u64;
    let partitions = entries
        .filter(|(_, entry)| entry[..16] != [0; 16])
        .filter_map(|(number, entry)| {
            let (first, last) = (u64_at(entry, 32), u64_at(entry, 40));
            let sectors = last.checked_sub(first)?.checked_add(1)?;
            Some(Partition {
                number,
                start: first.checked_mul(sector)?,
                length: sectors.checked_mul(sector)?,
                is_root: entry[..16] == ROOT_X86_64,
                content: String::new(),
                filesystem: None,
            })
        })
        .collect();
    Ok((size, partitions))
}

/// The primary partitions of an MBR, and the extended one if there is any. Empty if the sector
/// holds no table that makes sense: a boot sector of a file system ends in the same signature.
pub(super) fn mbr(sector: &[u8]) -> (Vec<Partition>, Option<Partition>) {
    let Some(table) = sector.get(446..510) else {
        return (Vec::new(), None);
    };
    if table.chunks(16).any(|entry| entry[0] & 0x7f != 0) {
        return (Vec::new(), None);
    }
    let mut extended = None;
    let mut primary = Vec::new();
    for (number, entry) in (1..).zip(table.chunks(16)) {
        let (kind, start, sectors) = (entry[4], u32_at(entry, 8), u32_at(entry, 12));
        if kind == 0 || sectors == 0 {
            continue;
        }
        let partition = Partition {
            number,
            start: u64::from(start) * 512,
            length: u64::from(sectors) * 512,
            is_root: false,
            content: String::new(),
            filesystem: None,
        };
        match kind {
            0x05 | 0x0f | 0x85 => extended = Some(partition),
            _ => primary.push(partition),
        }
    }
    (primary, extended)
}

/// One link of the chain of logical partitions: the partition, whose start counts from this
/// sector, and the next link, whose start counts from the extended partition.
pub(super) fn logical(sector: &[u8]) -> (Option<(u64, u64)>, Option<u64>) {
    let entry = |at: usize| {
        let entry = sector.get(at..at + 16)?;
        let (start, sectors) = (u32_at(entry, 8), u32_at(entry, 12));
        (entry[4] != 0 && sectors != 0)
            .then_some((u64::from(start) * 512, u64::from(sectors) * 512))
    };
    (entry(446), entry(462).map(|(start, _)| start))
}

/// The partition that is the root, with the reason.
pub(super) fn choose(partitions: &[Partition]) -> Option<(&Partition, Reason)> {
    let mut fitting = partitions.iter().filter(|one| one.filesystem.is_some());
    if let Some(root) = fitting.clone().find(|one| one.is_root) {
        return Some((root, Reason::Type));
    }
    let reason = match fitting.clone().count() {
        1 => Reason::Only,
        _ => Reason::Largest,
    };
    // Of equals the first, so that the choice does not depend on how the maximum is found.
    let first = fitting.next()?;
    let largest = fitting.fold(first, |best, one| match one.length > best.length {
        true => one,
        false => best,
    });
    Some((largest, reason))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut raw = [0; 4];
    raw.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(raw)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(raw)
}

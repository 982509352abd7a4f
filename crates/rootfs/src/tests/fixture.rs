//! Disks, archives and directories that the tests make.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::{Disk, Found, detect};

pub(super) const MIB: usize = 1 << 20;

pub(super) struct Home(TempDir);

impl Home {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

/// Runs a program that the tests need.
pub(super) fn program(name: &str, arguments: &[&str], files: &[&Path]) {
    let output = Command::new(name)
        .args(arguments)
        .args(files)
        .output()
        .unwrap_or_else(|error| panic!("{name}: {error}; `make test` installs what tests need"));
    assert!(output.status.success(), "{name}: {output:?}");
}

pub(super) fn ext4() -> Vec<u8> {
    let home = Home::new();
    let path = home.write("ext4", &vec![0; 2 * MIB]);
    // The file system tools of Debian are not in a user's PATH.
    let mkfs = match Path::new("/usr/sbin/mkfs.ext4").exists() {
        true => "/usr/sbin/mkfs.ext4",
        false => "mkfs.ext4",
    };
    program(mkfs, &["-q", "-F"], &[&path]);
    fs::read(path).unwrap()
}

/// A disk of 512-byte sectors with these partitions: type, start and length in MiB, content.
pub(super) fn gpt_disk(size: usize, partitions: &[([u8; 16], usize, usize, &[u8])]) -> Vec<u8> {
    let mut disk = vec![0; size * MIB];
    for (at, (kind, start, length, content)) in partitions.iter().enumerate() {
        let entry = &mut disk[1024 + at * 128..][..128];
        entry[..16].copy_from_slice(kind);
        let first = (start * MIB / 512) as u64;
        let last = first + (length * MIB / 512) as u64 - 1;
        entry[32..40].copy_from_slice(&first.to_le_bytes());
        entry[40..48].copy_from_slice(&last.to_le_bytes());
        disk[start * MIB..][..content.len()].copy_from_slice(content);
    }
    let header = &mut disk[512..604];
    header[..8].copy_from_slice(b"EFI PART");
    header[12..16].copy_from_slice(&92_u32.to_le_bytes());
    header[72..80].copy_from_slice(&2_u64.to_le_bytes());
    header[80..84].copy_from_slice(&128_u32.to_le_bytes());
    header[84..88].copy_from_slice(&128_u32.to_le_bytes());
    repair(&mut disk);
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    disk
}

/// Makes the checksums of a table right again.
pub(super) fn repair(disk: &mut [u8]) {
    let crc = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);
    let entries = crc.checksum(&disk[1024..1024 + 128 * 128]).to_le_bytes();
    disk[600..604].copy_from_slice(&entries);
    disk[528..532].fill(0);
    let header = crc.checksum(&disk[512..604]).to_le_bytes();
    disk[528..532].copy_from_slice(&header);
}

/// Linux data and root (x86-64), as `sfdisk` writes their types.
pub(super) const LINUX: [u8; 16] =
    *b"\xaf\x3d\xc6\x0f\x83\x84\x72\x47\x8e\x79\x3d\x69\xd8\x47\x7d\xe4";
pub(super) const ROOT: [u8; 16] =
    *b"\xe3\xbc\x68\x4f\xcd\xe8\xb1\x4d\x96\xe7\xfb\xca\xf9\x84\xb7\x09";

pub(super) fn disk(path: &Path) -> Disk {
    match detect(path, None).unwrap() {
        Found::Disk(disk) => disk,
        other => panic!("{other:?}"),
    }
}

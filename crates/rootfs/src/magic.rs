//! Identification of bytes by the magic numbers of formats. Pure: reads no file.

use super::container::Compression;
use super::filesystem::Filesystem;

/// As many bytes as the farthest magic needs (btrfs at 64 KiB + 64).
pub(super) const HEAD: usize = 68 << 10;

/// Content of a file or partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Filesystem(Filesystem),
    Qcow2,
    /// A partition table may follow; boot sectors of FAT end the same way.
    BootSector,
    Gpt,
    Compressed(Compression),
    Tar,
    Other(&'static str, &'static str),
    Zeros,
    Unknown,
}

pub(super) const CONVERT: &str = "convert it with `qemu-img convert -O qcow2`";
const DECOMPRESS: &str = "decompress it first";
const KERNEL: &str = "a kernel goes to `--kernel`";
const SYSTEM: &str = "give a directory, a disk image or a container image";
const UNLOCK: &str = "unlock it on the host and give the device it appears as";

/// The most specific answer for the first [`HEAD`] bytes, or fewer if there are no more.
pub(super) fn kind(head: &[u8]) -> Kind {
    if let Some(filesystem) = filesystem(head) {
        return Kind::Filesystem(filesystem);
    }
    if is(head, 0, b"QFI\xfb") {
        return Kind::Qcow2;
    }
    if let Some((what, hint)) = other(head) {
        return Kind::Other(what, hint);
    }
    if let Some(compression) = Compression::of(head) {
        return Kind::Compressed(compression);
    }
    // POSIX and GNU differ after these five bytes. The tar of Unix version 7 has no magic; nobody
    // packs containers with it.
    if is(head, 257, b"ustar") {
        return Kind::Tar;
    }
    if is(head, 512, b"EFI PART") || is(head, 4096, b"EFI PART") {
        return Kind::Gpt;
    }
    if is(head, 510, &[0x55, 0xaa]) {
        return Kind::BootSector;
    }
    if head.iter().all(|&byte| byte == 0) {
        return Kind::Zeros;
    }
    Kind::Unknown
}

/// Superblock magics: include/uapi/linux/magic.h, fs/xfs/libxfs/xfs_format.h,
/// fs/btrfs/fs.h, fs/squashfs/squashfs_fs.h; their places from the same file systems' headers.
fn filesystem(head: &[u8]) -> Option<Filesystem> {
    // Two bytes are little proof, so the block size must make sense too.
    if is(head, 1024 + 56, &[0x53, 0xef]) && head.get(1024 + 24).is_some_and(|&log| log <= 6) {
        Some(Filesystem::Ext4)
    } else if is(head, 1024, &[0xe2, 0xe1, 0xf5, 0xe0]) {
        Some(Filesystem::Erofs)
    } else if is(head, 0, b"XFSB") {
        Some(Filesystem::Xfs)
    } else if is(head, 0x10040, b"_BHRfS_M") {
        Some(Filesystem::Btrfs)
    } else if is(head, 0, b"hsqs") {
        Some(Filesystem::Squashfs)
    } else {
        None
    }
}

/// Formats that are no root: offset, magic, name, hint. The first that matches counts: an ISO may
/// have a boot sector.
const OTHERS: &[(usize, &[u8], &str, &str)] = &[
    (
        0x8001,
        b"CD001",
        "an ISO 9660 image",
        "installers cannot be a root; take the cloud image or root tarball of the distribution",
    ),
    (0, b"LUKS\xba\xbe", "a LUKS volume", UNLOCK),
    (
        0x218,
        b"LVM2 001",
        "an LVM physical volume",
        "activate it on the host and give the logical volume",
    ),
    (
        0x18,
        b"LVM2 001",
        "an LVM physical volume",
        "activate it on the host and give the logical volume",
    ),
    (4086, b"SWAPSPACE2", "swap space", SYSTEM),
    (
        1024,
        &[0x10, 0x20, 0xf5, 0xf2],
        "an f2fs file system",
        "f2fs is not supported",
    ),
    (0, b"KDMV", "a VMDK image", CONVERT),
    (0, b"# Disk DescriptorFile", "a VMDK descriptor", CONVERT),
    (64, &[0x7f, 0x10, 0xda, 0xbe], "a VDI image", CONVERT),
    (0, b"vhdxfile", "a VHDX image", CONVERT),
    (0, b"conectix", "a VHD image", CONVERT),
    (0, b"QED\0", "a QED image", CONVERT),
    (0x202, b"HdrS", "a Linux kernel", KERNEL),
    (0, b"MZ", "an EFI program", KERNEL),
    (
        0,
        b"\x7fELF",
        "an ELF program",
        "a kernel goes to `--kernel`, a program after `--`",
    ),
    (
        0,
        b"070701",
        "a cpio archive",
        "an initramfs is no root; give what it was made from",
    ),
    (
        0,
        b"070702",
        "a cpio archive",
        "an initramfs is no root; give what it was made from",
    ),
    (
        0,
        b"PK\x03\x04",
        "a zip archive",
        "extract it and give what is in it",
    ),
    (
        0,
        b"7z\xbc\xaf\x27\x1c",
        "a 7z archive",
        "extract it and give what is in it",
    ),
    (0, b"!<arch>\n", "an ar archive or Debian package", SYSTEM),
    (
        3,
        b"NTFS    ",
        "an NTFS file system",
        "it cannot hold a root of Linux",
    ),
    (
        54,
        b"FAT",
        "a FAT file system",
        "it cannot hold a root of Linux",
    ),
    (
        82,
        b"FAT32",
        "a FAT file system",
        "it cannot hold a root of Linux",
    ),
    (0, b"#!", "a script", SYSTEM),
];

/// Name of a format that is no root, and a hint.
fn other(head: &[u8]) -> Option<(&'static str, &'static str)> {
    OTHERS
        .iter()
        .find(|(offset, magic, ..)| is(head, *offset, magic))
        .map(|&(.., what, hint)| (what, hint))
}

fn is(head: &[u8], offset: usize, magic: &[u8]) -> bool {
    head.get(offset..).is_some_and(|at| at.starts_with(magic))
}

/// Describes compressed data that is no tar archive, with a hint.
pub(super) fn inside(compression: &str, head: &[u8]) -> (String, &'static str) {
    let what = match kind(head) {
        Kind::Filesystem(filesystem) => format!("an image of {filesystem}"),
        Kind::Qcow2 => "a qcow2 image".into(),
        Kind::Gpt | Kind::BootSector => "a disk image".into(),
        Kind::Other(what, hint) if !hint.starts_with("decompress") => {
            return (format!("{what}, {compression}-compressed"), hint);
        }
        _ => "data".into(),
    };
    (format!("{what}, {compression}-compressed"), DECOMPRESS)
}

/// Describes the content of a partition.
pub(super) fn content(head: &[u8]) -> String {
    match kind(head) {
        Kind::Filesystem(filesystem) => filesystem.name().into(),
        Kind::Other(what, _) => what.into(),
        Kind::Zeros => "empty".into(),
        _ => "unknown".into(),
    }
}

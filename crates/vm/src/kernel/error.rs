//! Errors of kernel images.

use std::io;
use std::path::{Path, PathBuf};

use memchr::memmem;

use super::compression::Compression;
use crate::cache;

/// Error of extracting a vmlinux from a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read the kernel image {}", path.display())]
    Read {
        /// The image.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// It is a directory.
    #[error("{} is a directory, not a kernel image", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// Its content is not a kernel the host can start.
    #[error("cannot use {} as a kernel", path.display())]
    Image {
        /// The image.
        path: PathBuf,
        /// The defect.
        source: Reason,
    },
    /// The extracted kernel cannot be written.
    #[error("cannot write the extracted kernel")]
    Write {
        /// Error of the system.
        source: io::Error,
    },
    /// The cache failed.
    #[error(transparent)]
    Cache(#[from] cache::Error),
}

/// Defects of the content of an image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// No bytes at all.
    #[error("the file is empty")]
    Empty,
    /// It ends too early.
    #[error("the file is truncated: {what} ends at byte {expected}, the file at byte {found}")]
    Truncated {
        /// The part that is cut off.
        what: &'static str,
        /// Where that part should end.
        expected: u64,
        /// The size found.
        found: u64,
    },
    /// A kernel for another architecture.
    #[error("it is a kernel for {0}, not for x86-64")]
    Foreign(&'static str),
    /// A 32-bit x86 kernel.
    #[error("it is a 32-bit x86 kernel; only 64-bit ones are supported")]
    ThirtyTwoBit,
    /// Something else altogether.
    #[error("it is not a kernel but {0}")]
    NotKernel(&'static str),
    /// Something else altogether, compressed.
    #[error("it is not a kernel but {1}, compressed with {0}")]
    NotKernelInside(Compression, &'static str),
    /// Older than payload fields in the setup header (2.6.26).
    #[error("its boot protocol {}.{:02} is older than 2.08, which states where the kernel lies", .0 >> 8, .0 & 0xff)]
    OldProtocol(u16),
    /// The payload's compression is unknown.
    #[error("its payload is compressed in an unknown way (it starts with {0:02x?})")]
    UnknownCompression(Vec<u8>),
    /// The decompressor failed.
    #[error("its {compression} data is corrupt or truncated")]
    Decompress {
        /// The format.
        compression: Compression,
        /// Error of the decompressor.
        source: io::Error,
    },
    /// The decompressed size is not the stated one.
    #[error(
        "its {compression} data is corrupt: {expected} bytes are announced and {found} came out"
    )]
    Size {
        /// The format.
        compression: Compression,
        /// Size in the trailer.
        expected: u64,
        /// Size decompressed.
        found: u64,
    },
    /// It would not fit the limit.
    #[error("it is larger than {} MiB", super::MAX_SIZE >> 20)]
    TooLarge,
    /// The address of its first instruction is not known.
    #[error("where it is entered is not known: it is {0}")]
    NoEntry(&'static str),
    /// A malformed ELF or PE structure.
    #[error("its {0} is malformed")]
    Malformed(&'static str),
}

impl Error {
    /// Hint for the user, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { path, source } => match source.kind() {
                io::ErrorKind::PermissionDenied => {
                    let image = path.to_owned();
                    Some(
                        brisk_host::kernel::Error::Image {
                            path: image,
                            source: io::ErrorKind::PermissionDenied.into(),
                        }
                        .hint(),
                    )
                }
                io::ErrorKind::NotFound => {
                    Some("check the path, or name an installed release".to_owned())
                }
                _ => None,
            },
            Self::Directory { path } => Some(format!(
                "name the image itself, such as {}",
                path.join("vmlinuz").display()
            )),
            Self::Image { source, .. } => source.hint().map(str::to_owned),
            Self::Write { .. } => Some("is the disk of the cache full?".to_owned()),
            Self::Cache(error) => error.hint(),
        }
    }

    pub(super) fn from_hashing(image: &Path, error: cache::Error) -> Self {
        match error {
            cache::Error::Read { source, .. } => Self::Read {
                path: image.to_owned(),
                source,
            },
            error => Self::Cache(error),
        }
    }
}

impl Reason {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Empty | Self::Truncated { .. } | Self::Decompress { .. } | Self::Size { .. } => {
                Some("copy or install it again; was the disk full?")
            }
            Self::Foreign(_) | Self::ThirtyTwoBit => Some("install an amd64 (x86_64) kernel"),
            Self::NotKernel(_) | Self::NotKernelInside(..) => {
                Some("kernels are named vmlinuz-*, bzImage, vmlinux or *.efi")
            }
            Self::UnknownCompression(_) => Some(
                "gzip, xz, lzma, zstd, LZ4 and bzip2 are known; give the vmlinux of its build, or \
                 build it with one of these (CONFIG_KERNEL_ZSTD)",
            ),
            _ => None,
        }
    }
}

/// Programs that boot loaders start as they start kernels, by words in them.
const PROGRAMS: [(&[u8], &str); 5] = [
    (b"Memtest86+ v", "Memtest86+, which tests memory"),
    (b"(XEN) ", "the Xen hypervisor"),
    (b"iPXE", "iPXE, which boots from the network"),
    (b"Welcome to GRUB!", "the boot loader GRUB"),
    (
        b"#### LoaderInfo: systemd-boot",
        "the boot loader systemd-boot",
    ),
];

/// Names a known program that is not used as a kernel for another reason. Linux has words of some
/// of them, too.
pub(super) fn named(bytes: &[u8], reason: Reason) -> Reason {
    let may_be = matches!(
        reason,
        Reason::NotKernel(_) | Reason::ThirtyTwoBit | Reason::OldProtocol(_)
    );
    if !may_be || memmem::find(bytes, b"Linux version ").is_some() {
        return reason;
    }
    let mut programs = PROGRAMS.iter();
    match programs.find(|(word, _)| memmem::find(bytes, word).is_some()) {
        Some((_, program)) => Reason::NotKernel(program),
        None => reason,
    }
}

/// Describes a file that is no kernel.
pub(super) fn looks_like(bytes: &[u8]) -> &'static str {
    let kinds: [(&[u8], &str); 10] = [
        (b"#!", "a script"),
        (b"070701", "a cpio archive (an initramfs?)"),
        (b"070702", "a cpio archive (an initramfs?)"),
        (b"QFI\xfb", "a qcow2 disk image"),
        (b"hsqs", "a squashfs image"),
        (b"PK\x03\x04", "a zip file"),
        (b"!<arch>\n", "a Debian package or an ar archive"),
        (b"\xed\xab\xee\xdb", "an RPM package"),
        (b"\x27\x05\x19\x56", "a U-Boot image"),
        (b"\xd0\x0d\xfe\xed", "a device tree"),
    ];
    if let Some((_, what)) = kinds.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return what;
    }
    if bytes.get(257..262) == Some(b"ustar") {
        return "a tar archive";
    }
    if bytes.get(510..512) == Some(&[0x55, 0xaa]) {
        return "a disk image or boot sector";
    }
    let start = &bytes[..bytes.len().min(512)];
    if start
        .iter()
        .all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace())
    {
        return "a text file";
    }
    "data of an unknown kind"
}

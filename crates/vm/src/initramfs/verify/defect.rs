//! Defects of an initramfs.

use std::io;

use super::super::limits;
use super::{MAGIC, MAX_UNPACKED};
use crate::kernel::Compression;

/// Defects of an initramfs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Defect {
    /// It cannot be read.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// No bytes, or only zeros.
    #[error("it is empty")]
    Empty,
    /// It ends within an archive.
    #[error("it is truncated: the archive that begins at byte {start} has no end")]
    Truncated {
        /// Where the archive begins.
        start: u64,
    },
    /// An archive is damaged.
    #[error("the archive that begins at byte {start} is corrupt: {reason}")]
    Corrupt {
        /// Where the archive begins.
        start: u64,
        /// Description of the damage.
        reason: String,
    },
    /// Neither an archive nor a known compression.
    #[error("at byte {start} is neither a cpio archive nor a known compression: {bytes:02x?}")]
    Unknown {
        /// Where that is.
        start: u64,
        /// The bytes there.
        bytes: Vec<u8>,
    },
    /// Compressed by LZO, which the kernel unpacks and this does not.
    #[error(
        "the archive that begins at byte {start} is compressed by LZO, which brisk does not unpack"
    )]
    NotUnpacked {
        /// Where the archive begins.
        start: u64,
    },
    /// Whole, and not for the kernel.
    #[error("the kernel does not unpack the archive that begins at byte {start}: {reason}")]
    Unsupported {
        /// Where the archive begins.
        start: u64,
        /// Why.
        reason: String,
        /// What makes one that it unpacks.
        remedy: &'static str,
    },
    /// A bomb.
    #[error("it unpacks to more than {} GiB", MAX_UNPACKED >> 30)]
    TooLarge,
}

/// Defects of an archive, wherever it is.
#[derive(Debug)]
pub(super) enum Broken {
    Read(io::Error),
    Malformed(&'static str),
    TooLarge,
    NotUnpacked,
    /// What it is, and what makes one that the kernel unpacks.
    Unsupported(String, &'static str),
    /// No archive is there; the kernel stops, and starts what it has.
    Junk,
}

impl From<limits::Limit> for Broken {
    fn from(limit: limits::Limit) -> Self {
        Self::Unsupported(limit.reason, limit.remedy)
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

pub(super) fn at(broken: Broken, start: u64, head: &[u8]) -> Defect {
    let corrupt = |reason: String| Defect::Corrupt { start, reason };
    match broken {
        Broken::TooLarge => Defect::TooLarge,
        Broken::NotUnpacked => Defect::NotUnpacked { start },
        Broken::Unsupported(reason, remedy) => Defect::Unsupported {
            start,
            reason,
            remedy,
        },
        Broken::Junk if Compression::of(head).is_some() => {
            corrupt("no cpio archive is in it".to_owned())
        }
        Broken::Junk => Defect::Unknown {
            start,
            bytes: head[..head.len().min(MAGIC)].to_owned(),
        },
        Broken::Malformed(reason) => corrupt(reason.to_owned()),
        Broken::Read(error) => match error.kind() {
            io::ErrorKind::UnexpectedEof => Defect::Truncated { start },
            // Of the reader, and not of a decompressor.
            _ if error.raw_os_error().is_some() => Defect::Read(error),
            _ => corrupt(error.to_string()),
        },
    }
}

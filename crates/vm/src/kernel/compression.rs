//! Compressions of kernels, and what shows them.

use std::fmt;

/// Begins LZ4's legacy frame.
pub(super) const LZ4: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];

/// How a kernel is compressed (`CONFIG_KERNEL_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// RFC 1952.
    Gzip,
    /// The xz container.
    Xz,
    /// LZMA alone, of the xz utilities' older format.
    Lzma,
    /// RFC 8878.
    Zstd,
    /// LZ4's legacy frame.
    Lz4,
    /// bzip2.
    Bzip2,
}

impl Compression {
    /// The compression that the first bytes show.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let magics: [(&[u8], Self); 6] = [
            (b"\x1f\x8b", Self::Gzip),
            (b"\xfd7zXZ\0", Self::Xz),
            (b"\x5d\0\0", Self::Lzma),
            (b"\x28\xb5\x2f\xfd", Self::Zstd),
            (&LZ4, Self::Lz4),
            (b"BZh", Self::Bzip2),
        ];
        magics
            .into_iter()
            .find(|(magic, _)| bytes.starts_with(magic))
            .map(|(_, kind)| kind)
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Lzma => "lzma",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
            Self::Bzip2 => "bzip2",
        })
    }
}

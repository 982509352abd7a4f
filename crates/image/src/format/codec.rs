//! Compression of one piece.

use std::fmt;
use std::io;
use std::str::FromStr;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::CParameter;

/// Compression of pieces, used where it makes them smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// No compression.
    None,
    /// LZ4 with its acceleration, 1 to 64: higher is quicker, and the image is larger.
    Lz4(u8),
    /// Zstandard with its level, −50 to 19.
    Zstd(i8),
}

impl Compression {
    /// The quickest compression that still halves usual memory.
    pub const FAST: Self = Self::Lz4(2);

    const LEVELS: std::ops::RangeInclusive<i8> = -50..=19;
    const ACCELERATIONS: std::ops::RangeInclusive<u8> = 1..=64;

    pub(crate) fn to_bytes(self) -> (u8, u8) {
        match self {
            Self::None => (0, 0),
            Self::Lz4(acceleration) => (1, acceleration),
            Self::Zstd(level) => (2, level.to_le_bytes()[0]),
        }
    }

    pub(crate) fn from_bytes(codec: u8, level: u8) -> Option<Self> {
        let zstd = i8::from_le_bytes([level]);
        match codec {
            0 if level == 0 => Some(Self::None),
            1 if Self::ACCELERATIONS.contains(&level) => Some(Self::Lz4(level)),
            2 if Self::LEVELS.contains(&zstd) => Some(Self::Zstd(zstd)),
            _ => None,
        }
    }
}

impl Default for Compression {
    fn default() -> Self {
        Self::Zstd(1)
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Lz4(acceleration) => write!(f, "lz4:{acceleration}"),
            Self::Zstd(level) => write!(f, "zstd:{level}"),
        }
    }
}

impl FromStr for Compression {
    type Err = String;

    /// Parses `none`, `fast`, `lz4`, `lz4:ACCELERATION`, `zstd`, `zstd:LEVEL`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (codec, level) = text.split_once(':').unwrap_or((text, ""));
        let known = match (codec, level) {
            ("none", "") => Some(Self::None),
            ("fast", "") => Some(Self::FAST),
            ("lz4", "") => Some(Self::Lz4(1)),
            ("zstd", "") => Some(Self::default()),
            ("lz4", level) => level.parse().ok().map(Self::Lz4),
            ("zstd", level) => level.parse().ok().map(Self::Zstd),
            _ => None,
        };
        known
            .filter(|known| {
                let (codec, level) = known.to_bytes();
                Self::from_bytes(codec, level).is_some()
            })
            .ok_or_else(|| {
                format!(
                    "{text} is no compression: none, fast, lz4, lz4:1 to lz4:64, zstd, \
                     zstd:-50 to zstd:19"
                )
            })
    }
}

/// Encoding of one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stored {
    Plain = 0,
    Lz4 = 1,
    Zstd = 2,
}

impl Stored {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [Self::Plain, Self::Lz4, Self::Zstd]
            .into_iter()
            .find(|stored| *stored as u8 == byte)
    }
}

/// Room that compressing so many bytes may need.
pub(crate) fn bound(bytes: usize) -> usize {
    let lz4 = lz4::block::compress_bound(bytes).unwrap_or(bytes * 2);
    zstd::zstd_safe::compress_bound(bytes).max(lz4)
}

/// Compresses piece after piece with one context.
pub(crate) struct Encoder {
    compression: Compression,
    zstd: Option<Compressor<'static>>,
}

impl Encoder {
    pub(crate) fn new(compression: Compression) -> io::Result<Self> {
        let zstd = match compression {
            Compression::Zstd(level) => {
                let mut zstd = Compressor::new(level.into())?;
                if level == 1 {
                    // A twenty-fifth quicker, for images that are a fortieth larger.
                    zstd.set_parameter(CParameter::MinMatch(7))?;
                }
                Some(zstd)
            }
            _ => None,
        };
        Ok(Self { compression, zstd })
    }

    /// Writes `bytes` to the start of `out`, which has room for their [`bound`].
    pub(crate) fn encode(&mut self, bytes: &[u8], out: &mut [u8]) -> io::Result<(Stored, usize)> {
        let (stored, length) = match (self.compression, &mut self.zstd) {
            (Compression::Lz4(acceleration), _) => {
                let mode = lz4::block::CompressionMode::FAST(acceleration.into());
                let length = lz4::block::compress_to_buffer(bytes, Some(mode), false, out)?;
                (Stored::Lz4, length)
            }
            (_, Some(zstd)) => (Stored::Zstd, zstd.compress_to_buffer(bytes, out)?),
            _ => (Stored::Plain, bytes.len()),
        };
        // What gains less than a thirty-second is not worth the time to take it apart.
        if stored == Stored::Plain || length > bytes.len() - bytes.len() / 32 {
            out[..bytes.len()].copy_from_slice(bytes);
            return Ok((Stored::Plain, bytes.len()));
        }
        Ok((stored, length))
    }
}

/// Takes piece after piece apart with one context.
pub(crate) struct Decoder(Decompressor<'static>);

impl Decoder {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Decompressor::new()?))
    }

    /// Fills exactly `out`; false if the bytes are not that.
    pub(crate) fn decode(&mut self, stored: Stored, bytes: &[u8], out: &mut [u8]) -> bool {
        match stored {
            Stored::Plain if bytes.len() == out.len() => {
                out.copy_from_slice(bytes);
                true
            }
            Stored::Plain => false,
            Stored::Lz4 => {
                let length = i32::try_from(out.len()).ok();
                lz4::block::decompress_to_buffer(bytes, length, out).ok() == Some(out.len())
            }
            Stored::Zstd => self.0.decompress_to_buffer(bytes, out).ok() == Some(out.len()),
        }
    }
}

//! Where the chunks of a memory are: the records of an image.

use crate::format::header::RECORD;

/// Where a chunk of memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// It is zero.
    Zero,
    /// In this image.
    Here {
        /// Offset among the sealed data.
        offset: u64,
        /// Sealed length.
        length: u32,
        /// Whether it was sealed while the guest still ran.
        early: bool,
    },
    /// As in the image that this one is based on.
    Parent,
    /// In memory that was kept, and in no image.
    Kept,
}

impl Record {
    pub(crate) fn encode(self) -> [u8; RECORD] {
        let (tag, length, offset) = match self {
            Self::Zero => (0_u32, 0, 0),
            Self::Here {
                offset,
                length,
                early,
            } => (if early { 3 } else { 1 }, length, offset),
            Self::Parent => (2, 0, 0),
            Self::Kept => (4, 0, 0),
        };
        let mut bytes = [0; RECORD];
        bytes[..4].copy_from_slice(&tag.to_le_bytes());
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        bytes[8..].copy_from_slice(&offset.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let length = word(4)?;
        let offset = u64::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
        match word(0)? {
            0 if length == 0 && offset == 0 => Some(Self::Zero),
            tag @ (1 | 3) => Some(Self::Here {
                offset,
                length,
                early: tag == 3,
            }),
            2 if length == 0 && offset == 0 => Some(Self::Parent),
            4 if length == 0 && offset == 0 => Some(Self::Kept),
            _ => None,
        }
    }
}

//! The sealed head: the description, and the places of everything but the memory.

use serde::{Deserialize, Serialize};

use crate::format::description::{Description, MAX_DESCRIPTION};
use crate::format::header::Header;
use crate::format::kept::Kept;
use crate::format::seal::TAG;

/// Most device state, and most of a working set, in bytes.
pub(crate) const MAX_BLOB: u64 = 256 << 20;
/// Bytes of one piece of a blob before compression.
pub(crate) const BLOB_PIECE: u64 = 1 << 20;

/// Sealed facts about an image, which only a key shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Description of the VM.
    pub description: Description,
    /// The base image, of an incremental image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The memory that was kept, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    pub(crate) state: Blob,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) working_set: Option<Blob>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) working_pages: Option<Blob>,
}

/// A base image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Identity of the image.
    pub id: [u8; 16],
    /// Digest of its list of chunks, which does not change when the image is rekeyed.
    pub digest: [u8; 32],
}

/// A blob: bytes that are stored in pieces among the chunks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Blob {
    /// Bytes.
    pub(crate) length: u64,
    /// Offset among the sealed data and sealed length of each piece.
    pub(crate) pieces: Vec<(u64, u32)>,
}

impl Blob {
    fn check(&self, data_len: u64) -> bool {
        let inside = |(offset, length): &(u64, u32)| {
            let end = offset.checked_add(u64::from(*length));
            *length as usize > TAG && end.is_some_and(|end| end <= data_len)
        };
        self.length <= MAX_BLOB
            && self.pieces.len() as u64 == self.length.div_ceil(BLOB_PIECE)
            && self.pieces.iter().all(inside)
    }
}

impl Head {
    /// Length of the device state in bytes.
    #[must_use]
    pub fn state_len(&self) -> u64 {
        self.state.length
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers, texts and lists are JSON")
    }

    /// Reads it and holds it against the header.
    pub(crate) fn decode(bytes: &[u8], header: &Header) -> Result<Self, String> {
        if bytes.len() > MAX_DESCRIPTION * 2 {
            return Err("it is too long".into());
        }
        let head: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        head.description.check(header.memory)?;
        if head.parent.is_some() != header.incremental {
            return Err("it does not agree with the header on a parent".into());
        }
        let is_whole = |kept: &Kept| kept.check().is_ok();
        if header.kept && head.kept.is_none() || !head.kept.iter().all(is_whole) {
            return Err("it does not say where the memory was kept".into());
        }
        let inside = |blob: &Blob| blob.check(header.data_len);
        let optional = [&head.working_set, &head.working_pages];
        if !inside(&head.state) || !optional.into_iter().flatten().all(inside) {
            return Err("a piece that is outside of the image".into());
        }
        Ok(head)
    }
}

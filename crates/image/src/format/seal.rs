//! AES-256-GCM over pieces of an image, under keys derived from its data key.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use zeroize::{Zeroize, Zeroizing};

use crate::Error;

/// Length of the tag that ends each sealed piece.
pub(crate) const TAG: usize = 16;

/// Kind of a piece: part of its nonce and of its associated data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    Memory = 1,
    State = 2,
    WorkingSet = 3,
    Head = 4,
    Records = 5,
    WorkingPages = 6,
    /// Memory that was sealed while the guest still ran.
    Early = 7,
}

/// One piece of an image. Its nonce and associated data say which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PieceId {
    kind: Kind,
    /// Counts the pieces of one kind from 0.
    index: u64,
}

impl Kind {
    /// The piece of this kind with an index.
    pub(crate) const fn piece(self, index: u64) -> PieceId {
        PieceId { kind: self, index }
    }
}

/// Purpose of the key of the pieces; its material is the image's identity.
pub(crate) const PIECES: &str = "brisk suspend image 1: memory, device state, working set";
/// Purpose of the key of head and records; its material is the whole header.
pub(crate) const INDEX: &str = "brisk suspend image 1: head and records";

/// Random bytes from the system: from its kernel, for the generator of the cipher's library takes
/// 70 ms to seed itself, in which the guest stands still.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| Error::invalid("the system gives no random bytes"))?;
    Ok(bytes)
}

/// The secret of one image, from which the keys that seal it are derived.
pub(crate) struct DataKey(Zeroizing<[u8; 32]>);

impl DataKey {
    pub(crate) fn random() -> Result<Self, Error> {
        Ok(Self(Zeroizing::new(random()?)))
    }

    pub(crate) fn from_slice(bytes: &[u8]) -> Option<Self> {
        Some(Self(Zeroizing::new(bytes.try_into().ok()?)))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0[..]
    }

    /// The key for one purpose (BLAKE3's key derivation); another `material` is another key.
    pub(crate) fn derive(&self, purpose: &str, material: &[u8]) -> SealKey {
        let mut hasher = blake3::Hasher::new_derive_key(purpose);
        hasher.update(&self.0[..]).update(material);
        let mut key = [0; 32];
        hasher.finalize_xof().fill(&mut key);
        hasher.zeroize();
        let unbound = UnboundKey::new(&AES_256_GCM, &key).expect("the length is right");
        key.zeroize();
        SealKey(LessSafeKey::new(unbound))
    }
}

/// Seals and opens pieces. Each piece must be sealed at most once under one key.
pub(crate) struct SealKey(LessSafeKey);

impl SealKey {
    /// Seals in place; the tag belongs behind the bytes.
    pub(crate) fn seal(&self, piece: PieceId, associated: &[u8], bytes: &mut [u8]) -> [u8; TAG] {
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce(piece), Aad::from(associated), bytes)
            .expect("a piece is far below the limit of GCM");
        tag.as_ref().try_into().expect("tags of GCM have 16 bytes")
    }

    /// Opens in place, tag at the end; `None` if anything is not as it was sealed.
    pub(crate) fn open<'a>(
        &self,
        piece: PieceId,
        associated: &[u8],
        bytes: &'a mut [u8],
    ) -> Option<&'a mut [u8]> {
        self.0
            .open_in_place(nonce(piece), Aad::from(associated), bytes)
            .ok()
    }
}

fn nonce(piece: PieceId) -> Nonce {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&(piece.kind as u32).to_le_bytes());
    nonce[4..].copy_from_slice(&piece.index.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// Associated data of a piece: its owner, and which of how many it is.
pub(crate) fn associated(owner: &Owner, piece: PieceId, count: u64) -> [u8; 12 + 32 + 20] {
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(b"brisk im");
    bytes[8..12].copy_from_slice(&crate::VERSION.to_le_bytes());
    bytes[12..28].copy_from_slice(&owner.vm);
    bytes[28..44].copy_from_slice(&owner.image);
    bytes[44..48].copy_from_slice(&(piece.kind as u32).to_le_bytes());
    bytes[48..56].copy_from_slice(&piece.index.to_le_bytes());
    bytes[56..].copy_from_slice(&count.to_le_bytes());
    bytes
}

/// The VM and the image that a piece belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) vm: [u8; 16],
    pub(crate) image: [u8; 16],
}

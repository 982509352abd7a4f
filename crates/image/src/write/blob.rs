//! Writing device state and working set: bytes in pieces among the chunks.
//!
//! A blob may be larger than brisk's memory should be: only one piece is in memory at a time.

use crate::error::Error;
use crate::format::chunk;
use crate::format::codec::Encoder;
use crate::format::head::{BLOB_PIECE, Blob};
use crate::format::seal::Kind;
use crate::write::target::Target;

/// Puts the bytes from an offset on into a piece.
pub(crate) type Fill<'a> = dyn FnMut(u64, &mut [u8]) -> Result<(), Error> + 'a;

/// Compresses, seals and writes `length` bytes, which `fill` puts into pieces from an offset on.
pub(crate) fn write(
    kind: Kind,
    length: u64,
    fill: &mut Fill<'_>,
    target: &Target<'_>,
    encoder: &mut Encoder,
) -> Result<Blob, Error> {
    let count = length.div_ceil(BLOB_PIECE);
    let mut piece = vec![0; length.min(BLOB_PIECE) as usize];
    let mut sealed = vec![0; chunk::sealed_bound(BLOB_PIECE as usize)];
    let mut blob = Blob {
        length,
        pieces: Vec::with_capacity(count as usize),
    };
    for index in 0..count {
        if target.control.cancelled() {
            return Err(Error::Cancelled);
        }
        let from = index * BLOB_PIECE;
        piece.truncate((length - from).min(BLOB_PIECE) as usize);
        fill(from, &mut piece)?;
        let length = chunk::encode(encoder, &[], &piece, &mut sealed)
            .map_err(|error| Error::invalid(format!("cannot compress: {error}")))?;
        let sealed = target.seal(kind.piece(index), count, &mut sealed, length);
        let offset = target.output.put(sealed, target.control)?;
        blob.pieces.push((offset, sealed.len() as u32));
    }
    Ok(blob)
}

/// For [`write`]: bytes that are there.
pub(crate) fn copy(bytes: &[u8]) -> impl FnMut(u64, &mut [u8]) -> Result<(), Error> {
    |from, piece| {
        piece.copy_from_slice(&bytes[from as usize..][..piece.len()]);
        Ok(())
    }
}

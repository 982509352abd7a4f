//! Device state and working set: bytes in pieces among the chunks.
//!
//! A blob may be larger than what is to be in memory at once: only a piece of it is.

use std::os::unix::fs::FileExt;

use super::chunk;
use super::codec::{Decoder, Encoder, Stored};
use super::error::{Error, Place, io_error};
use super::head::{BLOB_PIECE, Blob};
use super::job::Target;
use super::reader::Image;
use super::seal::{self, Kind};

/// Puts the bytes from an offset on into a piece.
pub(super) type Fill<'a> = dyn FnMut(u64, &mut [u8]) -> Result<(), Error> + 'a;

/// Compresses, seals and writes `length` bytes, which `fill` puts into pieces from an offset on.
pub(super) fn write(
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
        let sealed = target.seal((kind, index), count, &mut sealed, length);
        let offset = target.output.put(sealed, target.control)?;
        blob.pieces.push((offset, sealed.len() as u32));
    }
    Ok(blob)
}

/// For [`write`]: bytes that are there.
pub(super) fn copy(bytes: &[u8]) -> impl FnMut(u64, &mut [u8]) -> Result<(), Error> {
    |from, piece| {
        piece.copy_from_slice(&bytes[from as usize..][..piece.len()]);
        Ok(())
    }
}

/// Reads it back.
pub(super) fn read(image: &Image, kind: Kind, blob: &Blob) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::with_capacity(blob.length as usize);
    each(image, kind, blob, &mut |piece| {
        bytes.extend_from_slice(piece);
        true
    })?;
    Ok(bytes)
}

/// Reads it back piece by piece, as long as `take` wants more.
pub(super) fn each(
    image: &Image,
    kind: Kind,
    blob: &Blob,
    take: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<(), Error> {
    let place = |index| match kind {
        Kind::WorkingSet | Kind::WorkingPages => Place::WorkingSet(index),
        _ => Place::State(index),
    };
    let mut piece = vec![0; blob.length.min(BLOB_PIECE) as usize];
    let mut decoder = Decoder::new().map_err(io_error("read", image.path()))?;
    let mut sealed = Vec::new();
    let count = blob.pieces.len() as u64;
    for (index, (offset, length)) in (0..).zip(&blob.pieces) {
        piece.truncate((blob.length - index * BLOB_PIECE).min(BLOB_PIECE) as usize);
        sealed.resize(*length as usize, 0);
        image
            .file
            .read_exact_at(&mut sealed, image.header.len() + offset)
            .map_err(io_error("read", image.path()))?;
        let associated = seal::associated(&image.owner, (kind, index), count);
        let plain = image
            .key
            .open((kind, index), &associated, &mut sealed)
            .ok_or_else(|| image.altered(place(index)))?;
        let whole = plain.split_first().is_some_and(|(stored, body)| {
            Stored::from_byte(*stored)
                .is_some_and(|stored| decoder.decode(stored, body, &mut piece))
        });
        if !whole {
            return Err(image.altered(place(index)));
        }
        if !take(&piece) {
            break;
        }
    }
    Ok(())
}

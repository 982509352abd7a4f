//! Device state and working set: bytes in pieces among the chunks.

use std::os::unix::fs::FileExt;

use super::chunk;
use super::codec::{Decoder, Encoder, Stored};
use super::error::{Error, Place, io_error};
use super::head::{BLOB_PIECE, Blob};
use super::output::Output;
use super::pipeline::Control;
use super::reader::Image;
use super::seal::{self, Kind, Owner, SealKey, TAG};

/// Compresses, seals and writes it.
pub(super) fn write(
    kind: Kind,
    bytes: &[u8],
    (key, owner): (&SealKey, &Owner),
    encoder: &mut Encoder,
    output: &Output<'_>,
    control: Control<'_>,
) -> Result<Blob, Error> {
    let pieces = bytes.chunks(BLOB_PIECE as usize);
    let count = pieces.len() as u64;
    let mut sealed = vec![0; chunk::sealed_bound(BLOB_PIECE as usize)];
    let mut blob = Blob {
        length: bytes.len() as u64,
        pieces: Vec::with_capacity(pieces.len()),
    };
    for (index, piece) in (0..).zip(pieces) {
        if control.cancelled() {
            return Err(Error::Cancelled);
        }
        let length = chunk::encode(encoder, &[], piece, &mut sealed)
            .map_err(|error| Error::invalid(format!("cannot compress: {error}")))?;
        let associated = seal::associated(owner, (kind, index), count);
        let tag = key.seal((kind, index), &associated, &mut sealed[..length]);
        sealed[length..length + TAG].copy_from_slice(&tag);
        let offset = output.put(&sealed[..length + TAG], control)?;
        blob.pieces.push((offset, (length + TAG) as u32));
    }
    Ok(blob)
}

/// Reads it back.
pub(super) fn read(image: &Image, kind: Kind, blob: &Blob) -> Result<Vec<u8>, Error> {
    let place = |index| match kind {
        Kind::WorkingSet => Place::WorkingSet(index),
        _ => Place::State(index),
    };
    let mut bytes = vec![0; blob.length as usize];
    let mut decoder = Decoder::new().map_err(io_error("read", image.path()))?;
    let mut sealed = Vec::new();
    let count = blob.pieces.len() as u64;
    let pieces = bytes.chunks_mut(BLOB_PIECE as usize).zip(&blob.pieces);
    for (index, (piece, (offset, length))) in (0..).zip(pieces) {
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
            Stored::from_byte(*stored).is_some_and(|stored| decoder.decode(stored, body, piece))
        });
        if !whole {
            return Err(image.altered(place(index)));
        }
    }
    Ok(bytes)
}

//! Reading device state and working set out of an image.

use std::os::unix::fs::FileExt;

use crate::error::{Error, Place, io_error};
use crate::format::codec::{Decoder, Stored};
use crate::format::head::{BLOB_PIECE, Blob};
use crate::format::seal::{self, Kind};
use crate::format::working_set;
use crate::memory::{PAGE, PAGE_SIZE};
use crate::read::reader::Image;

impl Image {
    /// What QEMU saved of everything but the memory.
    ///
    /// # Errors
    /// If it cannot be read or was altered.
    pub fn state(&self) -> Result<Vec<u8>, Error> {
        read(self, Kind::State, &self.head.state)
    }

    /// Ranges of pages in the order in which they were needed after the last resume.
    ///
    /// # Errors
    /// If they cannot be read or were altered.
    pub fn working_set(&self) -> Result<Option<Vec<std::ops::Range<u64>>>, Error> {
        let Some(blob) = &self.head.working_set else {
            return Ok(None);
        };
        let bytes = read(self, Kind::WorkingSet, blob)?;
        let ranges = working_set::decode(&bytes, self.header.memory / PAGE_SIZE);
        ranges
            .map(Some)
            .ok_or_else(|| self.altered(Place::WorkingSet(0)))
    }

    /// Has `take` take the numbers and contents of the pages that were needed first after the last
    /// resume, as long as it wants more.
    ///
    /// # Errors
    /// If they cannot be read or were altered.
    pub fn each_working_page(&self, take: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<(), Error> {
        let Some(blob) = &self.head.working_pages else {
            return Ok(());
        };
        let ranges = self.working_set()?.unwrap_or_default();
        let mut pages = working_set::first_pages(&ranges).into_iter();
        if blob.length != (pages.len() * PAGE) as u64 {
            return Err(self.altered(Place::WorkingSet(0)));
        }
        each(self, Kind::WorkingPages, blob, &mut |piece| {
            // In this order: a page too many would be lost.
            for (content, page) in piece.chunks(PAGE).zip(pages.by_ref()) {
                if !take(page, content) {
                    return false;
                }
            }
            true
        })
    }
}

/// All of a blob.
fn read(image: &Image, kind: Kind, blob: &Blob) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::with_capacity(blob.length as usize);
    each(image, kind, blob, &mut |piece| {
        bytes.extend_from_slice(piece);
        true
    })?;
    Ok(bytes)
}

/// A blob piece by piece, as long as `take` wants more. Only a piece of it is in memory at once.
fn each(
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
        let associated = seal::associated(&image.owner, kind.piece(index), count);
        let plain = image
            .key
            .open(kind.piece(index), &associated, &mut sealed)
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

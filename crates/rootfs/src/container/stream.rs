//! Stream from the bytes of a blob to those of a tar archive: counted, hashed, decompressed,
//! limited.

use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;

use sha2::{Digest, Sha256};

use super::compression::decompress;
use crate::Fault;

/// A hash that can be read while the reader that feeds it is inside a decoder.
pub(super) type Hash = Rc<RefCell<Sha256>>;

/// A reader that hashes and counts the bytes that it passes on.
pub(super) struct Tap<'a, R> {
    inner: R,
    hash: Hash,
    tick: &'a mut dyn FnMut(u64),
}

impl<R: Read> Read for Tap<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hash.borrow_mut().update(&buffer[..read]);
        (self.tick)(read as u64);
        Ok(read)
    }
}

/// The content of a layer with the hashes of its stored and its unpacked form.
pub(super) struct Layer<'a> {
    reader: Box<dyn Read + 'a>,
    stored: Hash,
    unpacked: Option<Sha256>,
    left: u64,
    limit: u64,
}

impl<'a> Layer<'a> {
    /// `limit` bounds the unpacked bytes; the unpacked form is hashed only where `hash_unpacked`.
    pub(super) fn new(
        inner: impl Read + 'a,
        tick: &'a mut dyn FnMut(u64),
        hash_unpacked: bool,
        limit: u64,
    ) -> io::Result<Self> {
        let stored = Hash::default();
        let hash = Rc::clone(&stored);
        Ok(Self {
            reader: decompress(Tap { inner, hash, tick })?,
            stored,
            unpacked: hash_unpacked.then(Sha256::new),
            left: limit,
            limit,
        })
    }

    /// Reads what is left, so that the hashes cover everything, and gives them as hexadecimal:
    /// stored and unpacked.
    pub(super) fn finish(mut self) -> Result<(String, Option<String>), Fault> {
        io::copy(&mut self, &mut io::sink())?;
        drop(self.reader);
        Ok((
            hex(&self.stored.borrow().clone().finalize()),
            self.unpacked.map(|hash| hex(&hash.finalize())),
        ))
    }
}

impl Read for Layer<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        if let Some(hash) = &mut self.unpacked {
            hash.update(&buffer[..read]);
        }
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::other(Fault::TooMuch {
                what: "bytes in an unpacked layer",
                limit: self.limit,
            })
        })?;
        Ok(read)
    }
}

impl super::archive::Skip for Layer<'_> {}

/// Lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

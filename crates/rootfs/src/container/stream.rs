//! Stream from the bytes of a blob to those of a tar archive: counted, hashed, decompressed,
//! limited.

use std::cell::RefCell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use sha2::{Digest, Sha256};

use crate::Fault;

const BUFFER: usize = 256 << 10;

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

/// The compression of a stream, by its first bytes: the media type in a manifest is only a claim,
/// and docker archives state none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// RFC 1952 section 2.3.1 and RFC 8878 section 3.1.1.
    pub(crate) fn of(head: &[u8]) -> Self {
        if head.starts_with(&[0x1f, 0x8b]) {
            Self::Gzip
        } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Self::Zstd
        } else {
            Self::None
        }
    }
}

/// Undoes the compression of `inner`.
pub(crate) fn decompress<'a>(inner: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut buffered = BufReader::with_capacity(BUFFER, inner);
    Ok(match Compression::of(buffered.fill_buf()?) {
        Compression::None => Box::new(buffered),
        Compression::Gzip => Box::new(BufReader::with_capacity(
            BUFFER,
            flate2::bufread::MultiGzDecoder::new(buffered),
        )),
        Compression::Zstd => Box::new(BufReader::with_capacity(
            BUFFER,
            zstd::stream::read::Decoder::with_buffer(buffered)?,
        )),
    })
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

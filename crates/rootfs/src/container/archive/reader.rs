//! Walk over the entries of a tar stream.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use tar::{EntryType, GnuExtSparseHeader, Header};

use super::entry::{Entry, Kind, blank_is_zero};
use super::extension::{Extension, number};
use crate::Fault;

const BLOCK: u64 = 512;
/// PATH_MAX is 4 KiB and the kernel takes xattr values of 64 KiB at most (XATTR_SIZE_MAX), so
/// this leaves room for some dozen of them.
const EXTENSION_MAX: u64 = 1 << 20;
const SEGMENTS_MAX: usize = 1 << 16;

/// A reader that may skip bytes faster than by reading them.
pub(crate) trait Skip: Read {
    /// Passes over `count` bytes; an early end of the stream is `UnexpectedEof`.
    fn skip(&mut self, count: u64) -> io::Result<()> {
        match io::copy(&mut self.take(count), &mut io::sink())? {
            skipped if skipped == count => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Skip for Box<dyn Read + '_> {}

impl Skip for File {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        let target = self.stream_position()?.checked_add(count);
        let length = self.metadata()?.len();
        let Some(target) = target.filter(|&target| target <= length) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        self.seek(SeekFrom::Start(target))?;
        Ok(())
    }
}

/// Walks a tar stream. After [`next_entry`](Self::next_entry) the reader stands at the stored
/// content of the entry, which may be read or left alone.
pub(crate) struct Reader<R> {
    inner: R,
    position: u64,
    /// Stored content of the current entry not yet read.
    content: u64,
    /// Bytes of extended headers since the last entry.
    extended: u64,
    padding: u64,
}

impl<R: Skip> Reader<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self {
            inner,
            position: 0,
            content: 0,
            extended: 0,
            padding: 0,
        }
    }

    /// Position in the stream of the next byte.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Stored content of the current entry not yet read, in bytes.
    pub(crate) fn content(&self) -> u64 {
        self.content
    }

    pub(crate) fn into_inner(self) -> R {
        self.inner
    }

    /// The next entry, or `None` after the block of zeros that ends an archive. A stream that
    /// stops without one was cut off.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, Fault> {
        let mut extension = Extension::default();
        self.extended = 0;
        loop {
            let rest = self.content + self.padding;
            self.inner.skip(rest)?;
            self.position += rest;
            (self.content, self.padding) = (0, 0);
            let mut header = Header::new_old();
            self.read_block(header.as_mut_bytes())?;
            if header.as_bytes().iter().all(|&byte| byte == 0) {
                return Ok(None);
            }
            verify(&header)?;
            let stored = blank_is_zero(&header.as_old().size, header.entry_size())
                .map_err(|error| Fault::Archive(format!("a header is damaged: {error}")))?;
            self.expect(stored)?;
            match header.entry_type() {
                EntryType::GNULongName => extension.path = Some(self.string()?),
                EntryType::GNULongLink => extension.link = Some(self.string()?),
                EntryType::XHeader => {
                    let records = self.extension()?;
                    extension.add_pax(&records)?;
                }
                // Defaults for the whole archive; what is written there in practice (a comment
                // with the commit by git archive) says nothing about files.
                EntryType::XGlobalHeader => {}
                _ => return self.entry(&header, extension, stored).map(Some),
            }
        }
    }

    fn entry(
        &mut self,
        header: &Header,
        mut extension: Extension,
        stored: u64,
    ) -> Result<Entry, Fault> {
        let stored = extension.size.unwrap_or(stored);
        let mut entry = Entry::new(header, &mut extension)?;
        if !matches!(entry.kind, Kind::File(_)) {
            // Old writers state the size of a link's target; nothing is stored all the same. The
            // readers of GNU tar and Go take it so.
            self.expect(0)?;
            return Ok(entry);
        }
        self.expect(stored)?;
        let mut size = stored;
        if header.entry_type() == EntryType::GNUSparse {
            let (segments, real) = self.gnu_segments(header)?;
            entry.segments = Some(segments);
            size = real;
        } else if extension.map_in_content {
            entry.segments = Some(self.segments_in_content()?);
        } else if extension.map.is_some() {
            entry.segments = extension.map;
        }
        if let Some(real) = extension.real_size.filter(|_| entry.segments.is_some()) {
            size = real;
        }
        if let Some(segments) = &entry.segments {
            check_segments(segments, self.content, size)?;
        }
        entry.kind = Kind::File(size);
        Ok(entry)
    }

    fn expect(&mut self, content: u64) -> Result<(), Fault> {
        // Seeks and sums must not overflow, and no archive is half as long as this.
        if content > 1 << 60 {
            return Err(Fault::Archive(format!(
                "an entry claims to be {content} bytes long"
            )));
        }
        self.content = content;
        self.padding = content.next_multiple_of(BLOCK) - content;
        Ok(())
    }

    fn read_block(&mut self, block: &mut [u8; 512]) -> Result<(), Fault> {
        self.inner.read_exact(block)?;
        self.position += BLOCK;
        Ok(())
    }

    fn extension(&mut self) -> Result<Vec<u8>, Fault> {
        // Any number of them may come before an entry, and all are kept until then.
        self.extended = self.extended.saturating_add(self.content);
        if self.extended > EXTENSION_MAX {
            return Err(Fault::TooMuch {
                what: "bytes in the extended headers of a file",
                limit: EXTENSION_MAX,
            });
        }
        let mut bytes = vec![0; usize::try_from(self.content).unwrap_or_default()];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn string(&mut self) -> Result<Vec<u8>, Fault> {
        let mut bytes = self.extension()?;
        if let Some(end) = bytes.iter().position(|&byte| byte == 0) {
            bytes.truncate(end);
        }
        Ok(bytes)
    }

    /// The map of GNU tar's own sparse format, which continues in blocks after the header.
    fn gnu_segments(&mut self, header: &Header) -> Result<(Vec<(u64, u64)>, u64), Fault> {
        let damaged = || Fault::Archive("the map of a sparse file is damaged".into());
        let gnu = header.as_gnu().ok_or_else(damaged)?;
        let mut segments = Vec::new();
        let mut add = |slots: &[tar::GnuSparseHeader]| {
            for slot in slots.iter().filter(|slot| !slot.is_empty()) {
                let offset = slot.offset().map_err(|_| damaged())?;
                segments.push((offset, slot.length().map_err(|_| damaged())?));
            }
            if segments.len() > SEGMENTS_MAX {
                return Err(damaged());
            }
            Ok(())
        };
        add(&gnu.sparse)?;
        let mut more = gnu.is_extended();
        while more {
            let mut block = GnuExtSparseHeader::new();
            self.read_block(block.as_mut_bytes())?;
            add(block.sparse())?;
            more = block.is_extended();
        }
        Ok((segments, gnu.real_size().map_err(|_| damaged())?))
    }

    /// The map of PAX format 1.0: decimal lines (how many, then offset and length of each),
    /// filled up to a whole block.
    fn segments_in_content(&mut self) -> Result<Vec<(u64, u64)>, Fault> {
        let damaged = || Fault::Archive("the map of a sparse file is damaged".into());
        let mut lines: Vec<u64> = Vec::new();
        let mut line = Vec::new();
        let mut block = [0; 512];
        loop {
            self.read_exact(&mut block)?;
            for &byte in &block {
                if byte != b'\n' {
                    line.push(byte);
                    continue;
                }
                lines.push(number(&line).ok_or_else(damaged)?);
                line.clear();
                let count = usize::try_from(lines[0]).unwrap_or(usize::MAX);
                if count > SEGMENTS_MAX {
                    return Err(damaged());
                }
                if lines.len() == 1 + 2 * count {
                    let pairs = lines[1..].chunks(2);
                    return Ok(pairs.map(|pair| (pair[0], pair[1])).collect());
                }
            }
            if line.len() > 20 {
                return Err(damaged());
            }
        }
    }
}

impl<R: Read> Read for Reader<R> {
    /// Reads the stored content of the current entry.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = (&mut self.inner).take(self.content).read(buffer)?;
        if read == 0 && self.content > 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.content -= read as u64;
        self.position += read as u64;
        Ok(read)
    }
}

/// The checksum is the sum of the header's bytes, its own field counted as spaces.
fn verify(header: &Header) -> Result<(), Fault> {
    let sum: u32 = header
        .as_bytes()
        .iter()
        .enumerate()
        .map(|(at, &byte)| match at {
            148..156 => u32::from(b' '),
            _ => u32::from(byte),
        })
        .sum();
    match header.cksum() {
        Ok(stated) if stated == sum => Ok(()),
        _ => Err(Fault::Archive(
            "a header has a wrong checksum: damaged, or no tar archive".into(),
        )),
    }
}

fn check_segments(segments: &[(u64, u64)], stored: u64, size: u64) -> Result<(), Fault> {
    let mut end = 0;
    let mut sum = 0;
    for &(offset, length) in segments {
        if offset < end || length > size || offset > size - length {
            return Err(Fault::Archive("the map of a sparse file is wrong".into()));
        }
        end = offset + length;
        sum += length;
    }
    if sum != stored {
        return Err(Fault::Archive(
            "the map of a sparse file does not fit its content".into(),
        ));
    }
    Ok(())
}

//! Parser of the device state, which QEMU saved without the guest's memory.

use std::collections::BTreeSet;

use brisk_image::{PAGE, PAGE_SIZE};

use super::wire::{Cursor, MAGIC, VERSION, flag, part};

/// Most blocks of memory that are accepted.
const MAX_BLOCKS: usize = 256;
/// Most memory of ROMs and the like, bytes.
const MAX_SMALL: u64 = 256 << 20;
/// Most pages of ROMs and the like that are accepted.
const MAX_PAGES: usize = (MAX_SMALL / PAGE_SIZE) as usize;

const CAPABILITIES: &[u8] = b"configuration/capabilities";
const PAGE_BITS: &[u8] = b"configuration/target-page-bits";
const UUID: &[u8] = b"configuration/uuid";
const WITHOUT_MEMORY: &[u8] = b"x-ignore-shared";

/// Error of a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the saved state of the devices is not understood at byte {at}: {what}")]
pub struct Error {
    /// Offset in the stream.
    pub at: usize,
    /// The defect.
    pub what: &'static str,
}

/// Content of a page of a small block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// One byte value for the whole page.
    Fill(u8),
    /// Other content; [`PAGE`] bytes.
    Bytes(Box<[u8]>),
}

/// A block of the VM's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its name.
    pub name: Vec<u8>,
    /// Length in bytes.
    pub length: u64,
    /// Pages by offset, as far as the stream has them.
    pub pages: Vec<(u64, Content)>,
}

/// A saved VM without its guest's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Full name of the machine type.
    pub machine: Vec<u8>,
    /// Subsections of the configuration, unchanged, which the new QEMU must have, too.
    pub subsections: Vec<u8>,
    /// Number of the section of memory.
    pub section: u32,
    /// Version of that section.
    pub version: u32,
    /// Blocks of memory.
    pub blocks: Vec<Block>,
    /// All other sections, unchanged.
    pub devices: Vec<u8>,
}

impl Saved {
    /// Parses a stream that was written with the capability `x-ignore-shared`.
    ///
    /// # Errors
    /// If it is something else, cut off or damaged.
    pub fn parse(stream: &[u8]) -> Result<Self, Error> {
        let mut parser = Parser {
            stream,
            cursor: Cursor { rest: stream },
        };
        parser.parse()
    }

    /// The block of `length` bytes of which the stream has no page: the guest's memory.
    #[must_use]
    pub fn memory(&self, length: u64) -> Option<&Block> {
        let mut found = self
            .blocks
            .iter()
            .filter(|block| block.length == length && block.pages.is_empty());
        found.next().filter(|_| found.next().is_none())
    }
}

struct Parser<'a> {
    stream: &'a [u8],
    cursor: Cursor<'a>,
}

impl<'a> Parser<'a> {
    fn fail<T>(&self, what: &'static str) -> Result<T, Error> {
        let at = self.stream.len() - self.cursor.rest.len();
        Err(Error { at, what })
    }

    fn need<T>(&mut self, read: impl FnOnce(&mut Cursor<'a>) -> Option<T>) -> Result<T, Error> {
        match read(&mut self.cursor) {
            Some(value) => Ok(value),
            None => self.fail("it ends too early"),
        }
    }

    fn parse(&mut self) -> Result<Saved, Error> {
        if self.need(Cursor::be32)? != MAGIC {
            return self.fail("it is no stream of a migration");
        }
        if self.need(Cursor::be32)? != VERSION {
            return self.fail("its version is not 3");
        }
        let (machine, subsections) = self.configuration()?;
        if self.need(Cursor::u8)? != part::SECTION_START {
            return self.fail("no section begins");
        }
        let section = self.need(Cursor::be32)?;
        if self.need(Cursor::name)? != b"ram" {
            return self.fail("the first section is not that of memory");
        }
        self.need(Cursor::be32)?;
        let version = self.need(Cursor::be32)?;
        let mut blocks = Vec::new();
        self.pages(&mut blocks)?;
        self.footer(section)?;
        loop {
            match self.need(Cursor::u8)? {
                part::COMMAND => {
                    self.need(Cursor::be16)?;
                    let length = self.need(Cursor::be16)?;
                    self.need(|cursor| cursor.bytes(length.into()))?;
                }
                kind @ (part::SECTION_PART | part::SECTION_END) => {
                    if self.need(Cursor::be32)? != section {
                        return self.fail("a section other than that of memory goes on");
                    }
                    self.pages(&mut blocks)?;
                    self.footer(section)?;
                    if kind == part::SECTION_END {
                        break;
                    }
                }
                _ => return self.fail("memory does not end before the devices"),
            }
        }
        if blocks.is_empty() {
            return self.fail("it has no list of memory");
        }
        let devices = self.devices()?.to_vec();
        Ok(Saved {
            machine,
            subsections,
            section,
            version,
            blocks,
            devices,
        })
    }

    /// The machine type's name, and the subsections without that of the capabilities.
    fn configuration(&mut self) -> Result<(Vec<u8>, Vec<u8>), Error> {
        if self.need(Cursor::u8)? != part::CONFIGURATION {
            return self.fail("the configuration is missing");
        }
        let length = self.need(Cursor::be32)?;
        if length > 255 {
            return self.fail("the machine type's name is too long");
        }
        let machine = self.need(|cursor| cursor.bytes(length as usize))?.to_vec();
        let mut without_memory = false;
        let mut kept = Vec::new();
        while self.cursor.rest.first() == Some(&part::SUBSECTION) {
            let begin = self.cursor.rest;
            self.need(Cursor::u8)?;
            let name = self.need(Cursor::name)?;
            self.need(Cursor::be32)?;
            match name {
                CAPABILITIES => {
                    for _ in 0..self.need(Cursor::be32)? {
                        without_memory |= self.need(Cursor::name)? == WITHOUT_MEMORY;
                    }
                    continue;
                }
                PAGE_BITS => self.need(|cursor| cursor.bytes(4))?,
                UUID => self.need(|cursor| cursor.bytes(16))?,
                _ => return self.fail("a part of the configuration is unknown"),
            };
            kept.extend(&begin[..begin.len() - self.cursor.rest.len()]);
        }
        if !without_memory {
            return self.fail("it was not written with x-ignore-shared");
        }
        Ok((machine, kept))
    }

    /// Parses records of the section of memory, up to their end.
    fn pages(&mut self, blocks: &mut Vec<Block>) -> Result<(), Error> {
        let mut current = None;
        loop {
            let word = self.need(Cursor::be64)?;
            let (offset, flags) = (word & !flag::ALL, word & flag::ALL);
            if flags == flag::END {
                return Ok(());
            }
            if flags == flag::SIZES {
                if !blocks.is_empty() {
                    return self.fail("it has two lists of memory");
                }
                *blocks = self.blocks(offset)?;
                continue;
            }
            if flags & flag::SAME_BLOCK == 0 {
                let name = self.need(Cursor::name)?;
                current = blocks.iter().position(|block| block.name == name);
            }
            let content = match flags & !flag::SAME_BLOCK {
                flag::ZERO => Content::Fill(self.need(Cursor::u8)?),
                flag::PAGE => Content::Bytes(self.need(|cursor| cursor.bytes(PAGE))?.into()),
                _ => return self.fail("a page of a kind that is unknown"),
            };
            let total: usize = blocks.iter().map(|block| block.pages.len()).sum();
            let Some(block) = current.and_then(|index| blocks.get_mut(index)) else {
                return self.fail("a page of a block that is not there");
            };
            if offset >= block.length || total >= MAX_PAGES {
                return self.fail("a page outside of its block");
            }
            block.pages.push((offset, content));
        }
    }

    fn blocks(&mut self, total: u64) -> Result<Vec<Block>, Error> {
        let mut left = total;
        let mut names = BTreeSet::new();
        let mut blocks = Vec::new();
        while left > 0 {
            let name = self.need(Cursor::name)?.to_vec();
            let length = self.need(Cursor::be64)?;
            // Where the guest has it.
            self.need(Cursor::be64)?;
            let fits = length > 0 && length % PAGE_SIZE == 0 && length <= left;
            if !fits || blocks.len() == MAX_BLOCKS || !names.insert(name.clone()) {
                return self.fail("the list of memory cannot be");
            }
            left -= length;
            blocks.push(Block {
                name,
                length,
                pages: Vec::new(),
            });
        }
        Ok(blocks)
    }

    fn footer(&mut self, section: u32) -> Result<(), Error> {
        if self.need(Cursor::u8)? != part::FOOTER || self.need(Cursor::be32)? != section {
            return self.fail("a section does not end as it should");
        }
        Ok(())
    }

    /// The rest, without the end mark and the description in JSON behind it. Only the description
    /// shows where the end is: sections have no length.
    fn devices(&mut self) -> Result<&'a [u8], Error> {
        let rest = self.cursor.rest;
        let mark = [part::END_OF_STREAM, part::DESCRIPTION];
        for at in memchr::memmem::rfind_iter(rest, &mark) {
            let mut tail = Cursor {
                rest: &rest[at + mark.len()..],
            };
            let length = tail.be32().map(|length| length as usize);
            if length == Some(tail.rest.len()) && tail.rest.starts_with(b"{") {
                return Ok(&rest[..at]);
            }
        }
        self.fail("its end is missing")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Stream of QEMU 10.0.2 for a `pc` with 128 MiB; the content of pages is replaced.
    fn stream() -> Vec<u8> {
        zstd::decode_all(&include_bytes!("fixtures/pc.state.zst")[..]).unwrap()
    }

    #[test]
    fn a_machine_is_taken_apart() {
        let saved = Saved::parse(&stream()).unwrap();
        assert_eq!(saved.machine, b"pc-i440fx-10.0");
        assert_eq!((saved.section, saved.version), (1, 4));
        let blocks: Vec<_> = saved
            .blocks
            .iter()
            .map(|block| (&*block.name, block.length, block.pages.len()))
            .collect();
        assert_eq!(
            blocks,
            [
                (&b"ram"[..], 128 << 20, 0),
                (b"pc.rom", 128 << 10, 32),
                (b"pc.bios", 64 << 10, 16),
            ]
        );
        assert_eq!(saved.memory(128 << 20), Some(&saved.blocks[0]));
        assert_eq!(saved.memory(64 << 10), None);
        let bytes = |page: &&(u64, Content)| matches!(page.1, Content::Bytes(_));
        assert_eq!(saved.blocks[2].pages.iter().filter(bytes).count(), 7);
        assert!(saved.subsections.is_empty());
        // A full section, and the footer of the last one.
        assert_eq!(saved.devices[0], 4);
        assert_eq!(saved.devices[saved.devices.len() - 5], part::FOOTER);
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let stream = stream();
        for length in (0..stream.len()).step_by(61) {
            Saved::parse(&stream[..length]).unwrap_err();
        }
    }

    #[test]
    fn a_stream_with_memory_is_refused() {
        let mut stream = stream();
        let at = memchr::memmem::find(&stream, WITHOUT_MEMORY).unwrap();
        stream[at] = b'y';
        assert!(Saved::parse(&stream).is_err());
    }

    proptest! {
        #[test]
        fn anything_is_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Saved::parse(&bytes);
        }

        #[test]
        fn damage_is_taken_or_refused(
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
            early in any::<bool>(),
        ) {
            let mut stream = stream();
            let end = if early { 256 } else { stream.len() };
            for (at, byte) in changes {
                stream[at.index(end)] = byte;
            }
            let _ = Saved::parse(&stream);
        }
    }
}

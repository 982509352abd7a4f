//! Numbers of the migration stream, with a reader and a writer.

use brisk_image::PAGE_SIZE;

pub(super) const MAGIC: u32 = u32::from_be_bytes(*b"QEVM");
pub(super) const VERSION: u32 = 3;

/// First byte of a part of the stream.
pub(super) mod part {
    pub(in crate::migration) const END_OF_STREAM: u8 = 0;
    pub(in crate::migration) const SECTION_START: u8 = 1;
    pub(in crate::migration) const SECTION_PART: u8 = 2;
    pub(in crate::migration) const SECTION_END: u8 = 3;
    pub(in crate::migration) const SUBSECTION: u8 = 5;
    pub(in crate::migration) const DESCRIPTION: u8 = 6;
    pub(in crate::migration) const CONFIGURATION: u8 = 7;
    pub(in crate::migration) const COMMAND: u8 = 8;
    pub(in crate::migration) const FOOTER: u8 = 0x7e;
}

/// Commands to the other side.
pub(super) mod command {
    pub(in crate::migration) const OPEN_RETURN_PATH: u16 = 1;
    pub(in crate::migration) const ADVISE: u16 = 3;
    pub(in crate::migration) const LISTEN: u16 = 4;
    pub(in crate::migration) const RUN: u16 = 5;
    pub(in crate::migration) const DISCARD: u16 = 6;
    pub(in crate::migration) const PACKAGED: u16 = 7;
    pub(in crate::migration) const RESUME: u16 = 9;
    pub(in crate::migration) const RECEIVED: u16 = 10;
}

/// Flags in the low bits of a page's address.
pub(super) mod flag {
    pub(in crate::migration) const ZERO: u64 = 0x02;
    pub(in crate::migration) const SIZES: u64 = 0x04;
    pub(in crate::migration) const PAGE: u64 = 0x08;
    pub(in crate::migration) const END: u64 = 0x10;
    pub(in crate::migration) const SAME_BLOCK: u64 = 0x20;
    pub(in crate::migration) const ALL: u64 = super::PAGE_SIZE - 1;
}

/// Reader from the front; `None` where bytes are missing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        Some(self.bytes(1)?[0])
    }

    pub(super) fn be16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(*self.bytes(2)?.first_chunk()?))
    }

    pub(super) fn be32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(*self.bytes(4)?.first_chunk()?))
    }

    pub(super) fn be64(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(*self.bytes(8)?.first_chunk()?))
    }

    /// Reads a name after its length.
    pub(super) fn name(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.bytes(length.into())
    }
}

/// Writes a command with its data, which is short.
pub(super) fn put_command(out: &mut Vec<u8>, number: u16, data: &[u8]) {
    out.push(part::COMMAND);
    out.extend(number.to_be_bytes());
    out.extend((data.len() as u16).to_be_bytes());
    out.extend(data);
}

/// Writes a name after its length, which fits a byte: names were read from the stream.
pub(super) fn put_name(out: &mut Vec<u8>, name: &[u8]) {
    out.push(name.len() as u8);
    out.extend(name);
}

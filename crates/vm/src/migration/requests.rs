//! What a QEMU that lacks memory says on the way back.

use std::ops::Range;

use super::wire::{Cursor, PAGE};

/// Longest message that is believed, bytes.
const LONGEST: usize = 1024;

mod kind {
    pub(in crate::migration) const SHUT: u16 = 1;
    pub(in crate::migration) const PONG: u16 = 2;
    pub(in crate::migration) const PAGES_OF_BLOCK: u16 = 3;
    pub(in crate::migration) const PAGES: u16 = 4;
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// These bytes of guest memory are wanted, whole pages.
    Pages(Range<u64>),
    /// It has all, or gives up; 0 is well.
    Shut(u32),
}

/// Turns the bytes that come back into messages.
#[derive(Debug)]
pub struct Requests {
    buffer: Vec<u8>,
    memory: Vec<u8>,
    length: u64,
    /// Whether the block that was named last is guest memory.
    ours: bool,
}

impl Requests {
    /// For guest memory of this name and length.
    #[must_use]
    pub fn new(memory: &[u8], length: u64) -> Self {
        Self {
            buffer: Vec::new(),
            memory: memory.to_vec(),
            length,
            ours: false,
        }
    }

    /// Takes bytes as they came.
    ///
    /// # Errors
    /// What they are instead of messages.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Request>, &'static str> {
        self.buffer.extend(bytes);
        let buffer = std::mem::take(&mut self.buffer);
        let mut cursor = Cursor { rest: &buffer };
        let mut requests = Vec::new();
        loop {
            let begin = cursor.rest;
            let Some((kind, data)) = message(&mut cursor)? else {
                self.buffer = begin.to_vec();
                return Ok(requests);
            };
            requests.extend(self.request(kind, data)?);
        }
    }

    fn request(&mut self, kind: u16, data: &[u8]) -> Result<Option<Request>, &'static str> {
        let mut data = Cursor { rest: data };
        let short = "a message is too short";
        match kind {
            kind::SHUT => Ok(Some(Request::Shut(data.be32().ok_or(short)?))),
            kind::PONG => Ok(None),
            kind::PAGES | kind::PAGES_OF_BLOCK => {
                let start = data.be64().ok_or(short)?;
                let length = data.be32().ok_or(short)?;
                if kind == kind::PAGES_OF_BLOCK {
                    self.ours = data.name().ok_or(short)? == self.memory;
                }
                if !self.ours {
                    return Err("it asks for memory that was sent before");
                }
                let end = start.checked_add(length.into());
                let end = end.filter(|end| *end <= self.length);
                let page = PAGE as u64;
                match end {
                    Some(end) if start % page == 0 && end % page == 0 && start < end => {
                        Ok(Some(Request::Pages(start..end)))
                    }
                    _ => Err("it asks for memory that is not there"),
                }
            }
            _ => Err("a message is unknown"),
        }
    }
}

/// A whole message, if it is there.
fn message<'a>(cursor: &mut Cursor<'a>) -> Result<Option<(u16, &'a [u8])>, &'static str> {
    let mut ahead = *cursor;
    let (Some(kind), Some(length)) = (ahead.be16(), ahead.be16()) else {
        return Ok(None);
    };
    if usize::from(length) > LONGEST {
        return Err("a message is too long");
    }
    let Some(data) = ahead.bytes(length.into()) else {
        return Ok(None);
    };
    *cursor = ahead;
    Ok(Some((kind, data)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAMED: &[u8] = b"\0\x03\0\x10\0\0\0\0\0\0\x20\0\0\0\x10\0\x03ram";
    const AGAIN: &[u8] = b"\0\x04\0\x0c\0\0\0\0\0\0\x30\0\0\0\x20\0";
    const SHUT: &[u8] = b"\0\x01\0\x04\0\0\0\0";

    #[test]
    fn requests_are_understood_however_they_are_cut() {
        let all = [NAMED, AGAIN, SHUT].concat();
        for cut in 1..all.len() {
            let mut requests = Requests::new(b"ram", 1 << 20);
            let pieces = all.chunks(cut);
            let got: Vec<_> = pieces
                .flat_map(|piece| requests.push(piece).unwrap())
                .collect();
            assert_eq!(
                got,
                [
                    Request::Pages(0x2000..0x3000),
                    Request::Pages(0x3000..0x5000),
                    Request::Shut(0)
                ]
            );
        }
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused() {
        assert!(Requests::new(b"ram", 0x2000).push(NAMED).is_err());
        assert!(Requests::new(b"rom", 1 << 20).push(NAMED).is_err());
        assert!(Requests::new(b"ram", 1 << 20).push(AGAIN).is_err());
        assert!(Requests::new(b"ram", 1 << 20).push(b"\0\x09\0\0").is_err());
        assert!(
            Requests::new(b"ram", 1 << 20)
                .push(b"\0\x01\xff\xff")
                .is_err()
        );
    }

    proptest! {
        #[test]
        fn what_is_asked_for_is_there(bytes in proptest::collection::vec(0_u8..5, 0..200)) {
            let mut requests = Requests::new(b"", 1 << 40);
            for request in requests.push(&bytes).unwrap_or_default() {
                if let Request::Pages(range) = request {
                    prop_assert!(range.start < range.end && range.end <= 1 << 40);
                }
            }
        }
    }
}

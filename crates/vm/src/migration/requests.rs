//! Messages of QEMU on the return path of a migration.

use std::ops::Range;

use brisk_image::PAGE_SIZE;

use super::wire::Cursor;

/// Longest message that is accepted, bytes.
const LONGEST: usize = 1024;

mod kind {
    pub(in crate::migration) const SHUT: u16 = 1;
    pub(in crate::migration) const PONG: u16 = 2;
    pub(in crate::migration) const PAGES_OF_BLOCK: u16 = 3;
    pub(in crate::migration) const PAGES: u16 = 4;
    pub(in crate::migration) const RECEIVED: u16 = 5;
    pub(in crate::migration) const RESUMED: u16 = 6;

    /// Mark after the bits of [`RECEIVED`].
    pub(in crate::migration) const RECEIVED_END: u64 = 0x0123_4567_89ab_cdef;
}

/// A message on the return path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// QEMU needs these bytes of guest memory, whole pages.
    Pages(Range<u64>),
    /// QEMU has all pages (0), or gives up.
    Shut(u32),
    /// Bitmap of the pages of guest memory that QEMU has.
    Received(Vec<u64>),
    /// QEMU continues with another source.
    Resumed,
}

/// Decoder of the return path.
#[derive(Debug)]
pub struct Requests {
    buffer: Vec<u8>,
    memory: Vec<u8>,
    length: u64,
    /// Whether the block that was named last is guest memory.
    ours: bool,
}

impl Requests {
    /// A decoder for guest memory of this name and length.
    #[must_use]
    pub fn new(memory: &[u8], length: u64) -> Self {
        Self {
            buffer: Vec::new(),
            memory: memory.to_vec(),
            length,
            ours: false,
        }
    }

    /// Adds bytes as they arrived; the result is the messages in them.
    ///
    /// # Errors
    /// A description of bytes that are no messages.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Request>, &'static str> {
        self.buffer.extend(bytes);
        let buffer = std::mem::take(&mut self.buffer);
        let mut cursor = Cursor { rest: &buffer };
        let mut requests = Vec::new();
        loop {
            let begin = cursor.rest;
            let Some((kind, data)) = message(&mut cursor, self.bits())? else {
                self.buffer = begin.to_vec();
                return Ok(requests);
            };
            requests.extend(self.request(kind, data)?);
        }
    }

    /// Bytes of the bitmap of all pages, as QEMU sends it.
    fn bits(&self) -> usize {
        self.length.div_ceil(PAGE_SIZE).div_ceil(64) as usize * size_of::<u64>()
    }

    fn received(&self, mut data: Cursor<'_>) -> Result<Request, &'static str> {
        let wrong = "it does not say which memory it has";
        let named = data.name() == Some(&self.memory);
        let length = data.be64() == Some(self.bits() as u64);
        let bits = data.bytes(self.bits()).unwrap_or_default();
        if !named || !length || data.be64() != Some(kind::RECEIVED_END) || !data.rest.is_empty() {
            return Err(wrong);
        }
        let words = bits.chunks_exact(size_of::<u64>());
        let word = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        Ok(Request::Received(words.map(word).collect()))
    }

    fn request(&mut self, kind: u16, data: &[u8]) -> Result<Option<Request>, &'static str> {
        let mut data = Cursor { rest: data };
        let short = "a message is too short";
        match kind {
            kind::SHUT => Ok(Some(Request::Shut(data.be32().ok_or(short)?))),
            kind::PONG => Ok(None),
            kind::RESUMED => Ok(Some(Request::Resumed)),
            kind::RECEIVED => self.received(data).map(Some),
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
                let page = PAGE_SIZE;
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

/// Splits a whole message off, if it is there. `bits` is the length of the bitmap after a name of
/// [`kind::RECEIVED`], bytes.
fn message<'a>(
    cursor: &mut Cursor<'a>,
    bits: usize,
) -> Result<Option<(u16, &'a [u8])>, &'static str> {
    let mut ahead = *cursor;
    let (Some(kind), Some(length)) = (ahead.be16(), ahead.be16()) else {
        return Ok(None);
    };
    if usize::from(length) > LONGEST {
        return Err("a message is too long");
    }
    let mut length = usize::from(length);
    if kind == kind::RECEIVED {
        length += bits + 2 * size_of::<u64>();
    }
    let Some(data) = ahead.bytes(length) else {
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
    /// Of 70 pages QEMU has the second and the last.
    const RECEIVED: &[u8] = b"\0\x05\0\x04\x03ram\0\0\0\0\0\0\0\x10\
        \x02\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0\x01\x23\x45\x67\x89\xab\xcd\xef";
    const RESUMED: &[u8] = b"\0\x06\0\x04\0\0\0\x01";

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
    fn what_is_there_is_understood_however_it_is_cut() {
        let all = [RECEIVED, RESUMED].concat();
        for cut in 1..all.len() {
            let mut requests = Requests::new(b"ram", 70 * PAGE_SIZE);
            let pieces = all.chunks(cut);
            let got: Vec<_> = pieces
                .flat_map(|piece| requests.push(piece).unwrap())
                .collect();
            assert_eq!(got, [Request::Received(vec![2, 0x20]), Request::Resumed]);
        }
    }

    #[test]
    fn what_is_there_of_another_memory_is_refused() {
        let other = |name: &[u8], pages: u64| {
            let all = [RECEIVED, RESUMED].concat();
            Requests::new(name, pages * PAGE_SIZE).push(&all).is_err()
        };
        assert!(!other(b"ram", 70));
        assert!(other(b"rom", 70));
        assert!(other(b"ram", 10));
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

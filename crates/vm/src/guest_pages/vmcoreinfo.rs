//! VMCOREINFO, the kernel's note for crash dumps.

use std::collections::HashMap;

use super::{Memory, Unknown};

/// Largest note; kernels have one of 4096 bytes and what an ELF note has in front.
const MAX: u64 = 64 << 10;

/// Place of the note in a guest's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VmcoreinfoLocation {
    /// Physical address.
    pub address: u64,
    /// Bytes.
    pub length: u64,
}

impl VmcoreinfoLocation {
    /// Parses `/sys/kernel/vmcoreinfo`: address and length, both hexadecimal.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let mut number = || {
            let word = words.next()?;
            u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
        };
        Some(Self {
            address: number()?,
            length: number()?,
        })
    }
}

/// Entries of the note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vmcoreinfo(HashMap<String, String>);

impl Vmcoreinfo {
    pub(super) fn read(memory: Memory<'_>, place: VmcoreinfoLocation) -> Result<Self, Unknown> {
        let mut bytes = vec![0; place.length.min(MAX) as usize];
        memory.read(place.address, &mut bytes)?;
        Self::parse(&bytes).ok_or(Unknown::Strange("note"))
    }

    /// Parses an ELF note.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (front, length) = extent(bytes)?;
        let text = bytes.get(front..)?;
        let text = String::from_utf8_lossy(&text[..length.min(text.len())]);
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Some(Self(pairs.collect()))
    }

    /// Value of a `NUMBER`, `SIZE`, `OFFSET` or `LENGTH`; a negative one as its two's complement.
    pub(super) fn number(&self, name: &str) -> Result<u64, Unknown> {
        let text = self.text(name)?;
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse::<i64>().ok().map(|number| number as u64),
        };
        number.ok_or_else(|| Unknown::Missing(name.to_owned()))
    }

    /// Address of a `SYMBOL`.
    pub(super) fn address(&self, name: &str) -> Result<u64, Unknown> {
        let name = format!("SYMBOL({name})");
        let address = u64::from_str_radix(self.text(&name)?, 16).ok();
        address.ok_or(Unknown::Missing(name))
    }

    fn text(&self, name: &str) -> Result<&str, Unknown> {
        let text = self.0.get(name).map(|text| text.trim());
        text.ok_or_else(|| Unknown::Missing(name.to_owned()))
    }
}

/// Offset and length of the text in the note that these bytes begin with. Before the text are the
/// lengths of name and text, a type, and the name.
pub(super) fn extent(bytes: &[u8]) -> Option<(usize, usize)> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize);
    let (name, length) = (word(0)?, word(4)?);
    let named = bytes.get(12..12 + name.min(64))? == b"VMCOREINFO\0";
    named.then(|| (12 + name.next_multiple_of(4), length))
}

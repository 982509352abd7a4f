//! The part of the stream before the guest runs; pure.

use brisk_image::{PAGE, PAGE_SIZE};

use super::saved::{Block, Content, Saved};
use super::wire::{MAGIC, VERSION, command, flag, part, put_command, put_name};

/// Encoder of the section of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RamSection {
    section: u32,
    block: Vec<u8>,
}

impl RamSection {
    /// An encoder for a block of guest memory.
    #[must_use]
    pub fn new(saved: &Saved, memory: &Block) -> Self {
        Self {
            section: saved.section,
            block: memory.name.clone(),
        }
    }

    /// A part with pages of guest memory: their offsets and contents, `None` for zero pages.
    pub fn pages<'a>(
        &self,
        pages: impl IntoIterator<Item = (u64, Option<&'a [u8]>)>,
        out: &mut Vec<u8>,
    ) {
        out.push(part::SECTION_PART);
        out.extend(self.section.to_be_bytes());
        let mut same = 0;
        for (offset, content) in pages {
            let kind = if content.is_some() {
                flag::PAGE
            } else {
                flag::ZERO
            };
            out.extend((offset | kind | same).to_be_bytes());
            if same == 0 {
                put_name(out, &self.block);
                same = flag::SAME_BLOCK;
            }
            out.extend(content.unwrap_or(&[0]));
        }
        self.end_section(out);
    }

    /// Ends all memory and the stream.
    pub fn end(&self, out: &mut Vec<u8>) {
        out.push(part::SECTION_END);
        out.extend(self.section.to_be_bytes());
        self.end_section(out);
        out.push(part::END_OF_STREAM);
    }

    fn end_section(&self, out: &mut Vec<u8>) {
        out.extend(flag::END.to_be_bytes());
        out.push(part::FOOTER);
        out.extend(self.section.to_be_bytes());
    }
}

/// The stream up to the command to run, with all pages of `memory` still missing.
#[must_use]
pub fn opening(saved: &Saved, memory: &Block) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(MAGIC.to_be_bytes());
    out.extend(VERSION.to_be_bytes());
    out.push(part::CONFIGURATION);
    out.extend((saved.machine.len() as u32).to_be_bytes());
    out.extend(&saved.machine);
    out.extend(&saved.subsections);
    put_command(&mut out, command::OPEN_RETURN_PATH, &[]);
    // All sizes of pages there are, in one word, and that of the guest.
    let sizes = [PAGE_SIZE; 2].map(u64::to_be_bytes).concat();
    put_command(&mut out, command::ADVISE, &sizes);
    list(saved, &mut out);
    for block in &saved.blocks {
        small(saved, block, &mut out);
    }
    put_command(&mut out, command::DISCARD, &discard(memory));
    let mut package = Vec::new();
    put_command(&mut package, command::LISTEN, &[]);
    package.extend(&saved.devices);
    put_command(&mut package, command::RUN, &[]);
    let length = (package.len() as u32).to_be_bytes();
    put_command(&mut out, command::PACKAGED, &length);
    out.extend(package);
    out
}

/// Asks a QEMU that had another source for the pages of `memory` that it has.
#[must_use]
pub(super) fn inquiry(memory: &Block) -> Vec<u8> {
    let mut out = Vec::new();
    put_command(&mut out, command::OPEN_RETURN_PATH, &[]);
    let mut name = Vec::new();
    put_name(&mut name, &memory.name);
    put_command(&mut out, command::RECEIVED, &name);
    out
}

/// Allows a QEMU that has reported its pages to continue.
#[must_use]
pub(super) fn resumption() -> Vec<u8> {
    let mut out = Vec::new();
    put_command(&mut out, command::RESUME, &[]);
    out
}

fn list(saved: &Saved, out: &mut Vec<u8>) {
    out.push(part::SECTION_START);
    out.extend(saved.section.to_be_bytes());
    put_name(out, b"ram");
    out.extend(0_u32.to_be_bytes());
    out.extend(saved.version.to_be_bytes());
    let total: u64 = saved.blocks.iter().map(|block| block.length).sum();
    out.extend((total | flag::SIZES).to_be_bytes());
    for block in &saved.blocks {
        put_name(out, &block.name);
        out.extend(block.length.to_be_bytes());
    }
    out.extend(flag::END.to_be_bytes());
    out.push(part::FOOTER);
    out.extend(saved.section.to_be_bytes());
}

/// Encodes the pages of a small block, which the saved stream has.
fn small(saved: &Saved, block: &Block, out: &mut Vec<u8>) {
    let filled: Vec<_> = block
        .pages
        .iter()
        .map(|(offset, content)| match content {
            Content::Fill(0) => (*offset, None),
            Content::Fill(byte) => (*offset, Some(vec![*byte; PAGE])),
            Content::Bytes(bytes) => (*offset, Some(bytes.to_vec())),
        })
        .collect();
    if filled.is_empty() {
        return;
    }
    let pages = filled
        .iter()
        .map(|(offset, content)| (*offset, content.as_deref()));
    RamSection::new(saved, block).pages(pages, out);
}

/// The data of a discard command: version 0, the block's name with a NUL, and one range.
fn discard(memory: &Block) -> Vec<u8> {
    let mut data = vec![0];
    put_name(&mut data, &memory.name);
    data.push(0);
    data.extend(0_u64.to_be_bytes());
    data.extend(memory.length.to_be_bytes());
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> Saved {
        let block = |name: &[u8], length, pages| Block {
            name: name.to_vec(),
            length,
            pages,
        };
        Saved {
            machine: b"pc".to_vec(),
            subsections: Vec::new(),
            section: 1,
            version: 4,
            blocks: vec![
                block(b"ram", 1 << 20, Vec::new()),
                block(
                    b"rom",
                    8192,
                    vec![(0, Content::Fill(0)), (4096, Content::Fill(7))],
                ),
            ],
            devices: b"devices".to_vec(),
        }
    }

    #[test]
    fn the_devices_come_between_listening_and_running() {
        let saved = saved();
        let out = opening(&saved, &saved.blocks[0]);
        let package = b"\x08\0\x04\0\0devices\x08\0\x05\0\0";
        assert!(out.ends_with(package));
        let head = &out[..out.len() - package.len()];
        assert!(head.ends_with(&[8, 0, 7, 0, 4, 0, 0, 0, package.len() as u8]));
    }

    #[test]
    fn another_source_asks_first() {
        let saved = saved();
        let asked = inquiry(&saved.blocks[0]);
        assert_eq!(asked, b"\x08\0\x01\0\0\x08\0\x0a\0\x04\x03ram");
        assert_eq!(resumption(), b"\x08\0\x09\0\0");
    }

    #[test]
    fn pages_name_their_block_once() {
        let saved = saved();
        let section = RamSection::new(&saved, &saved.blocks[0]);
        let mut out = Vec::new();
        let full = [9; PAGE];
        section.pages([(0x1000, None), (0x3000, Some(&full[..]))], &mut out);
        let mut wanted =
            b"\x02\0\0\0\x01\0\0\0\0\0\0\x10\x02\x03ram\0\0\0\0\0\0\0\x30\x28".to_vec();
        wanted.extend(full);
        wanted.extend(b"\0\0\0\0\0\0\0\x10\x7e\0\0\0\x01");
        assert_eq!(out, wanted);
    }
}

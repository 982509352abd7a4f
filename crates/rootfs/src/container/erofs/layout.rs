//! Layout of an EROFS image: the place of every inode and of all data.

use std::io::{self, Write};

use super::directory::{self, Name};
use super::inode::{self, Inode};
use super::superblock::{self, Superblock};
use super::{BLOCK, BLOCK_64, xattr};
use crate::Fault;
use crate::container::tree::{Body, Content, Node, Tree};

/// A rest up to this length goes behind its inode even where that leaves a gap before it: the gap
/// is then shorter than the block it saves.
const WORTH_A_GAP: u64 = BLOCK_64 / 2;

/// Place of a file's content in the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::container) struct Place {
    pub(in crate::container) size: u64,
    blocks: u64,
    /// Position of the last bytes, which do not fill a block.
    tail: Option<u64>,
}

impl Place {
    /// Position in the image of the byte at `offset`, and the number of bytes that follow in a run.
    pub(in crate::container) fn at(&self, offset: u64) -> (u64, u64) {
        let split = match self.tail {
            Some(_) => self.size - self.size % BLOCK_64,
            None => self.size,
        };
        match self.tail {
            Some(tail) if offset >= split => (tail + offset - split, self.size - offset),
            _ => (self.blocks + offset, split - offset),
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// Position of the inode, in bytes from the start of the image.
    position: u64,
    links: u32,
    parent: usize,
    size: u64,
    /// Position of the first block, in bytes.
    blocks: u64,
    xattrs: usize,
    inline: bool,
}

impl Slot {
    fn nid(&self) -> u64 {
        self.position / 32
    }

    fn tail(&self) -> u64 {
        self.position + (inode::SIZE + self.xattrs) as u64
    }

    /// Bytes outside of the inode.
    fn outside(&self) -> u64 {
        match self.inline {
            true => self.size - self.size % BLOCK_64,
            false => self.size.next_multiple_of(BLOCK_64),
        }
    }
}

/// Layout of an image: every byte has its place.
pub(in crate::container) struct Layout<'a> {
    tree: &'a Tree,
    /// Nodes of the image, in the order of a walk.
    order: Vec<usize>,
    slots: Vec<Slot>,
    /// Position of the blocks of files.
    metadata: u64,
    length: u64,
}

impl<'a> Layout<'a> {
    /// Lays out all nodes that can be reached in `tree`.
    pub(in crate::container) fn new(tree: &'a Tree) -> Result<Self, Fault> {
        let mut layout = Self {
            tree,
            order: Vec::new(),
            slots: vec![Slot::default(); tree.len()],
            metadata: 0,
            length: 0,
        };
        layout.walk();
        let mut cursor = superblock::END;
        for at in 0..layout.order.len() {
            cursor = layout.place_inode(layout.order[at], cursor)?;
        }
        cursor = cursor.next_multiple_of(BLOCK_64);
        for &node in &layout.order {
            if !matches!(tree.node(node).body, Body::File { .. }) {
                layout.slots[node].blocks = cursor;
                cursor += layout.slots[node].outside();
            }
        }
        layout.metadata = cursor;
        let mut files: Vec<(Content, usize)> = layout
            .order
            .iter()
            .filter_map(|&node| match tree.node(node).body {
                Body::File { content, .. } => Some((content, node)),
                _ => None,
            })
            .collect();
        files.sort_unstable();
        for (_, node) in files {
            layout.slots[node].blocks = cursor;
            cursor += layout.slots[node].outside();
        }
        layout.length = cursor;
        match u32::try_from(cursor / BLOCK_64) {
            Ok(_) => Ok(layout),
            Err(_) => Err(Fault::TooMuch {
                what: "blocks of 4 KiB",
                limit: u64::from(u32::MAX),
            }),
        }
    }

    fn walk(&mut self) {
        let mut pending = vec![(self.tree.root(), self.tree.root())];
        while let Some((node, parent)) = pending.pop() {
            let slot = &mut self.slots[node];
            slot.links += 1;
            if slot.links > 1 {
                continue;
            }
            slot.parent = parent;
            self.order.push(node);
            if let Body::Directory(children) = &self.tree.node(node).body {
                // Its own dot, and the two dots of each directory in it.
                let inner = children
                    .values()
                    .filter(|child| matches!(self.tree.node(child.node).body, Body::Directory(_)));
                slot.links += 1 + u32::try_from(inner.count()).unwrap_or(u32::MAX - 2);
                pending.extend(children.values().rev().map(|child| (child.node, node)));
            }
        }
    }

    /// Decides whether the rest of the data goes behind the inode, where it must end in the block
    /// in which the inode begins, and returns the first byte after it all.
    fn place_inode(&mut self, node: usize, cursor: u64) -> Result<u64, Fault> {
        let Node { body, metadata, .. } = self.tree.node(node);
        let size = match body {
            Body::Directory(_) => {
                directory::size(self.names(node).iter().map(|name| name.name.len()))
            }
            Body::File { size, .. } => *size,
            Body::Symlink(target) => target.len() as u64,
            Body::Character(..) | Body::Block(..) | Body::Fifo => 0,
        };
        let xattrs = xattr::encode(&metadata.xattrs)?.len();
        let mut position = cursor.next_multiple_of(32);
        let tail = size % BLOCK_64;
        let need = (inode::SIZE + xattrs) as u64 + tail;
        let fits = need <= BLOCK_64 - position % BLOCK_64;
        let inline = tail > 0 && (fits || (tail <= WORTH_A_GAP && need <= BLOCK_64));
        if inline && !fits {
            position = position.next_multiple_of(BLOCK_64);
        }
        let slot = &mut self.slots[node];
        (slot.position, slot.size) = (position, size);
        (slot.xattrs, slot.inline) = (xattrs, inline);
        Ok(slot.tail() + if inline { tail } else { 0 })
    }

    /// Names of a directory in the order of their bytes.
    fn names(&self, node: usize) -> Vec<Name<'_>> {
        let name = |name, node: usize| Name {
            name,
            nid: self.slots[node].nid(),
            kind: directory::kind(&self.tree.node(node).body),
        };
        let mut names = vec![name(&b"."[..], node), name(b"..", self.slots[node].parent)];
        if let Body::Directory(children) = &self.tree.node(node).body {
            names.extend(children.iter().map(|(key, child)| name(key, child.node)));
        }
        names.sort_unstable_by(|a, b| a.name.cmp(b.name));
        names
    }

    /// Places of each file's content.
    pub(in crate::container) fn places(&self) -> impl Iterator<Item = (Content, Place)> {
        self.order.iter().filter_map(|&node| self.place(node))
    }

    /// Place of a file's content; `None` for what is no file.
    pub(in crate::container) fn place(&self, node: usize) -> Option<(Content, Place)> {
        let Body::File { content, size } = self.tree.node(node).body else {
            return None;
        };
        let slot = &self.slots[node];
        let place = Place {
            size,
            blocks: slot.blocks,
            tail: slot.inline.then(|| slot.tail()),
        };
        Some((content, place))
    }

    /// Bytes of the image.
    pub(in crate::container) fn length(&self) -> u64 {
        self.length
    }

    /// Writes everything but the superblock and the content of files, from the start of `out`.
    pub(in crate::container) fn write_metadata(&self, out: &mut impl Write) -> Result<(), Fault> {
        let mut out = Padded { out, position: 0 };
        for (&node, number) in self.order.iter().zip(1..) {
            let slot = &self.slots[node];
            let Node { metadata, body, .. } = self.tree.node(node);
            let xattrs = xattr::encode(&metadata.xattrs)?;
            let inode = Inode {
                metadata,
                body,
                number,
                links: slot.links,
                size: slot.size,
                inline: slot.inline,
                block: u32::try_from(slot.blocks / BLOCK_64).unwrap_or_default(),
                xattr_count: xattr::count(xattrs.len()) as u16,
            };
            out.write_at(slot.position, &inode.encode()?)?;
            out.write_at(out.position, &xattrs)?;
            if slot.inline {
                let data = self.data(node);
                let whole = usize::try_from(slot.outside()).unwrap_or(usize::MAX);
                out.write_at(slot.tail(), data.get(whole..).unwrap_or_default())?;
            }
        }
        for &node in &self.order {
            let slot = &self.slots[node];
            let mut data = self.data(node);
            let outside = usize::try_from(slot.outside()).unwrap_or(usize::MAX);
            data.truncate(outside);
            if !data.is_empty() {
                out.write_at(slot.blocks, &data)?;
            }
        }
        out.write_at(self.metadata, &[])?;
        Ok(())
    }

    /// Data that do not come from the layers: directories and targets of links.
    fn data(&self, node: usize) -> Vec<u8> {
        match &self.tree.node(node).body {
            Body::Directory(_) => directory::encode(&self.names(node)),
            Body::Symlink(target) => target.clone(),
            _ => Vec::new(),
        }
    }

    /// Writes the superblock into the first block, after the rest of the image is written.
    pub(in crate::container) fn write_superblock(&self, first: &mut [u8; BLOCK], uuid: [u8; 16]) {
        Superblock {
            inodes: self.order.len() as u64,
            blocks: u32::try_from(self.length / BLOCK_64).unwrap_or(u32::MAX),
            uuid,
        }
        .write(first);
    }
}

/// Fills gaps with zeros.
struct Padded<'a, W> {
    out: &'a mut W,
    position: u64,
}

impl<W: Write> Padded<'_, W> {
    fn write_at(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        let gap = position - self.position;
        io::copy(&mut io::Read::take(io::repeat(0), gap), self.out)?;
        self.out.write_all(bytes)?;
        self.position = position + bytes.len() as u64;
        Ok(())
    }
}

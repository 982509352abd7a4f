//! Directories of an EROFS image.

use super::{BLOCK, BLOCK_64};
use crate::container::tree::Body;

/// Bytes of an entry before the names of its block.
const ENTRY: usize = 12;

/// A name, the number of its inode, and the kind of that inode.
pub(super) struct Name<'a> {
    pub(super) name: &'a [u8],
    pub(super) nid: u64,
    pub(super) kind: u8,
}

/// EROFS_FT_*: the same numbers as ext4's.
pub(super) fn kind(body: &Body) -> u8 {
    match body {
        Body::File { .. } => 1,
        Body::Directory(_) => 2,
        Body::Character(..) => 3,
        Body::Block(..) => 4,
        Body::Fifo => 5,
        Body::Symlink(_) => 7,
    }
}

/// Bytes of a directory with names of these lengths. Every block but the last counts as a whole.
pub(super) fn size(lengths: impl Iterator<Item = usize>) -> u64 {
    let mut blocks = 0;
    let mut used = 0;
    for length in lengths {
        if used + ENTRY + length > BLOCK {
            blocks += 1;
            used = 0;
        }
        used += ENTRY + length;
    }
    blocks * BLOCK_64 + used as u64
}

/// The content of a directory. The kernel searches by halving, so `names` must be sorted, `.` and
/// `..` among them.
pub(super) fn encode(names: &[Name<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = names;
    while !rest.is_empty() {
        let mut used = 0;
        let fitting = rest
            .iter()
            .take_while(|name| {
                used += ENTRY + name.name.len();
                used <= BLOCK
            })
            .count();
        let (block, others) = rest.split_at(fitting);
        out.resize(out.len().next_multiple_of(BLOCK), 0);
        let mut offset = block.len() * ENTRY;
        for name in block {
            out.extend(name.nid.to_le_bytes());
            out.extend((offset as u16).to_le_bytes());
            out.extend([name.kind, 0]);
            offset += name.name.len();
        }
        for name in block {
            out.extend_from_slice(name.name);
        }
        rest = others;
    }
    out
}

//! Superblock of an EROFS image.

use crc::{CRC_32_ISCSI, Crc};

use super::BLOCK;

/// EROFS_SUPER_OFFSET.
const OFFSET: usize = 1024;
/// The first place behind the superblock that is aligned like an inode.
pub(super) const END: u64 = 1152;
const MAGIC: u32 = 0xe0f5_e1e2;
/// The superblock has a checksum; inodes have modification times rather than change times.
const COMPAT: u32 = 0x1 | 0x2;
const CASTAGNOLI: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

pub(super) struct Superblock {
    pub(super) inodes: u64,
    pub(super) blocks: u32,
    pub(super) uuid: [u8; 16],
}

impl Superblock {
    /// Writes the superblock into the first block, whose other content must be final: the checksum
    /// covers it.
    pub(super) fn write(&self, block: &mut [u8; BLOCK]) {
        let raw = &mut block[OFFSET..];
        raw[..128].fill(0);
        raw[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        raw[8..12].copy_from_slice(&COMPAT.to_le_bytes());
        raw[12] = BLOCK.trailing_zeros().to_le_bytes()[0];
        raw[14..16].copy_from_slice(&((END / 32) as u16).to_le_bytes());
        raw[16..24].copy_from_slice(&self.inodes.to_le_bytes());
        raw[36..40].copy_from_slice(&self.blocks.to_le_bytes());
        raw[48..64].copy_from_slice(&self.uuid);
        // The kernel's crc32c() does not invert its result (lib/crc32.c), the usual CRC-32C does.
        let checksum = !CASTAGNOLI.checksum(raw);
        raw[4..8].copy_from_slice(&checksum.to_le_bytes());
    }
}

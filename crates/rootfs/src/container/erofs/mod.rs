//! Writing uncompressed erofs images.
//!
//! The on-disk format is described in the kernel (Documentation/filesystems/erofs.rst and
//! fs/erofs/erofs_fs.h). Of it this uses what Linux 5.4 already reads: extended inodes, flat data
//! (whole blocks, with the rest either in a block of its own or behind the inode) and inline
//! extended attributes. Everything has its place before anything is written, so content can
//! arrive in any order.
//!
//! ```text
//! block 0: 1024 bytes for a boot loader, superblock, inodes …
//! inodes in the order of a walk through the tree, small rests of data behind each
//! blocks of large directories
//! blocks of files, in the order in which the layers hold them
//! ```

mod directory;
mod inode;
mod layout;
#[cfg(test)]
pub(super) mod reading;
mod superblock;
mod xattr;

pub(super) use layout::{Layout, Place};

/// The block size: the only one that every kernel with 4 KiB pages mounts.
pub(super) const BLOCK: usize = 4096;
const BLOCK_64: u64 = BLOCK as u64;

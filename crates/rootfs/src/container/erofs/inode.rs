use crate::Fault;
use crate::container::archive::Metadata;
use crate::container::tree::Body;

/// Bytes of an extended inode.
pub(super) const SIZE: usize = 64;
const EXTENDED: u16 = 1;
const FLAT_PLAIN: u16 = 0;
const FLAT_INLINE: u16 = 2;

/// Fields of an inode besides [`Metadata`].
pub(super) struct Inode<'a> {
    pub(super) metadata: &'a Metadata,
    pub(super) body: &'a Body,
    pub(super) number: u32,
    pub(super) links: u32,
    pub(super) size: u64,
    pub(super) inline: bool,
    /// The first block of data.
    pub(super) block: u32,
    pub(super) xattr_count: u16,
}

impl Inode<'_> {
    /// `struct erofs_inode_extended`.
    pub(super) fn encode(&self) -> Result<[u8; SIZE], Fault> {
        let layout = if self.inline { FLAT_INLINE } else { FLAT_PLAIN };
        let place = match *self.body {
            Body::Character(major, minor) | Body::Block(major, minor) => device(major, minor)?,
            _ => self.block,
        };
        let mode = file_type(self.body) | self.metadata.mode;
        let (seconds, nanoseconds) = self.metadata.mtime;
        let mut raw = [0; SIZE];
        raw[0..2].copy_from_slice(&(EXTENDED | layout << 1).to_le_bytes());
        raw[2..4].copy_from_slice(&self.xattr_count.to_le_bytes());
        raw[4..6].copy_from_slice(&(mode as u16).to_le_bytes());
        raw[8..16].copy_from_slice(&self.size.to_le_bytes());
        raw[16..20].copy_from_slice(&place.to_le_bytes());
        raw[20..24].copy_from_slice(&self.number.to_le_bytes());
        raw[24..28].copy_from_slice(&self.metadata.uid.to_le_bytes());
        raw[28..32].copy_from_slice(&self.metadata.gid.to_le_bytes());
        raw[32..40].copy_from_slice(&seconds.to_le_bytes());
        raw[40..44].copy_from_slice(&nanoseconds.to_le_bytes());
        raw[44..48].copy_from_slice(&self.links.to_le_bytes());
        Ok(raw)
    }
}

/// The S_IF* bits (inode(7)).
fn file_type(body: &Body) -> u32 {
    match body {
        Body::Fifo => 0o010_000,
        Body::Character(..) => 0o020_000,
        Body::Directory(_) => 0o040_000,
        Body::Block(..) => 0o060_000,
        Body::File { .. } => 0o100_000,
        Body::Symlink(_) => 0o120_000,
    }
}

/// new_encode_dev() of include/linux/kdev_t.h: 12 bits of major number amid 20 of minor number.
fn device(major: u32, minor: u32) -> Result<u32, Fault> {
    if major >= 1 << 12 || minor >= 1 << 20 {
        return Err(Fault::Archive(format!(
            "no Linux device has the number {major}:{minor}"
        )));
    }
    Ok((minor & 0xff) | (major << 8) | ((minor & !0xff) << 12))
}

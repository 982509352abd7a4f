//! What an image is written from.

use std::fs::File;

use crate::format::description::Description;
use crate::format::kept::Kept;
use crate::memory::Pages;
use crate::read::reader::Image;

/// What goes into an image. The guest must stand still while it is written.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The guest's memory: a named file on tmpfs. Its position is moved.
    pub memory: &'a File,
    /// Bytes of it, a multiple of 4096.
    pub size: u64,
    /// Pages that need not be kept, such as free ones and clean page cache. What they read as
    /// afterwards is zero, or what they hold.
    pub leave_out: Option<&'a Pages>,
    /// What QEMU saves of everything but the memory.
    pub state: &'a [u8],
    /// The VM.
    pub description: &'a Description,
    /// The image that it was resumed from, to write only what has changed.
    pub base: Option<Base<'a>>,
    /// Memory that stays where it is until the guest is resumed.
    pub kept: Option<KeptMemory<'a>>,
    /// Ranges of pages in the order in which they were needed after the last resume; empty if
    /// unknown. Those that are left out are no part of the image's.
    pub working_set: &'a [std::ops::Range<u64>],
}

/// Memory that stays where it is until the guest is resumed.
#[derive(Debug, Clone, Copy)]
pub struct KeptMemory<'a> {
    /// Its place and content.
    pub kept: &'a Kept,
    /// Whether the image has the memory, too; if not, a guest whose memory is lost is lost.
    pub in_image: bool,
}

/// What an incremental image is based on.
#[derive(Debug, Clone, Copy)]
pub struct Base<'a> {
    /// The image, with its own parents. It is needed for as long as the new one is.
    pub image: &'a Image,
    /// How a chunk is known to be the same.
    pub changed: Changed<'a>,
}

/// How chunks that are the same as before are recognised.
#[derive(Debug, Clone, Copy)]
pub enum Changed<'a> {
    /// All other pages are as in the parent, even where the memory's file has holes.
    Pages(&'a Pages),
    /// Each chunk is held against the parent's.
    Compare,
}

//! The public header: not encrypted, and authenticated by the keys of everything else.

use crate::format::codec::Compression;
use crate::format::seal::TAG;
use crate::format::slot::{self, Slot};
use crate::memory::{PAGE, PAGE_SIZE};

/// Version of the format.
pub const VERSION: u32 = 1;
/// Smallest chunk.
pub const MIN_CHUNK: u32 = 32 << 10;
/// Usual chunk size: a page fault costs a fraction of a millisecond, and zstd loses nothing.
pub const DEFAULT_CHUNK: u32 = 256 << 10;
/// Largest chunk.
pub const MAX_CHUNK: u32 = 4 << 20;

/// Most guest memory: the physical addresses of today's processors.
const MAX_MEMORY: u64 = 1 << 52;
/// Most chunks; with more memory chunks are larger.
const MAX_CHUNKS: u64 = 1 << 26;
/// Chunks that a list in memory may have, 16 bytes each, before chunks get larger.
const COMFORTABLE_CHUNKS: u64 = 1 << 20;
/// Largest header.
const MAX_HEADER: u32 = 1 << 20;
const MAGIC: [u8; 8] = *b"\x89brisk\r\n";
const FIXED: usize = 128;
const CHECKSUM: std::ops::Range<usize> = 96..128;

/// Records in one sealed piece of the list of chunks.
pub(crate) const RECORDS_IN_PIECE: u64 = 1 << 16;
/// Bytes of a record.
pub(crate) const RECORD: usize = 16;
/// Largest sealed head.
pub(crate) const MAX_HEAD: u32 = 64 << 20;

const FLAG_PARENT: u32 = 1;
const FLAG_KEPT: u32 = 2;

/// Public facts about an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Random identity of the image.
    pub id: [u8; 16],
    /// Time of writing, in seconds since 1970.
    pub created: u64,
    /// Size of the guest's memory in bytes.
    pub memory: u64,
    /// Size of a chunk in bytes.
    pub chunk_size: u32,
    /// Whether it is based on another image.
    pub incremental: bool,
    /// Whether the guest's memory was kept where it was, and is not in this file.
    pub kept: bool,
    /// Compression of chunks, used where it makes them smaller.
    pub compression: Compression,
    /// Chunks that are in this file.
    pub stored_chunks: u64,
    /// Pages in these chunks that are not zero.
    pub stored_pages: u64,
    /// Bytes of sealed chunks.
    pub data_len: u64,
    /// The data key, encrypted to each recipient.
    pub slots: Vec<Slot>,
    pub(crate) head_len: u32,
}

/// Reason why bytes are no header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    NotAnImage,
    Version(u32),
    Damaged(&'static str),
}

/// Chunk size for a memory of this many bytes: larger where the list of chunks would get long.
#[must_use]
pub fn chunk_size_for(memory: u64) -> u32 {
    let mut size = DEFAULT_CHUNK;
    while size < MAX_CHUNK && memory.div_ceil(u64::from(size)) > COMFORTABLE_CHUNKS {
        size *= 2;
    }
    size
}

/// Whether memory can be cut into chunks of this size.
pub(crate) fn check_sizes(memory: u64, chunk_size: u32) -> Result<(), &'static str> {
    if memory == 0 || memory % PAGE_SIZE != 0 || memory > MAX_MEMORY {
        return Err("the size of the memory is no multiple of 4096, or impossible");
    }
    if !chunk_size.is_power_of_two() || !(MIN_CHUNK..=MAX_CHUNK).contains(&chunk_size) {
        return Err("the size of chunks is impossible");
    }
    if memory.div_ceil(u64::from(chunk_size)) > MAX_CHUNKS {
        return Err("there would be too many chunks");
    }
    Ok(())
}

impl Header {
    /// Number of chunks of the memory, the last of which may be short.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        self.memory.div_ceil(u64::from(self.chunk_size))
    }

    /// Where a chunk begins in the memory.
    pub(crate) fn chunk_start(&self, index: u64) -> u64 {
        index * u64::from(self.chunk_size)
    }

    /// The pages of a chunk.
    pub(crate) fn chunk_pages(&self, index: u64) -> std::ops::Range<u64> {
        let first = self.chunk_start(index) / PAGE_SIZE;
        first..first + (self.chunk_len(index) / PAGE) as u64
    }

    /// Bytes of memory in one chunk.
    #[must_use]
    pub fn chunk_len(&self, index: u64) -> usize {
        let left = self.memory.saturating_sub(self.chunk_start(index));
        left.min(u64::from(self.chunk_size)) as usize
    }

    /// The recipients that the image is encrypted to, in words.
    #[must_use]
    pub fn encrypted_to(&self) -> String {
        slot::summary(&self.slots)
    }

    /// Size of the whole file in bytes.
    #[must_use]
    pub fn file_len(&self) -> u64 {
        self.len() + self.data_len + u64::from(self.head_len) + self.records_len()
    }

    /// Bytes of the header itself: where the chunks begin.
    pub(crate) fn len(&self) -> u64 {
        let slots: usize = self.slots.iter().map(|slot| 4 + slot.bytes.len()).sum();
        (FIXED + slots).next_multiple_of(PAGE) as u64
    }

    pub(crate) fn head_offset(&self) -> u64 {
        self.len() + self.data_len
    }

    pub(crate) fn record_pieces(&self) -> u64 {
        self.chunks().div_ceil(RECORDS_IN_PIECE)
    }

    /// Bytes of the sealed list of chunks.
    pub(crate) fn records_len(&self) -> u64 {
        self.chunks() * RECORD as u64 + self.record_pieces() * TAG as u64
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len() as usize);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend((self.len() as u32).to_le_bytes());
        out.extend(self.id);
        out.extend(self.created.to_le_bytes());
        out.extend(self.memory.to_le_bytes());
        out.extend(self.chunk_size.to_le_bytes());
        out.extend(self.head_len.to_le_bytes());
        out.extend(self.data_len.to_le_bytes());
        out.extend(self.stored_chunks.to_le_bytes());
        out.extend(self.stored_pages.to_le_bytes());
        let flag = |set, flag| if set { flag } else { 0 };
        let flags = flag(self.incremental, FLAG_PARENT) | flag(self.kept, FLAG_KEPT);
        out.extend(flags.to_le_bytes());
        let (codec, level) = self.compression.to_bytes();
        out.extend([codec, level, self.slots.len() as u8, 0]);
        out.resize(FIXED, 0);
        slot::encode(&self.slots, &mut out);
        out.resize(self.len() as usize, 0);
        let checksum = blake3::hash(&out);
        out[CHECKSUM].copy_from_slice(checksum.as_bytes());
        out
    }

    /// How long a header is that begins so, for reading the rest.
    pub(crate) fn expected_len(start: &[u8]) -> Result<usize, Fault> {
        if start.len() < 16 || start[..8] != MAGIC {
            return Err(Fault::NotAnImage);
        }
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| start[at + i]));
        if word(8) != VERSION {
            return Err(Fault::Version(word(8)));
        }
        let len = word(12);
        if len as usize % PAGE != 0 || len == 0 || len > MAX_HEADER {
            return Err(Fault::Damaged("its length is impossible"));
        }
        Ok(len as usize)
    }

    /// Reads a whole header. Every byte counts: what this accepts, [`Self::encode`] gives back.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        if Self::expected_len(bytes)? != bytes.len() {
            return Err(Fault::Damaged("it is cut off"));
        }
        let mut unsigned = bytes.to_vec();
        unsigned[CHECKSUM].fill(0);
        if blake3::hash(&unsigned).as_bytes()[..] != bytes[CHECKSUM] {
            return Err(Fault::Damaged("its checksum is wrong"));
        }
        let mut fields = Fields(&bytes[16..96]);
        let mut header = Self {
            id: fields.take(),
            created: u64::from_le_bytes(fields.take()),
            memory: u64::from_le_bytes(fields.take()),
            chunk_size: u32::from_le_bytes(fields.take()),
            head_len: u32::from_le_bytes(fields.take()),
            data_len: u64::from_le_bytes(fields.take()),
            stored_chunks: u64::from_le_bytes(fields.take()),
            stored_pages: u64::from_le_bytes(fields.take()),
            incremental: false,
            kept: false,
            compression: Compression::None,
            slots: Vec::new(),
        };
        let flags = u32::from_le_bytes(fields.take());
        let [codec, level, slots, zero] = fields.take();
        let reserved: [u8; 8] = fields.take();
        check_sizes(header.memory, header.chunk_size).map_err(Fault::Damaged)?;
        header.incremental = flags & FLAG_PARENT != 0;
        header.kept = flags & FLAG_KEPT != 0;
        header.compression = Compression::from_bytes(codec, level)
            .ok_or(Fault::Damaged("an unknown compression"))?;
        let rest;
        (header.slots, rest) =
            slot::decode(&bytes[FIXED..], slots.into()).map_err(Fault::Damaged)?;
        if flags & !(FLAG_PARENT | FLAG_KEPT) != 0
            || zero != 0
            || reserved != [0; 8]
            || rest.iter().any(|byte| *byte != 0)
        {
            return Err(Fault::Damaged("something is set that means nothing"));
        }
        if header.len() != bytes.len() as u64 {
            return Err(Fault::Damaged("its length does not fit its content"));
        }
        let impossible = header.stored_chunks > header.chunks()
            || header.stored_pages > header.memory / PAGE_SIZE
            || header.data_len > 2 * MAX_MEMORY
            || header.head_len > MAX_HEAD
            || (header.kept && (header.incremental || header.stored_chunks > 0))
            || (header.head_len as usize) < TAG;
        if impossible {
            return Err(Fault::Damaged("its numbers do not fit each other"));
        }
        Ok(header)
    }
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk().expect("the fields fill it");
        self.0 = rest;
        *field
    }
}

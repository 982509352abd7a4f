//! Chunks that are written early, while the guest still runs, in case they do not change.
//!
//! The guest takes a while to drop its page cache, and meanwhile the host has idle processors.
//! Chunks that are written early are only a guess: once the guest is stopped, the digest of each is
//! compared with the chunk's pages, and chunks that have changed are written again. Early chunks
//! are sealed as a kind of their own, so that no nonce is used twice.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, io_error};
use crate::format::pages;
use crate::format::record::Record;
use crate::format::seal::Kind;
use crate::memory::{PAGE, PAGE_SIZE, Pages, is_zero};
use crate::pipeline::Work;
use crate::write::memory::{self, Range};
use crate::write::report::{Stages, Watch};
use crate::write::target::{Target, Worker};

/// Most chunks that are written early: 4 GiB of chunks of the usual size; they take 4 MB of brisk's
/// own memory.
const MOST: usize = 1 << 14;
/// Pages of a group, which is expected to change or not as a whole: those of the smallest chunk.
const GROUP: u64 = 8;

/// Expectation of a guest's memory at the time when it is stopped. It may be wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    kept: Pages,
    /// One for each group of which half or more of the pages are not expected to change.
    lasting: Pages,
    /// The last group that was added to, and the number of its pages that are not expected to
    /// change.
    last: (u64, u64),
}

impl Forecast {
    /// The expectation that no page of a memory of this many bytes is kept.
    #[must_use]
    pub fn none(memory: u64) -> Self {
        Self {
            kept: Pages::none(memory),
            lasting: Pages::none(memory.div_ceil(GROUP)),
            last: (0, 0),
        }
    }

    /// Adds a page that the image is expected to have; `lasts`: it is not expected to change. Pages
    /// are added in ascending order.
    pub fn keep(&mut self, page: u64, lasts: bool) {
        self.kept.insert(page);
        let group = page / GROUP;
        if self.last.0 != group {
            self.last = (group, 0);
        }
        self.last.1 += u64::from(lasts);
        if self.last.1 >= GROUP / 2 {
            self.lasting.insert(group);
        }
    }

    /// Whether the image is expected to have a page.
    #[must_use]
    pub fn keeps(&self, page: u64) -> bool {
        self.kept.contains(page)
    }

    /// Whether a chunk, which begins with a group, is not expected to change for the most part.
    #[must_use]
    pub fn lasts(&self, chunk: std::ops::Range<u64>) -> bool {
        let groups = chunk.start / GROUP..chunk.end.div_ceil(GROUP);
        let half = (groups.end - groups.start).div_ceil(2);
        let lasting = groups.filter(|group| self.lasting.contains(*group));
        lasting.count() as u64 >= half
    }
}

/// Chunks that were written early.
#[derive(Default)]
pub(crate) struct Early {
    pieces: BTreeMap<u64, Piece>,
    /// The time it took, and that of the processors.
    pub(crate) elapsed: Duration,
    pub(crate) stages: Stages,
}

/// How much is written early.
pub(crate) struct Limits<'a> {
    pub(crate) threads: usize,
    /// Most bytes of the image before writing ends.
    pub(crate) room: u64,
    /// Ends writing when it is true.
    pub(crate) enough: &'a AtomicBool,
}

/// A chunk, and the data that show whether it is as it was.
pub(crate) struct Piece {
    bitmap: Box<[u8]>,
    digest: blake3::Hash,
    offset: u64,
    length: u32,
}

impl Piece {
    pub(crate) fn record(&self) -> Record {
        Record::Here {
            offset: self.offset,
            length: self.length,
            early: true,
        }
    }

    pub(crate) fn pages(&self) -> u64 {
        pages::count(&self.bitmap) as u64
    }
}

impl Early {
    /// Writes chunks that are likely to stay as they are, up to its limits.
    pub(crate) fn write(
        target: &Target<'_>,
        memory: &File,
        forecast: &Forecast,
        limits: &Limits<'_>,
    ) -> Result<Self, Error> {
        let started = Instant::now();
        let header = target.header;
        let chunks = 0..header.chunks();
        let chunks = chunks.filter(|index| forecast.lasts(header.chunk_pages(*index)));
        let chunks: Vec<_> = chunks.take(MOST).collect();
        let pieces = Mutex::new(BTreeMap::new());
        let work = Work::new(chunks.len() as u64, target.control);
        let step = |worker: &mut Worker, number: u64| {
            // The first one is written in any case.
            let is_enough = limits.enough.load(Ordering::Relaxed) && number > 0;
            if is_enough || target.output.len() >= limits.room {
                work.skip_to(u64::MAX);
                return Ok(());
            }
            let index = chunks[number as usize];
            let mut watch = Watch::start();
            let (start, length) = (header.chunk_start(index), header.chunk_len(index));
            let chunk = &mut worker.chunk[..length];
            let read = memory::read_chunk(memory, start, chunk)
                .map_err(io_error("read the memory for", target.path))?;
            if let Range::Hole(_) = read {
                return Ok(());
            }
            let first = header.chunk_pages(index).start;
            let bitmap = &mut worker.bitmap[..pages::bitmap_len(length)];
            let kept = pages::gather(chunk, bitmap, |page| !forecast.keeps(first + page as u64));
            if kept == 0 {
                return Ok(());
            }
            let digest = blake3::hash(&chunk[..kept * PAGE]);
            let bitmap = Box::from(&*bitmap);
            worker.stages.read += watch.lap();
            let (offset, length) =
                target.put_chunk(worker, Kind::Early, index, kept, &mut watch)?;
            let piece = Piece {
                bitmap,
                digest,
                offset,
                length,
            };
            let mut pieces = pieces.lock().unwrap_or_else(PoisonError::into_inner);
            pieces.insert(index, piece);
            Ok(())
        };
        let workers = work.run(limits.threads, || Worker::new(target, false), step)?;
        Ok(Self {
            pieces: pieces.into_inner().unwrap_or_else(PoisonError::into_inner),
            elapsed: started.elapsed(),
            stages: Worker::stages(&workers),
        })
    }

    /// Bytes of the pages that were written.
    pub(crate) fn bytes(&self) -> u64 {
        let pages = self.pieces.values().map(Piece::pages);
        pages.sum::<u64>() * PAGE_SIZE
    }

    /// What was written of a chunk, if that is what it is now: all pages that are `wanted` and not
    /// zero are in it, and all that are in it are as they were.
    pub(crate) fn unchanged(
        &self,
        index: u64,
        chunk: &[u8],
        wanted: impl Fn(usize) -> bool,
    ) -> Option<&Piece> {
        let piece = self.pieces.get(&index)?;
        let missing = |(page, bytes): (usize, &[u8])| {
            !pages::is_set(&piece.bitmap, page) && wanted(page) && !is_zero(bytes)
        };
        if chunk.chunks_exact(PAGE).enumerate().any(missing) {
            return None;
        }
        let mut hasher = blake3::Hasher::new();
        for (first, count) in pages::runs(&piece.bitmap) {
            hasher.update(&chunk[first * PAGE..(first + count) * PAGE]);
        }
        (hasher.finalize() == piece.digest).then_some(piece)
    }
}

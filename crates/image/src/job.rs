//! The memory's part of an image: chunk after chunk is read, compressed, sealed and written.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::chunk;
use super::codec::Encoder;
use super::early::Early;
use super::error::{Error, io_error};
use super::header::{Header, PAGE};
use super::memory::{self, Range};
use super::output::Output;
use super::pages;
use super::pipeline::{Control, Progress, Work};
use super::reader::{Record, Scratch};
use super::report::{Stages, Watch};
use super::seal::{self, Kind, Owner, SealKey, TAG};
use super::writer::{Base, Changed, Source, encoder};

/// Where chunks go, and what they are sealed with.
pub(super) struct Target<'a> {
    pub(super) path: &'a Path,
    pub(super) header: &'a Header,
    pub(super) owner: Owner,
    pub(super) key: &'a SealKey,
    pub(super) output: &'a Output<'a>,
    pub(super) control: Control<'a>,
}

/// The memory's part of the work, shared by the threads.
pub(super) struct Job<'a> {
    pub(super) target: Target<'a>,
    pub(super) source: &'a Source<'a>,
    pub(super) early: &'a Early,
    pub(super) done: Mutex<Done>,
}

pub(super) struct Done {
    pub(super) records: Vec<Record>,
    bytes: u64,
    pub(super) pages: u64,
    /// Those of them that were written early.
    pub(super) early: u64,
}

impl Done {
    pub(super) fn new(chunks: u64) -> Self {
        Self {
            records: vec![Record::Zero; chunks as usize],
            bytes: 0,
            pages: 0,
            early: 0,
        }
    }

    /// Here, zero, in the parent.
    pub(super) fn chunks(&self) -> [u64; 3] {
        let mut counts = [0; 3];
        for record in &self.records {
            counts[match record {
                Record::Here { .. } => 0,
                Record::Zero => 1,
                Record::Parent => 2,
            }] += 1;
        }
        counts
    }
}

/// What one thread needs: all the memory it will ever use.
pub(super) struct Worker {
    pub(super) chunk: Vec<u8>,
    pub(super) bitmap: Vec<u8>,
    sealed: Vec<u8>,
    encoder: Encoder,
    base: Option<Scratch>,
    pub(super) stages: Stages,
}

impl Worker {
    /// For chunks of an image; `compares` them with those of another one.
    pub(super) fn new(target: &Target<'_>, compares: bool) -> Result<Self, Error> {
        let size = target.header.chunk_size as usize;
        Ok(Self {
            chunk: vec![0; size],
            bitmap: vec![0; pages::bitmap_len(size)],
            sealed: vec![0; chunk::sealed_bound(size)],
            encoder: encoder(target.path, target.header.compression)?,
            base: compares.then(|| Scratch::new(size)).transpose()?,
            stages: Stages::default(),
        })
    }

    /// What all of them did.
    pub(super) fn stages(workers: &[Self]) -> Stages {
        let mut stages = Stages::default();
        workers.iter().for_each(|worker| stages.add(&worker.stages));
        stages
    }
}

impl Target<'_> {
    /// Compresses, seals and writes the `kept` pages at the start of a worker's chunk; where they
    /// are, and their sealed length.
    pub(super) fn put(
        &self,
        worker: &mut Worker,
        (kind, index): (Kind, u64),
        kept: usize,
        watch: &mut Watch,
    ) -> Result<(u64, u32), Error> {
        let bitmap = &worker.bitmap[..pages::bitmap_len(self.header.chunk_len(index))];
        let (plain, sealed) = (&worker.chunk[..kept * PAGE], &mut worker.sealed);
        let length = chunk::encode(&mut worker.encoder, bitmap, plain, sealed)
            .map_err(io_error("compress the memory for", self.path))?;
        worker.stages.compress += watch.lap();
        let sealed = self.seal((kind, index), self.header.chunks(), sealed, length);
        worker.stages.seal += watch.lap();
        let offset = self.output.put(sealed, self.control)?;
        worker.stages.write += watch.lap();
        Ok((offset, sealed.len() as u32))
    }

    /// Seals the first bytes of a buffer, which has room for the tag behind them.
    pub(super) fn seal<'b>(
        &self,
        piece: (Kind, u64),
        count: u64,
        bytes: &'b mut [u8],
        length: usize,
    ) -> &'b [u8] {
        let associated = seal::associated(&self.owner, piece, count);
        let tag = self.key.seal(piece, &associated, &mut bytes[..length]);
        bytes[length..length + TAG].copy_from_slice(&tag);
        &bytes[..length + TAG]
    }
}

impl Job<'_> {
    pub(super) fn run(&self, threads: usize) -> Result<Stages, Error> {
        let Target {
            header, control, ..
        } = self.target;
        let work = Work::new(header.chunks(), control);
        let compares = matches!(
            self.source.base,
            Some(Base {
                changed: Changed::Compare,
                ..
            })
        );
        let worker = || Worker::new(&self.target, compares);
        let step = |worker: &mut Worker, index| self.step(worker, index, &work);
        let workers = work.run(threads.max(1), worker, step)?;
        Ok(Worker::stages(&workers))
    }

    fn step(&self, worker: &mut Worker, index: u64, work: &Work<'_>) -> Result<(), Error> {
        let mut watch = Watch::start();
        let (path, header) = (self.target.path, self.target.header);
        let (start, length) = (header.chunk_start(index), header.chunk_len(index));
        let range = header.chunk_pages(index);
        let first = range.start;
        let left_out = self.source.leave_out;
        if left_out.is_some_and(|pages| pages.all(range.clone())) {
            return self.finish(index, Record::Zero, 0);
        }
        if let Some(Base {
            changed: Changed::Pages(changed),
            ..
        }) = self.source.base
        {
            let left_out = left_out.is_some_and(|pages| pages.any(range.clone()));
            if !left_out && !changed.any(range) {
                return self.finish(index, Record::Parent, 0);
            }
        }
        let chunk = &mut worker.chunk[..length];
        let read = memory::read_chunk(self.source.memory, start, chunk)
            .map_err(io_error("read the memory for", path))?;
        if let Range::Hole(next) = read {
            if self.source.base.is_none() {
                work.skip_to(next / u64::from(header.chunk_size));
            }
            chunk.fill(0);
        }
        let is_left_out = |page| left_out.is_some_and(|pages| pages.contains(first + page as u64));
        let early = self.early;
        if let Some(piece) = early.unchanged(index, chunk, |page| !is_left_out(page)) {
            worker.stages.read += watch.lap();
            return self.finish(index, piece.record(), piece.pages());
        }
        let bitmap = &mut worker.bitmap[..pages::bitmap_len(length)];
        let kept = pages::gather(chunk, bitmap, is_left_out);
        worker.stages.read += watch.lap();
        if kept == 0 {
            return self.finish(index, Record::Zero, 0);
        }
        let plain = &chunk[..kept * PAGE];
        if let (Some(base), Some(scratch)) = (self.source.base, &mut worker.base) {
            let same = base.image.same(index, bitmap, plain, scratch)?;
            worker.stages.compress += watch.lap();
            if same {
                return self.finish(index, Record::Parent, 0);
            }
        }
        let (offset, length) = self
            .target
            .put(worker, (Kind::Memory, index), kept, &mut watch)?;
        let record = Record::Here {
            offset,
            length,
            early: false,
        };
        self.finish(index, record, kept as u64)
    }

    fn finish(&self, index: u64, record: Record, pages: u64) -> Result<(), Error> {
        let done = {
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            done.records[index as usize] = record;
            done.pages += pages;
            if let Record::Here { early: true, .. } = record {
                done.early += pages;
            }
            done.bytes = done.bytes.max(self.target.header.chunk_start(index + 1));
            done.bytes.min(self.source.size)
        };
        (self.target.control.progress)(Progress {
            done,
            total: self.source.size,
            stored: self.target.output.len(),
        });
        Ok(())
    }
}

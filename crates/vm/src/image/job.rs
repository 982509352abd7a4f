//! The memory's part of an image: chunk after chunk is read, compressed, sealed and written.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::chunk;
use super::codec::Encoder;
use super::error::{Error, io_error};
use super::header::{Header, PAGE};
use super::memory::{self, Range};
use super::output::Output;
use super::pages;
use super::pipeline::{Control, Progress, Work};
use super::reader::{Record, Scratch};
use super::report::{Stages, Watch};
use super::seal::{self, Kind, Owner, SealKey, TAG};
use super::writer::{Base, Changed, Options, Source, encoder};

/// The memory's part of the work, shared by the threads.
pub(super) struct Job<'a> {
    pub(super) path: &'a Path,
    pub(super) source: &'a Source<'a>,
    pub(super) header: &'a Header,
    pub(super) owner: Owner,
    pub(super) key: &'a SealKey,
    pub(super) output: &'a Output<'a>,
    pub(super) control: Control<'a>,
    pub(super) done: Mutex<Done>,
}

pub(super) struct Done {
    pub(super) records: Vec<Record>,
    bytes: u64,
    pub(super) pages: u64,
}

impl Done {
    pub(super) fn new(chunks: u64) -> Self {
        Self {
            records: vec![Record::Zero; chunks as usize],
            bytes: 0,
            pages: 0,
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
struct Worker {
    chunk: Vec<u8>,
    bitmap: Vec<u8>,
    sealed: Vec<u8>,
    encoder: Encoder,
    base: Option<Scratch>,
    stages: Stages,
}

impl Job<'_> {
    pub(super) fn run(&self, options: &Options) -> Result<Stages, Error> {
        let size = self.header.chunk_size as usize;
        let work = Work::new(self.header.chunks(), self.control);
        let worker = || {
            let compares = matches!(
                self.source.base,
                Some(Base {
                    changed: Changed::Compare,
                    ..
                })
            );
            Ok(Worker {
                chunk: vec![0; size],
                bitmap: vec![0; pages::bitmap_len(size)],
                sealed: vec![0; chunk::sealed_bound(size)],
                encoder: encoder(self.path, options.compression)?,
                base: compares.then(|| Scratch::new(size)).transpose()?,
                stages: Stages::default(),
            })
        };
        let step = |worker: &mut Worker, index| self.step(worker, index, &work);
        let workers = work.run(options.threads.max(1), worker, step)?;
        let mut stages = Stages::default();
        workers.iter().for_each(|worker| stages.add(&worker.stages));
        Ok(stages)
    }

    fn step(&self, worker: &mut Worker, index: u64, work: &Work<'_>) -> Result<(), Error> {
        let mut watch = Watch::start();
        let length = self.header.chunk_len(index);
        let start = index * u64::from(self.header.chunk_size);
        let first = start / PAGE as u64;
        let range = first..first + (length / PAGE) as u64;
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
            .map_err(io_error("read the memory for", self.path))?;
        if let Range::Hole(next) = read {
            if self.source.base.is_none() {
                work.skip_to(next / u64::from(self.header.chunk_size));
            }
            chunk.fill(0);
        }
        let bitmap = &mut worker.bitmap[..pages::bitmap_len(length)];
        let kept = pages::gather(chunk, bitmap, |page| {
            left_out.is_some_and(|pages| pages.contains(first + page as u64))
        });
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
        let sealed = &mut worker.sealed;
        let length = chunk::encode(&mut worker.encoder, bitmap, plain, sealed)
            .map_err(io_error("compress the memory for", self.path))?;
        worker.stages.compress += watch.lap();
        let kind = (Kind::Memory, index);
        let associated = seal::associated(&self.owner, kind, self.header.chunks());
        let tag = self.key.seal(kind, &associated, &mut sealed[..length]);
        sealed[length..length + TAG].copy_from_slice(&tag);
        worker.stages.seal += watch.lap();
        let sealed = &sealed[..length + TAG];
        let offset = self.output.put(sealed, self.control)?;
        worker.stages.write += watch.lap();
        let length = sealed.len() as u32;
        self.finish(index, Record::Here { offset, length }, kept as u64)
    }

    fn finish(&self, index: u64, record: Record, pages: u64) -> Result<(), Error> {
        let done = {
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            done.records[index as usize] = record;
            done.pages += pages;
            done.bytes = done
                .bytes
                .max((index + 1) * u64::from(self.header.chunk_size));
            done.bytes.min(self.source.size)
        };
        (self.control.progress)(Progress {
            done,
            total: self.source.size,
            stored: self.output.len(),
        });
        Ok(())
    }
}

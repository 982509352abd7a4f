//! Writing of the memory: chunk after chunk is read, compressed, sealed and written.

use std::sync::{Mutex, PoisonError};

use crate::error::{Error, io_error};
use crate::format::pages;
use crate::format::record::Record;
use crate::format::seal::Kind;
use crate::memory::PAGE;
use crate::pipeline::{Progress, Work};
use crate::write::early::Early;
use crate::write::memory::{self, Range};
use crate::write::report::{Stages, Watch};
use crate::write::source::{Base, Changed, Source};
use crate::write::target::{Target, Worker};

/// The memory's part of the work, shared by the threads.
pub(crate) struct Job<'a> {
    pub(crate) target: Target<'a>,
    pub(crate) source: &'a Source<'a>,
    pub(crate) early: &'a Early,
    pub(crate) done: Mutex<Done>,
}

pub(crate) struct Done {
    pub(crate) records: Vec<Record>,
    bytes: u64,
    pub(crate) pages: u64,
    /// Those of them that were written early.
    pub(crate) early: u64,
}

impl Done {
    pub(crate) fn new(chunks: u64) -> Self {
        Self {
            records: vec![Record::Zero; chunks as usize],
            bytes: 0,
            pages: 0,
            early: 0,
        }
    }

    /// Here, zero, in the parent.
    pub(crate) fn chunks(&self) -> [u64; 3] {
        let mut counts = [0; 3];
        for record in &self.records {
            counts[match record {
                Record::Here { .. } => 0,
                Record::Zero => 1,
                Record::Parent => 2,
                Record::Kept => continue,
            }] += 1;
        }
        counts
    }
}

impl Job<'_> {
    pub(crate) fn run(&self, threads: usize) -> Result<Stages, Error> {
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
        if self.target.header.kept {
            return self.finish(index, Record::Kept, 0);
        }
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
        let (offset, length) =
            self.target
                .put_chunk(worker, Kind::Memory, index, kept, &mut watch)?;
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

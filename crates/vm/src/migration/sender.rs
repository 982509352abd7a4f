//! Sending pages, those that the guest waits for first.

use std::collections::VecDeque;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, PoisonError};

use super::opening::RamSection;
use super::source::{Ended, Failure, Memory, Queue, lock};
use super::wire::PAGE;

/// Chunks that are kept after they were read, for pages that are asked for next to each other.
const KEPT: usize = 8;
/// Pages that are sent before it is looked again whether one is asked for.
const BATCH: usize = 16;

pub(super) struct Sender<'a> {
    pub(super) stream: &'a UnixStream,
    pub(super) section: &'a RamSection,
    pub(super) memory: &'a dyn Memory,
    pub(super) queue: &'a (Mutex<Queue>, Condvar),
    /// A bit a page.
    pub(super) sent: Vec<u64>,
    pub(super) chunks: VecDeque<(u64, Vec<u8>)>,
    pub(super) buffer: Vec<u8>,
    pub(super) ended: Ended,
}

impl Sender<'_> {
    pub(super) fn all(&mut self, opening: &[u8]) -> Result<(), Failure> {
        self.write(opening)?;
        let chunks = self.memory.length().div_ceil(self.memory.chunk() as u64);
        self.first()?;
        for index in 0..chunks {
            if !self.memory.is_zero(index) {
                self.chunk(index)?;
            }
        }
        self.asked()?;
        let mut end = Vec::new();
        self.section.end(&mut end);
        self.write(&end)?;
        // Until QEMU says that it has all, somebody may still wait for a page.
        let mut queue = lock(&self.queue.0);
        while queue.ended.is_none() {
            queue = self
                .queue
                .1
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Sends what the guest needed first before, and what is asked for meanwhile.
    fn first(&mut self) -> Result<(), Failure> {
        let memory = self.memory;
        let pages = memory.length() / PAGE as u64;
        let mut batch = Vec::new();
        let mut result = Ok(());
        memory.first(&mut |number, content| {
            if number < pages && self.mark(number) {
                batch.push((number, content.to_vec()));
            }
            if batch.len() == BATCH {
                result = self.batch(batch.drain(..)).and_then(|()| self.asked());
            }
            result.is_ok()
        });
        result?;
        self.batch(batch.drain(..))
    }

    /// Sends pages that are marked already.
    fn batch(&mut self, pages: impl Iterator<Item = (u64, Vec<u8>)>) -> Result<(), Failure> {
        let pages: Vec<_> = pages.collect();
        if pages.is_empty() {
            return Ok(());
        }
        self.ended.sent += pages.len() as u64;
        let offset = |number: &u64| number * PAGE as u64;
        let contents = pages
            .iter()
            .map(|(number, content)| (offset(number), Some(&**content).filter(|page| !zero(page))));
        let mut buffer = Vec::new();
        self.section.pages(contents, &mut buffer);
        self.write(&buffer)
    }

    fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stream = self.stream;
        stream.write_all(bytes).map_err(Failure::Closed)
    }

    /// Sends what is asked for now.
    fn asked(&mut self) -> Result<(), Failure> {
        loop {
            let wanted = lock(&self.queue.0).wanted.pop_front();
            let Some(range) = wanted else { return Ok(()) };
            let page = PAGE as u64;
            for number in range.start / page..range.end / page {
                if self.mark(number) {
                    self.one(number)?;
                }
            }
        }
    }

    /// Whether a page is still to be sent, from now on it is not.
    fn mark(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        let new = self.sent[word] & bit == 0;
        self.sent[word] |= bit;
        new
    }

    /// Sends a page that the guest waits for.
    fn one(&mut self, number: u64) -> Result<(), Failure> {
        match self.ended.wanted.last_mut() {
            Some(last) if last.end == number => last.end += 1,
            _ => self.ended.wanted.push(number..number + 1),
        }
        let offset = number * PAGE as u64;
        let index = offset / self.memory.chunk() as u64;
        let within = (offset % self.memory.chunk() as u64) as usize;
        let section = self.section;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let content = if self.memory.is_zero(index) {
            None
        } else {
            Some(&self.read(index)?[within..within + PAGE])
        };
        let content = content.filter(|page| !zero(page));
        section.pages([(offset, content)], &mut buffer);
        self.ended.sent += 1;
        self.write(&buffer)?;
        self.buffer = buffer;
        Ok(())
    }

    /// A chunk, read or kept from before.
    fn read(&mut self, index: u64) -> Result<&[u8], Failure> {
        if let Some(at) = self.chunks.iter().position(|(kept, _)| *kept == index) {
            return Ok(&self.chunks[at].1);
        }
        let size = self.memory.chunk() as u64;
        let length = size.min(self.memory.length() - index * size) as usize;
        let mut chunk = if self.chunks.len() == KEPT {
            self.chunks.pop_front().unwrap_or_default().1
        } else {
            Vec::new()
        };
        chunk.resize(length, 0);
        if !self.memory.read(index, &mut chunk) {
            return Err(Failure::GivenUp);
        }
        self.chunks.push_back((index, chunk));
        let last = self.chunks.len() - 1;
        Ok(&self.chunks[last].1)
    }

    /// Sends all of a chunk that is not zero and not sent, and what is asked for meanwhile.
    fn chunk(&mut self, index: u64) -> Result<(), Failure> {
        let first = index * self.memory.chunk() as u64 / PAGE as u64;
        let mut chunk = self.read(index)?.to_vec();
        let pages: Vec<u64> = (first..)
            .zip(chunk.chunks(PAGE))
            .filter_map(|(number, page)| (!zero(page)).then_some(number))
            .collect();
        let mut buffer = Vec::new();
        for batch in pages.chunks(BATCH) {
            self.asked()?;
            let batch: Vec<u64> = batch
                .iter()
                .copied()
                .filter(|number| self.mark(*number))
                .collect();
            if batch.is_empty() {
                continue;
            }
            buffer.clear();
            let pages = batch.iter().map(|number| {
                let at = (number - first) as usize * PAGE;
                (number * PAGE as u64, Some(&chunk[at..at + PAGE]))
            });
            self.section.pages(pages, &mut buffer);
            self.ended.sent += batch.len() as u64;
            self.write(&buffer)?;
        }
        chunk.clear();
        Ok(())
    }
}

fn zero(page: &[u8]) -> bool {
    page.iter().all(|byte| *byte == 0)
}

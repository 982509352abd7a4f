//! Sender of pages, those that the guest waits for first.

use std::collections::VecDeque;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use brisk_image::{PAGE, PAGE_SIZE, is_zero, push_page};

use super::opening::RamSection;
use super::source::{Ended, Failure, Memory, Queue, Reading, lock};
use super::throttle::Throttle;

/// Chunks that are cached after reading, for page faults close to each other.
const KEPT: usize = 8;
/// Pages of the background copy between two checks for page faults.
const BATCH: usize = 16;
/// Time after which a chunk that could not be read is tried again.
const AGAIN: Duration = Duration::from_millis(500);
/// Interval at which the guest's activity is checked.
const GLANCE: Duration = Duration::from_millis(5);

pub(super) struct Sender<'a> {
    pub(super) stream: &'a UnixStream,
    pub(super) section: &'a RamSection,
    pub(super) memory: &'a dyn Memory,
    pub(super) queue: &'a (Mutex<Queue>, Condvar),
    /// Bitmap of the pages that were sent.
    pub(super) sent: Vec<u64>,
    pub(super) chunks: VecDeque<(u64, Vec<u8>)>,
    pub(super) buffer: Vec<u8>,
    pub(super) ended: Ended,
    pub(super) throttle: Throttle,
}

impl Sender<'_> {
    pub(super) fn all(&mut self, opening: &[u8]) -> Result<(), Failure> {
        self.write(opening)?;
        let memory = self.memory;
        let chunks = memory.length().div_ceil(memory.chunk() as u64);
        self.first()?;
        for index in (0..chunks).filter(|index| !memory.is_zero(*index)) {
            let beside = self.give_way()?;
            // What cannot be read keeps nobody from what can be.
            loop {
                let since = Instant::now();
                if self.chunk(index)? {
                    self.throttle.sent(since, beside);
                    break;
                }
                self.asked()?;
                self.pause(AGAIN);
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

    /// Waits as long as the background copy would slow down the guest; whether the guest is still
    /// at work.
    fn give_way(&mut self) -> Result<bool, Failure> {
        loop {
            self.asked()?;
            let busy = self.throttle.is_asking() || self.memory.is_at_work();
            if !busy || !self.throttle.must_wait() || self.has_ended() {
                return Ok(busy);
            }
            self.pause(GLANCE);
        }
    }

    /// Sends the working set, and pages of page faults meanwhile.
    fn first(&mut self) -> Result<(), Failure> {
        let memory = self.memory;
        let pages = memory.length() / PAGE_SIZE;
        let mut batch: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut result = Ok(());
        memory.first(&mut |number, content| {
            if number < pages && self.mark(number) {
                self.ended.first += 1;
                batch.push((number, content.to_vec()));
            }
            if batch.len() == BATCH {
                result = self.send(&batch).and_then(|()| self.asked());
                batch.clear();
            }
            result.is_ok()
        });
        result?;
        self.send(&batch)
    }

    /// Sends pages that are marked already.
    fn send(&mut self, pages: &[(u64, impl AsRef<[u8]>)]) -> Result<(), Failure> {
        if pages.is_empty() {
            return Ok(());
        }
        let contents = pages.iter().map(|(number, content)| {
            let content = Some(content.as_ref()).filter(|page| !is_zero(page));
            (number * PAGE_SIZE, content)
        });
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        self.section.pages(contents, &mut buffer);
        self.ended.sent += pages.len() as u64;
        self.write(&buffer)?;
        self.buffer = buffer;
        Ok(())
    }

    fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stream = self.stream;
        stream.write_all(bytes).map_err(Failure::Closed)
    }

    /// Sends the pages of all page faults until now.
    fn asked(&mut self) -> Result<(), Failure> {
        loop {
            let wanted = lock(&self.queue.0).wanted.pop_front();
            let Some(range) = wanted else { return Ok(()) };
            let page = PAGE_SIZE;
            for number in range.start / page..range.end / page {
                if self.mark(number) {
                    self.one(number)?;
                }
            }
        }
    }

    /// Marks a page as sent; whether it was not before.
    fn mark(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        let new = self.sent[word] & bit == 0;
        self.sent[word] |= bit;
        new
    }

    /// Sends a page that the guest waits for.
    fn one(&mut self, number: u64) -> Result<(), Failure> {
        self.throttle.was_asked();
        push_page(&mut self.ended.wanted, number);
        let offset = number * PAGE_SIZE;
        let index = offset / self.memory.chunk() as u64;
        let within = (offset % self.memory.chunk() as u64) as usize;
        let content = match self.memory.is_zero(index) {
            true => vec![0; PAGE],
            false => {
                let chunk = self.read(index, true)?.ok_or(Failure::GivenUp)?;
                chunk[within..within + PAGE].to_vec()
            }
        };
        self.send(&[(number, content)])
    }

    /// A chunk, read or cached; `None` if it cannot be read now and `wait` is not set.
    fn read(&mut self, index: u64, wait: bool) -> Result<Option<&[u8]>, Failure> {
        if let Some(at) = self.chunks.iter().position(|(kept, _)| *kept == index) {
            return Ok(Some(&self.chunks[at].1));
        }
        let size = self.memory.chunk() as u64;
        let length = size.min(self.memory.length() - index * size) as usize;
        let mut chunk = if self.chunks.len() == KEPT {
            self.chunks.pop_front().unwrap_or_default().1
        } else {
            Vec::new()
        };
        chunk.resize(length, 0);
        match self.memory.read(index, &mut chunk, wait) {
            Reading::Whole => {}
            Reading::Later => return Ok(None),
            Reading::GivenUp => return Err(Failure::GivenUp),
        }
        self.chunks.push_back((index, chunk));
        Ok(self.chunks.back().map(|(_, chunk)| &**chunk))
    }

    fn has_ended(&self) -> bool {
        lock(&self.queue.0).ended.is_some()
    }

    /// Waits until there is a page fault, and at most this long.
    fn pause(&self, most: Duration) {
        let queue = lock(&self.queue.0);
        if queue.wanted.is_empty() && queue.ended.is_none() {
            // Whatever wakes it, the queue is looked at again.
            let _ = self.queue.1.wait_timeout(queue, most);
        }
    }

    /// Sends all pages of a chunk that are not zero and not sent, and pages of page faults
    /// meanwhile. Whether the chunk could be read.
    fn chunk(&mut self, index: u64) -> Result<bool, Failure> {
        let first = index * self.memory.chunk() as u64 / PAGE_SIZE;
        let Some(chunk) = self.read(index, false)? else {
            return Ok(false);
        };
        let chunk = chunk.to_vec();
        let pages: Vec<(u64, &[u8])> = (first..)
            .zip(chunk.chunks(PAGE))
            .filter(|(_, page)| !is_zero(page))
            .collect();
        for batch in pages.chunks(BATCH) {
            self.asked()?;
            let batch = batch.iter().copied();
            let batch: Vec<_> = batch.filter(|(number, _)| self.mark(*number)).collect();
            self.send(&batch)?;
        }
        Ok(true)
    }
}

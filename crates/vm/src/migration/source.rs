//! Serving pages to a guest that runs.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::opening::{RamSection, opening};
use super::requests::{Request, Requests};
use super::saved::Saved;
use super::wire::PAGE;

/// Chunks that are kept after they were read, for pages that are asked for next to each other.
const KEPT: usize = 8;
/// Pages that are sent before it is looked again whether one is asked for.
const BATCH: usize = 16;

/// Where memory comes from.
pub trait Memory: Sync {
    /// Bytes of memory.
    fn length(&self) -> u64;
    /// Bytes of a chunk, but for the last; a multiple of [`PAGE`].
    fn chunk(&self) -> usize;
    /// Whether a chunk is known to be zero.
    fn is_zero(&self, index: u64) -> bool;
    /// Fills `out`, which is as long as the chunk is, and returns only when it has; false if it
    /// has given up.
    fn read(&self, index: u64, out: &mut [u8]) -> bool;
}

/// Why serving ended before all was there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The stream that was saved.
    #[error(transparent)]
    Saved(#[from] super::saved::Error),
    /// It is of another machine.
    #[error("the saved state of the devices has no memory of {length} bytes")]
    Memory {
        /// What was looked for.
        length: u64,
    },
    /// QEMU is gone, or has had enough.
    #[error("QEMU takes no more memory")]
    Closed(#[source] io::Error),
    /// QEMU says things that cannot be.
    #[error("QEMU is not understood: {0}")]
    Protocol(&'static str),
    /// QEMU has failed.
    #[error("QEMU could not take the memory (it said {0})")]
    Refused(u32),
    /// [`Memory::read`] has given up.
    #[error("the memory cannot be read")]
    GivenUp,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    /// Pages the guest waited for, in order, as ranges of pages.
    pub wanted: Vec<Range<u64>>,
    /// Pages that were sent.
    pub sent: u64,
}

/// The source of a migration whose guest runs at the other end.
#[derive(Debug)]
pub struct Source {
    stream: UnixStream,
    section: RamSection,
    requests: Requests,
    opening: Vec<u8>,
    length: u64,
}

#[derive(Default)]
struct Queue {
    wanted: VecDeque<Range<u64>>,
    ended: Option<Result<(), Failure>>,
}

impl Source {
    /// To a QEMU at the other end of `stream`; `state` is what was saved without memory.
    ///
    /// # Errors
    /// If the state is not understood, or has other memory.
    pub fn new(stream: UnixStream, state: &[u8], length: u64) -> Result<Self, Failure> {
        let saved = Saved::parse(state)?;
        let memory = saved.memory(length).ok_or(Failure::Memory { length })?;
        Ok(Self {
            stream,
            section: RamSection::new(&saved, memory),
            requests: Requests::new(&memory.name, length),
            opening: opening(&saved, memory),
            length,
        })
    }

    /// Sends everything but memory, and then pages until all are there: those that are asked for
    /// first, then the chunks in `order`, then all others. Pages of zeros that nobody asks for
    /// are not sent: what is missing in the end is zero.
    ///
    /// # Errors
    /// If QEMU ends, fails, or the memory cannot be read.
    pub fn serve(self, memory: &dyn Memory, order: &[u64]) -> Result<Ended, Failure> {
        let Self {
            stream,
            section,
            mut requests,
            opening,
            length,
        } = self;
        let queue = (Mutex::new(Queue::default()), Condvar::new());
        let result = thread::scope(|scope| {
            scope.spawn(|| listen(&stream, &mut requests, &queue));
            let mut sender = Sender {
                stream: &stream,
                section: &section,
                memory,
                queue: &queue,
                sent: vec![0; (length / PAGE as u64).div_ceil(64) as usize],
                chunks: VecDeque::new(),
                buffer: Vec::new(),
                ended: Ended::default(),
            };
            let sent = sender.all(&opening, order);
            if sent.is_err() {
                // The thread above has no other reason to end.
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
            sent.map(|()| sender.ended)
        });
        let ended = lock(&queue.0).ended.take();
        match (result, ended) {
            // What QEMU said explains why it took no more.
            (Err(Failure::Closed(_)), Some(Err(failure))) => Err(failure),
            (Ok(_), Some(Err(failure))) => Err(failure),
            (result, _) => result,
        }
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes what comes back, until that ends.
fn listen(mut stream: &UnixStream, requests: &mut Requests, queue: &(Mutex<Queue>, Condvar)) {
    let mut buffer = [0; 4096];
    let ended = loop {
        let count = match stream.read(&mut buffer) {
            Ok(0) => break Err(Failure::Closed(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => break Err(Failure::Closed(error)),
        };
        let messages = match requests.push(&buffer[..count]) {
            Ok(messages) => messages,
            Err(what) => break Err(Failure::Protocol(what)),
        };
        let mut end = None;
        let mut queue = (lock(&queue.0), &queue.1);
        for message in messages {
            match message {
                Request::Pages(range) => queue.0.wanted.push_back(range),
                Request::Shut(0) => end = Some(Ok(())),
                Request::Shut(error) => end = Some(Err(Failure::Refused(error))),
            }
        }
        queue.1.notify_all();
        if let Some(end) = end {
            break end;
        }
    };
    lock(&queue.0).ended = Some(ended);
    queue.1.notify_all();
}

struct Sender<'a> {
    stream: &'a UnixStream,
    section: &'a RamSection,
    memory: &'a dyn Memory,
    queue: &'a (Mutex<Queue>, Condvar),
    /// A bit a page.
    sent: Vec<u64>,
    chunks: VecDeque<(u64, Vec<u8>)>,
    buffer: Vec<u8>,
    ended: Ended,
}

impl Sender<'_> {
    fn all(&mut self, opening: &[u8], order: &[u64]) -> Result<(), Failure> {
        self.write(opening)?;
        let chunks = self.memory.length().div_ceil(self.memory.chunk() as u64);
        let early = order.iter().copied().filter(|index| *index < chunks);
        for index in early.chain(0..chunks) {
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

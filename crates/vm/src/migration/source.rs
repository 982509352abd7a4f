//! Source of a postcopy migration: serves pages to a running guest.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use brisk_image::PAGE_SIZE;

use super::opening::{RamSection, inquiry, opening, resumption};
use super::requests::{Request, Requests};
use super::saved::Saved;
use super::sender::Sender;
use super::throttle::Throttle;

/// Most time for a QEMU to answer another source.
const PATIENCE: Duration = Duration::from_secs(30);

/// Source of the guest's memory.
pub trait Memory: Sync {
    /// Calls `take` with numbers and contents of the working set's pages, as long as it returns
    /// true.
    fn first(&self, take: &mut dyn FnMut(u64, &[u8]) -> bool);
    /// Length of the memory in bytes.
    fn length(&self) -> u64;
    /// Length of a chunk in bytes, except for the last; a multiple of [`PAGE`].
    fn chunk(&self) -> usize;
    /// Whether a chunk is known to be zero.
    fn is_zero(&self, index: u64) -> bool;
    /// Fills `out`, which is as long as the chunk. With `wait` it returns only when the chunk was
    /// read or is given up: the guest waits, too.
    fn read(&self, index: u64, out: &mut [u8], wait: bool) -> Reading;
    /// Whether the guest is at work, so that its page faults go first.
    fn is_at_work(&self) -> bool;
}

/// Result of reading a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// It was read.
    Whole,
    /// It cannot be read now, and the caller does not wait.
    Later,
    /// Reading was given up.
    GivenUp,
}

/// Reason why serving ended before all memory was sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The saved stream cannot be used.
    #[error(transparent)]
    Saved(#[from] super::saved::Error),
    /// The saved stream is of another VM.
    #[error("the saved state of the devices has no memory of {length} bytes")]
    Memory {
        /// Length of the memory that was expected.
        length: u64,
    },
    /// QEMU has ended, or has closed the stream.
    #[error("QEMU takes no more memory")]
    Closed(#[source] io::Error),
    /// QEMU violates the protocol.
    #[error("QEMU is not understood: {0}")]
    Protocol(&'static str),
    /// QEMU has failed, with this status.
    #[error("QEMU could not take the memory (it reported {0})")]
    Refused(u32),
    /// [`Memory::read`] has given up.
    #[error("the memory cannot be read")]
    GivenUp,
}

/// Result of serving.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    /// Pages the guest waited for, in order, as ranges of pages.
    pub wanted: Vec<Range<u64>>,
    /// Pages that were sent.
    pub sent: u64,
    /// Pages of the working set that were sent before all others.
    pub first: u64,
}

/// The source of a migration whose guest runs at the other end.
#[derive(Debug)]
pub struct Source {
    stream: UnixStream,
    section: RamSection,
    requests: Requests,
    opening: Vec<u8>,
    /// Bitmap of the pages that QEMU has.
    sent: Vec<u64>,
    /// Pages that it has already asked for.
    wanted: VecDeque<Range<u64>>,
}

/// Messages from the return path that are not processed yet.
pub(super) struct Queue {
    pub(super) wanted: VecDeque<Range<u64>>,
    pub(super) ended: Option<Result<(), Failure>>,
}

impl Source {
    /// A source for a QEMU at the other end of `stream`; `state` is the device state.
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
            sent: vec![0; words(length)],
            wanted: VecDeque::new(),
        })
    }

    /// A source that replaces one that was lost: QEMU, which got the command to take the rest from
    /// `stream`, reports the pages that it has.
    ///
    /// # Errors
    /// As [`Self::new`], or if QEMU does not answer.
    pub fn again(stream: UnixStream, state: &[u8], length: u64) -> Result<Self, Failure> {
        let saved = Saved::parse(state)?;
        let memory = saved.memory(length).ok_or(Failure::Memory { length })?;
        let mut source = Self {
            stream,
            section: RamSection::new(&saved, memory),
            requests: Requests::new(&memory.name, length),
            opening: Vec::new(),
            sent: Vec::new(),
            wanted: VecDeque::new(),
        };
        let patience = |limit| {
            source
                .stream
                .set_read_timeout(limit)
                .map_err(Failure::Closed)
        };
        patience(Some(PATIENCE))?;
        source
            .stream
            .write_all(&inquiry(memory))
            .map_err(Failure::Closed)?;
        while source.sent.is_empty() {
            source.hear()?;
        }
        source
            .stream
            .write_all(&resumption())
            .map_err(Failure::Closed)?;
        while !source.hear()? {}
        source
            .stream
            .set_read_timeout(None)
            .map_err(Failure::Closed)?;
        Ok(source)
    }

    /// Processes messages; whether QEMU continues.
    fn hear(&mut self) -> Result<bool, Failure> {
        let mut on = false;
        for message in receive(&self.stream, &mut self.requests)? {
            match message {
                Request::Received(bits) => self.sent = bits,
                Request::Resumed => on = true,
                Request::Pages(range) => self.wanted.push_back(range),
                Request::Shut(error) => return Err(Failure::Refused(error)),
            }
        }
        Ok(on)
    }

    /// Sends everything but the memory, and then pages until all are there: those of page faults
    /// first, then the working set, then all others, as long as that does not slow the guest down.
    /// Zero pages that the guest does not ask for are not sent: pages that are missing at the end
    /// are zero.
    ///
    /// # Errors
    /// If QEMU ends or fails, or the memory cannot be read.
    pub fn serve(self, memory: &dyn Memory) -> Result<Ended, Failure> {
        let Self {
            stream,
            section,
            mut requests,
            opening,
            sent,
            wanted,
        } = self;
        let queue = Queue {
            wanted,
            ended: None,
        };
        let queue = (Mutex::new(queue), Condvar::new());
        let result = thread::scope(|scope| {
            scope.spawn(|| listen(&stream, &mut requests, &queue));
            let mut sender = Sender {
                stream: &stream,
                section: &section,
                memory,
                queue: &queue,
                sent,
                chunks: VecDeque::new(),
                buffer: Vec::new(),
                ended: Ended::default(),
                throttle: Throttle::new(),
            };
            let sent = sender.all(&opening);
            if sent.is_err() {
                // The thread above has no other reason to end.
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
            sent.map(|()| sender.ended)
        });
        let ended = lock(&queue.0).ended.take();
        match (result, ended) {
            // What QEMU reported explains why it took no more.
            (Err(Failure::Closed(_)), Some(Err(failure))) => Err(failure),
            (Ok(_), Some(Err(failure))) => Err(failure),
            (result, _) => result,
        }
    }
}

/// Number of words of a bitmap of all pages.
fn words(length: u64) -> usize {
    length.div_ceil(PAGE_SIZE).div_ceil(64) as usize
}

pub(super) fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Messages that have arrived; waits for at least one byte.
fn receive(mut stream: &UnixStream, requests: &mut Requests) -> Result<Vec<Request>, Failure> {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(Failure::Closed(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => return requests.push(&buffer[..count]).map_err(Failure::Protocol),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::Closed(error)),
        }
    }
}

/// Receives messages until the return path ends.
fn listen(stream: &UnixStream, requests: &mut Requests, queue: &(Mutex<Queue>, Condvar)) {
    let ended = loop {
        let messages = match receive(stream, requests) {
            Ok(messages) => messages,
            Err(failure) => break Err(failure),
        };
        let mut end = None;
        let mut queue = (lock(&queue.0), &queue.1);
        for message in messages {
            match message {
                Request::Pages(range) => queue.0.wanted.push_back(range),
                Request::Shut(0) => end = Some(Ok(())),
                Request::Shut(error) => end = Some(Err(Failure::Refused(error))),
                // Both are announced once, before it is served.
                Request::Received(_) | Request::Resumed => {}
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use brisk_image::PAGE;

    use super::*;
    use crate::migration::saved::Block;

    /// Eight pages, of which the second is zero and two are in the working set, and a chunk that
    /// cannot be read until a reader has waited for another one.
    struct Pages {
        unreadable: AtomicU64,
        /// Whether the guest is at work, until it has got a page that it asked for.
        at_work: AtomicBool,
    }

    impl Memory for Pages {
        fn first(&self, take: &mut dyn FnMut(u64, &[u8]) -> bool) {
            for number in [5, 2] {
                assert!(take(number, &[number as u8 + 1; PAGE]));
            }
        }

        fn length(&self) -> u64 {
            8 * PAGE_SIZE
        }

        fn chunk(&self) -> usize {
            2 * PAGE
        }

        fn is_zero(&self, _: u64) -> bool {
            false
        }

        fn read(&self, index: u64, out: &mut [u8], wait: bool) -> Reading {
            if !wait && index == self.unreadable.load(Ordering::Relaxed) {
                return Reading::Later;
            }
            if wait {
                self.unreadable.store(u64::MAX, Ordering::Relaxed);
                self.at_work.store(false, Ordering::Relaxed);
            }
            for (number, page) in (2 * index..).zip(out.chunks_mut(PAGE)) {
                page.fill(if number == 1 { 0 } else { number as u8 + 1 });
            }
            Reading::Whole
        }

        fn is_at_work(&self) -> bool {
            self.at_work.load(Ordering::Relaxed)
        }
    }

    fn served(sent: u64, wanted: &[Range<u64>], unreadable: u64) -> (Vec<u64>, Ended) {
        let memory = Pages {
            unreadable: AtomicU64::new(unreadable),
            at_work: AtomicBool::new(false),
        };
        served_from(&memory, sent, wanted, &[])
    }

    /// Serves to a QEMU that has some pages, has asked for some, asks with these bytes when it has
    /// the working set, and ends when it has all; the result is the numbers of the pages as they
    /// came, and the result of serving.
    fn served_from(
        memory: &Pages,
        sent: u64,
        wanted: &[Range<u64>],
        words: &'static [u8],
    ) -> (Vec<u64>, Ended) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let page = PAGE_SIZE;
        let saved = Saved {
            machine: Vec::new(),
            subsections: Vec::new(),
            section: 1,
            version: 4,
            blocks: Vec::new(),
            devices: Vec::new(),
        };
        let block = Block {
            name: b"ram".to_vec(),
            length: 8 * page,
            pages: Vec::new(),
        };
        let bytes = |range: &Range<u64>| range.start * page..range.end * page;
        let source = Source {
            stream: ours,
            section: RamSection::new(&saved, &block),
            requests: Requests::new(b"ram", 8 * page),
            opening: Vec::new(),
            sent: vec![sent],
            wanted: wanted.iter().map(bytes).collect(),
        };
        let qemu = thread::spawn(move || {
            let mut stream = Vec::new();
            let mut buffer = [0; 4096];
            while stream.len() < 2 * PAGE {
                let count = theirs.read(&mut buffer).unwrap();
                stream.extend_from_slice(&buffer[..count]);
            }
            theirs.write_all(words).unwrap();
            while !stream.ends_with(b"\x7e\0\0\0\x01\0") {
                let count = theirs.read(&mut buffer).unwrap();
                stream.extend_from_slice(&buffer[..count]);
            }
            theirs.write_all(b"\0\x01\0\x04\0\0\0\0").unwrap();
            stream
        });
        let ended = source.serve(memory).unwrap();
        let stream = qemu.join().unwrap();
        // A whole page of its number and one: nothing else in the stream is like that.
        let number = |at: usize| {
            let byte = *stream.get(at)?;
            let whole = stream
                .get(at..at + PAGE)?
                .iter()
                .all(|other| *other == byte);
            (whole && (1..9).contains(&byte)).then(|| u64::from(byte) - 1)
        };
        let (mut at, mut numbers) = (0, Vec::new());
        while at < stream.len() {
            match number(at) {
                Some(page) => {
                    numbers.push(page);
                    at += PAGE;
                }
                None => at += 1,
            }
        }
        (numbers, ended)
    }

    #[test]
    fn what_is_needed_first_comes_first_and_zeros_not_at_all() {
        let (numbers, ended) = served(0, &[], u64::MAX);
        assert_eq!(numbers, [5, 2, 0, 3, 4, 6, 7]);
        assert_eq!((ended.sent, ended.first, ended.wanted), (7, 2, vec![]));
    }

    #[test]
    fn what_nobody_needs_waits_as_long_as_the_guest_is_at_work() {
        let memory = Pages {
            unreadable: AtomicU64::new(u64::MAX),
            at_work: AtomicBool::new(true),
        };
        // A page from 0x7000 on.
        let words = b"\0\x03\0\x10\0\0\0\0\0\0\x70\0\0\0\x10\0\x03ram";
        let (numbers, ended) = served_from(&memory, 0, &[], words);
        assert_eq!(numbers, [5, 2, 7, 0, 3, 4, 6]);
        assert_eq!((ended.wanted.len(), ended.wanted[0].start), (1, 7));
    }

    #[test]
    fn what_cannot_be_read_keeps_nobody_from_what_can_be() {
        let (numbers, ended) = served(0, &[6..7, 0..1], 0);
        assert_eq!(numbers, [5, 2, 6, 0, 3, 4, 7]);
        assert_eq!((ended.sent, ended.wanted), (7, vec![6..7, 0..1]));
    }

    #[test]
    fn what_another_source_has_sent_is_not_sent_again() {
        let (numbers, ended) = served(0b1010_0001, &[3..5, 0..1], u64::MAX);
        assert_eq!(numbers, [2, 3, 4, 6]);
        assert_eq!((ended.sent, ended.first), (4, 1));
    }
}

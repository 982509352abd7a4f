//! Frames on their way to the guest, bounded whatever the guest grants.

use std::collections::VecDeque;
use std::io::{self, Write};

use brisk_vm::guest::{Kind, STDIN_WINDOW, frame};

use super::peer::{gone, retry};

/// Most bytes of standard input in one frame.
pub(super) const STDIN_CHUNK: usize = 16 * 1024;

/// Frames that the guest's socket has not taken yet, and how much of standard input the guest
/// wants.
#[derive(Debug)]
pub(super) struct Outbox {
    queue: VecDeque<u8>,
    credit: usize,
}

impl Outbox {
    pub(super) fn new(frames: Vec<u8>) -> Self {
        Self {
            queue: frames.into(),
            credit: STDIN_WINDOW,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn push(&mut self, frames: &[u8]) {
        self.queue.extend(frames);
    }

    pub(super) fn send(&mut self, kind: Kind, payload: &[u8]) {
        self.push(&frame(kind, payload));
    }

    /// The guest wants so many bytes more; never more than the window.
    pub(super) fn grant(&mut self, count: usize) {
        self.credit = self.credit.saturating_add(count).min(STDIN_WINDOW);
    }

    /// Most bytes of standard input to read now. A guest can grant more without taking what it was
    /// sent, so what waits counts, too.
    pub(super) fn room(&self) -> usize {
        match self.queue.len() < STDIN_WINDOW {
            true => self.credit.min(STDIN_CHUNK),
            false => 0,
        }
    }

    /// Adds standard input, of no more bytes than [`Self::room`].
    pub(super) fn send_stdin(&mut self, bytes: &[u8]) {
        self.credit = self.credit.saturating_sub(bytes.len());
        self.send(Kind::Stdin, bytes);
    }

    /// Writes what the guest's socket takes.
    pub(super) fn flush(&mut self, guest: &mut impl Write) -> io::Result<()> {
        while !self.queue.is_empty() {
            match guest.write(self.queue.as_slices().0) {
                Ok(count) => drop(self.queue.drain(..count)),
                Err(error) if retry(&error) => return Ok(()),
                // The other direction of the socket shows how.
                Err(error) if gone(&error) => self.queue.clear(),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guest that takes nothing.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_guest_that_grants_without_taking_gets_a_window() {
        let mut outbox = Outbox::new(Vec::new());
        for _ in 0..10_000 {
            outbox.grant(usize::MAX);
            let room = outbox.room();
            if room > 0 {
                outbox.send_stdin(&vec![0; room]);
            }
            outbox.flush(&mut Full).unwrap();
        }
        assert!(outbox.queue.len() <= STDIN_WINDOW + 2 * STDIN_CHUNK);
    }

    #[test]
    fn a_guest_that_grants_nothing_gets_the_window_once() {
        let mut outbox = Outbox::new(Vec::new());
        let mut taken = Vec::new();
        let mut sent = 0;
        while outbox.room() > 0 {
            let piece = vec![7; outbox.room()];
            outbox.send_stdin(&piece);
            sent += piece.len();
            outbox.flush(&mut taken).unwrap();
        }
        assert_eq!(sent, STDIN_WINDOW);
        assert!(outbox.is_empty());
        outbox.grant(1);
        assert_eq!(outbox.room(), 1);
    }

    #[test]
    fn frames_arrive_in_their_order() {
        let mut outbox = Outbox::new(frame(Kind::Hail, &[]));
        outbox.send_stdin(b"abc");
        outbox.send(Kind::StdinEnd, &[]);
        let mut taken = Vec::new();
        outbox.flush(&mut taken).unwrap();
        let expected = [
            frame(Kind::Hail, &[]),
            frame(Kind::Stdin, b"abc"),
            frame(Kind::StdinEnd, &[]),
        ];
        assert_eq!(taken, expected.concat());
    }
}

//! Signals that a session hands on to its guest, as bytes in a socket, so that one poll(2) waits
//! for everything.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::low_level::{pipe, unregister};

const WATCHED: [i32; 7] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH];

/// Whether a user asks a program to end by this signal. The others have meanings of the program's
/// own and may come often.
pub const fn is_termination(signal: i32) -> bool {
    matches!(signal, SIGINT | SIGTERM | SIGQUIT)
}

/// The signals that a session handles, from its creation until it is dropped.
#[derive(Debug)]
pub struct Signals {
    /// Socket that wakes the poll, shared by all signals: one for each would need as many poll
    /// entries.
    wake: UnixStream,
    each: Vec<(i32, UnixStream)>,
    registered: Vec<SigId>,
}

impl Signals {
    /// Handles the signals from now on.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn new() -> io::Result<Self> {
        let (wake, wakes) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let mut signals = Self {
            wake,
            each: Vec::new(),
            registered: Vec::new(),
        };
        for signal in WATCHED {
            let (ours, theirs) = UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            signals.each.push((signal, ours));
            signals.registered.push(pipe::register(signal, theirs)?);
            signals
                .registered
                .push(pipe::register(signal, wakes.try_clone()?)?);
        }
        Ok(signals)
    }

    /// Descriptor that is readable when a signal has come.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The signals that came since the last call, each once.
    pub fn pending(&mut self) -> Vec<i32> {
        let mut buffer = [0; 64];
        while let Ok(1..) = self.wake.read(&mut buffer) {}
        let mut came = Vec::new();
        for (signal, stream) in &mut self.each {
            let mut any = false;
            while let Ok(1..) = stream.read(&mut buffer) {
                any = true;
            }
            if any {
                came.push(*signal);
            }
        }
        came
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            unregister(id);
        }
    }
}

//! Standard streams of brisk, carried without blocking, byte for byte.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::os::fd::BorrowedFd;
use std::time::Instant;

use brisk_sys::wait_for;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::termios::{OptionalActions, OutputModes, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use brisk_host::interrupt::{Signals, is_termination};

/// Bytes that a pipe takes at once after poll(2) called it writable (pipe(7)).
const PIPE_CHUNK: usize = 4096;
/// Unwritten bytes from which on nothing more is read from the guest.
const HIGH_WATER: usize = 1 << 20;

/// How a session shows what the guest prints.
pub(super) struct Display {
    /// Whether the command has our terminal, which is in raw mode then.
    pub(super) raw: bool,
    /// Whether the console is shown.
    pub(super) console: bool,
}

/// Standard output or error, and what is still to be written to it.
#[derive(Debug)]
pub(crate) struct Output {
    fd: BorrowedFd<'static>,
    pending: VecDeque<u8>,
    chunk: usize,
    closed: bool,
}

impl Output {
    pub(crate) fn new(fd: BorrowedFd<'static>) -> Self {
        let regular = rustix::fs::fstat(fd)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        let chunk = if regular { HIGH_WATER } else { PIPE_CHUNK };
        Self {
            fd,
            pending: VecDeque::new(),
            chunk,
            closed: false,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if !self.closed {
            self.pending.extend(bytes);
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'static> {
        self.fd
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() > HIGH_WATER
    }

    /// Writes once; call it when poll(2) says that it will not block. `false` when the reader
    /// has gone away.
    pub(crate) fn write(&mut self) -> io::Result<bool> {
        let front = self.pending.as_slices().0;
        let front = &front[..front.len().min(self.chunk)];
        match rustix::io::write(self.fd, front) {
            Ok(count) => {
                self.pending.drain(..count);
                Ok(true)
            }
            Err(Errno::INTR | Errno::AGAIN) => Ok(true),
            Err(Errno::PIPE) => {
                self.closed = true;
                self.pending.clear();
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Reason why not all was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// A signal asked for the end.
    Signal(i32),
    /// The deadline has passed.
    Deadline,
}

/// Writes all that is left as fast as it is read; after `deadline` only what is accepted at once.
pub(crate) fn finish(
    mut outputs: [&mut Output; 2],
    signals: &mut Signals,
    deadline: Option<Instant>,
) -> io::Result<Option<Cut>> {
    while outputs.iter().any(|output| !output.is_empty()) {
        let mut fds = vec![PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
        let waiting = outputs.iter().filter(|output| !output.is_empty());
        fds.extend(waiting.map(|output| PollFd::from_borrowed_fd(output.fd, PollFlags::OUT)));
        if wait_for(&mut fds, deadline)? == 0 {
            return Ok(Some(Cut::Deadline));
        }
        let ready: Vec<_> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready[0] {
            let asked = signals
                .pending()
                .into_iter()
                .find(|one| is_termination(*one));
            if let Some(signal) = asked {
                return Ok(Some(Cut::Signal(signal)));
            }
        }
        let waiting = outputs.iter_mut().filter(|output| !output.is_empty());
        for (output, _) in waiting.zip(&ready[1..]).filter(|(_, ready)| **ready) {
            output.write()?;
        }
    }
    Ok(None)
}

/// The user's terminal in raw mode, restored when this is dropped.
#[derive(Debug)]
pub struct Terminal {
    before: Termios,
}

impl Terminal {
    /// Size of the terminal at standard output, rows and columns, if both input and output are
    /// one.
    #[must_use]
    pub fn size() -> Option<(u16, u16)> {
        (io::stdin().is_terminal() && io::stdout().is_terminal())
            .then(Self::window)
            .flatten()
    }

    /// Present size of the terminal.
    pub fn window() -> Option<(u16, u16)> {
        let size = tcgetwinsize(rustix::stdio::stdout()).ok()?;
        Some((size.ws_row, size.ws_col))
    }

    /// Puts the terminal into raw mode: every key goes to the guest unchanged.
    ///
    /// # Errors
    /// If standard input is no terminal.
    pub fn raw() -> io::Result<Self> {
        let before = tcgetattr(rustix::stdio::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { before })
    }

    /// Gives keys such as Ctrl-C back to the user. The rest of the guest's output still goes out
    /// unchanged: the guest's own terminal has made its lines.
    pub fn takes_keys(&self) {
        let mut keys = self.before.clone();
        keys.output_modes.remove(OutputModes::OPOST);
        // Where the terminal is gone nobody presses any.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &keys);
    }
}

/// A terminal that is the command's from the guest's answer on: until then keys end the wait.
#[derive(Debug)]
pub(super) enum LateTerminal {
    /// None is wanted.
    None,
    /// It is still the user's.
    Wanted,
    /// It is the command's.
    Taken(Terminal),
}

impl LateTerminal {
    /// Makes it the command's.
    pub(super) fn take(&mut self) {
        if matches!(self, Self::Wanted) {
            *self = Terminal::raw().map_or(Self::None, Self::Taken);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Where the terminal is gone there is nothing to put back.
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before);
    }
}

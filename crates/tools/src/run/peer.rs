//! Peer of a session, and the script that it gets first.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use brisk_vm::guest::Step;
use brisk_vm::launch::Running;

/// Time after which it is said that the init of a VM does not answer; it does at once.
const SILENCE: Duration = Duration::from_secs(5);
pub(super) const UNANSWERED: &[u8] =
    b"brisk: the VM's init does not answer yet; it may be stopped, or the \
    guest very busy. Ctrl-C or --timeout ends the wait\r\n";

/// Script for init, by the time at which it is sent.
#[derive(Debug)]
pub(super) enum Script {
    /// At once: the socket keeps it until init runs, as far as it has room.
    Now(Vec<u8>),
    /// When the restored guest runs, with the time of then before it.
    Resumed(Vec<Step>),
    /// When init greets.
    Greeted(Vec<u8>),
}

/// Peer of a session.
#[derive(Debug)]
pub(super) enum Peer {
    /// A VM of this process, which ends with the process.
    Machine(Box<Running>),
    /// A port of a persistent VM.
    Port(UnixStream),
}

impl Peer {
    pub(super) fn guest(&self) -> &UnixStream {
        match self {
            Self::Machine(machine) => &machine.guest,
            Self::Port(port) => port,
        }
    }

    pub(super) fn machine(&self) -> Option<&Running> {
        match self {
            Self::Machine(machine) => Some(machine),
            Self::Port(_) => None,
        }
    }

    pub(super) fn machine_mut(&mut self) -> Option<&mut Running> {
        match self {
            Self::Machine(machine) => Some(machine),
            Self::Port(_) => None,
        }
    }

    /// When it is said that the init of a VM does not answer.
    pub(super) fn patience(&self) -> Option<Instant> {
        matches!(self, Self::Port(_)).then(|| Instant::now() + SILENCE)
    }

    /// Ends a VM of this process; the result is its stderr.
    pub(super) fn end(self) -> String {
        match self {
            Self::Machine(machine) => machine.kill(),
            Self::Port(_) => String::new(),
        }
    }
}

/// Whether an error says that QEMU has closed its end.
pub(super) fn gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset)
}

/// Whether an error says that there are no bytes yet, or that a signal came first.
pub(super) fn retry(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

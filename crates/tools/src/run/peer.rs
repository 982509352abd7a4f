//! Who is at the other end of a session, and what it is sent first.

use std::io;
use std::os::unix::net::UnixStream;

use brisk_vm::guest::Step;
use brisk_vm::launch::Running;

/// What is sent to init, and when.
#[derive(Debug)]
pub(super) enum Script {
    /// At once: it waits for init in the socket, as far as that takes it.
    Now(Vec<u8>),
    /// When the guest goes on, with the time of then before it.
    Resumed(Vec<Step>),
    /// When init greets.
    Greeted(Vec<u8>),
}

/// Who is at the other end.
#[derive(Debug)]
pub(super) enum Peer {
    /// A machine of our own, which ends with us.
    Machine(Box<Running>),
    /// A port of a machine that stays.
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

    /// What a machine that ends with us wrote to stderr.
    pub(super) fn end(self) -> String {
        match self {
            Self::Machine(machine) => machine.kill(),
            Self::Port(_) => String::new(),
        }
    }
}

/// QEMU has closed its end.
pub(super) fn gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset)
}

/// There is nothing yet, or a signal came first.
pub(super) fn retry(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

//! Resources of the relay, prepared before the command is known.

use crate::protocol::STDIN_WINDOW;
use crate::sys;

/// Resources of the relay; they can be prepared before there is a command.
pub(crate) struct Relay {
    /// Buffer for standard input.
    pub(crate) buffer: &'static mut [u8],
    /// Descriptor that reports ended children.
    pub(crate) children: i32,
}

impl Relay {
    /// Prepares the relay: from here on no end of a child is missed.
    pub(crate) fn prepare() -> sys::Result<Self> {
        let buffer = sys::pages(STDIN_WINDOW * 2)?;
        sys::block_signals(&[sys::SIGCHLD])?;
        let children = sys::signalfd(&[sys::SIGCHLD])?;
        Ok(Self { buffer, children })
    }
}

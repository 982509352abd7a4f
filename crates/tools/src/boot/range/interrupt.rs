//! The wish to end early.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

/// Whether someone wants an end, as a descriptor that poll(2) can wait for.
#[derive(Debug)]
pub struct Interrupt {
    came: UnixStream,
    trigger: UnixStream,
    registered: Vec<SigId>,
}

/// What interrupts.
#[derive(Debug)]
pub struct Trigger(UnixStream);

impl Interrupt {
    /// One that only its [`Trigger`]s set off.
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub fn new() -> io::Result<Self> {
        let (came, trigger) = UnixStream::pair()?;
        Ok(Self {
            came,
            trigger,
            registered: Vec::new(),
        })
    }

    /// One that SIGINT, SIGTERM and SIGHUP set off instead of ending the process, while it lives.
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub fn by_signals() -> io::Result<Self> {
        let mut interrupt = Self::new()?;
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let id = pipe::register(signal, interrupt.trigger.try_clone()?)?;
            interrupt.registered.push(id);
        }
        Ok(interrupt)
    }

    /// Something that sets it off.
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub fn trigger(&self) -> io::Result<Trigger> {
        self.trigger.try_clone().map(Trigger)
    }

    /// Whether it was set off, which cannot be undone.
    #[must_use]
    pub fn came(&self) -> bool {
        let mut byte = [0];
        let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
        rustix::net::recv(&self.came, &mut byte, flags).is_ok_and(|(count, _)| count > 0)
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.came.as_fd()
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            unregister(id);
        }
    }
}

impl Trigger {
    /// Sets it off.
    pub fn pull(&self) {
        // A full socket has been set off already.
        let _ = (&self.0).write(&[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_set_off() {
        let interrupt = Interrupt::new().unwrap();
        assert!(!interrupt.came());
        interrupt.trigger().unwrap().pull();
        assert!(interrupt.came());
        assert!(interrupt.came());
    }
}

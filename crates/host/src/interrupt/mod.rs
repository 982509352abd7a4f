//! Requests to end early.
//!
//! An [`Interrupt`] is for work that stops at the first request: a measurement, a build. A session
//! that hands signals on to its guest has [`Signals`].

mod child;
mod signals;

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::proc::Procfs;
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::{pipe, unregister};

pub use child::{Ended, wait_for_child};
pub use signals::{Signals, is_termination};

/// Whether somebody wants an end, as a descriptor that poll(2) can wait for. It stays readable once
/// it is. Clones share what they watch.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    came: UnixStream,
    trigger: UnixStream,
    /// The signal that came last; 0 before any.
    signal: Arc<AtomicUsize>,
    registered: Vec<SigId>,
}

/// Sets an [`Interrupt`] off as SIGTERM would.
#[derive(Debug)]
pub struct Trigger {
    stream: UnixStream,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// One that only its [`Trigger`]s set off.
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub fn new() -> io::Result<Self> {
        Shared::new().map(|shared| Self(Arc::new(shared)))
    }

    /// One that SIGINT, SIGTERM, SIGQUIT and SIGHUP set off instead of ending the process, until
    /// the last clone is dropped. A SIGHUP that is ignored, as nohup(1) has it, stays so.
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub fn by_signals() -> io::Result<Self> {
        let mut shared = Shared::new()?;
        let ignored = Procfs::default().ignores(std::process::id(), SIGHUP);
        let hangup = (!ignored.unwrap_or(false)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM, SIGQUIT].into_iter().chain(hangup) {
            // Before the descriptor becomes readable: handlers run in the order of registration.
            let kept = flag::register_usize(signal, shared.signal.clone(), signal as usize)?;
            shared.registered.push(kept);
            let woken = pipe::register(signal, shared.trigger.try_clone()?)?;
            shared.registered.push(woken);
        }
        Ok(Self(Arc::new(shared)))
    }

    /// Something that sets it off.
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub fn trigger(&self) -> io::Result<Trigger> {
        Ok(Trigger {
            stream: self.0.trigger.try_clone()?,
            signal: self.0.signal.clone(),
        })
    }

    /// Whether it was set off, which cannot be undone.
    #[must_use]
    pub fn came(&self) -> bool {
        let mut byte = [0];
        let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
        rustix::net::recv(&self.0.came, &mut byte, flags).is_ok_and(|(count, _)| count > 0)
    }

    /// The signal that set it off, if one has.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        let signal = self.came().then(|| self.0.signal.load(Ordering::Acquire))?;
        i32::try_from(signal).ok()
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.came.as_fd()
    }
}

impl Shared {
    fn new() -> io::Result<Self> {
        let (came, trigger) = UnixStream::pair()?;
        Ok(Self {
            came,
            trigger,
            signal: Arc::default(),
            registered: Vec::new(),
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            unregister(id);
        }
    }
}

impl Trigger {
    /// Sets it off.
    pub fn pull(&self) {
        self.signal.store(SIGTERM as usize, Ordering::Release);
        // A full socket has been set off already.
        let _ = (&self.stream).write(&[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_set_off() {
        let interrupt = Interrupt::new().unwrap();
        assert!(!interrupt.came());
        assert_eq!(interrupt.signal(), None);
        let clone = interrupt.clone();
        interrupt.trigger().unwrap().pull();
        assert!(interrupt.came() && clone.came());
        assert!(interrupt.came());
        assert_eq!(interrupt.signal(), Some(SIGTERM));
    }

    #[test]
    fn the_signal_that_came_is_known() {
        let interrupt = Interrupt::by_signals().unwrap();
        signal_hook::low_level::raise(SIGQUIT).unwrap();
        assert_eq!(interrupt.signal(), Some(SIGQUIT));
    }
}

//! Waits for a child that the user may want to end.

use std::io;
use std::process::Child;
use std::time::{Duration, Instant};

use brisk_sys::wait_for;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::Interrupt;

/// End of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The child ended.
    Itself,
    /// The time was over.
    TooLate,
    /// The user interrupts; a signal to all may have ended the child, too.
    Interrupted,
}

/// Waits until a child ends, for so long at most.
pub fn wait_for_child(
    child: &Child,
    limit: Option<Duration>,
    interrupt: &Interrupt,
) -> io::Result<Ended> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let until = limit.and_then(|limit| Instant::now().checked_add(limit));
    let mut watched = [
        PollFd::new(&process, PollFlags::IN),
        PollFd::new(interrupt, PollFlags::IN),
    ];
    wait_for(&mut watched, until)?;
    let [process, interrupt] = watched.map(|fd| !fd.revents().is_empty());
    Ok(match (process, interrupt) {
        (_, true) => Ended::Interrupted,
        (true, false) => Ended::Itself,
        (false, false) => Ended::TooLate,
    })
}

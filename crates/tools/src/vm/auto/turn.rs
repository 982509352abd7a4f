//! One action on each of all guests, and how it ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use brisk_image::Control;

use crate::vm::error::Error;
use crate::vm::paths::VmPaths;

/// Interval at which a VM that another command works on is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// Action on a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Boot it.
    Start,
    /// Resume it from its image.
    Resume,
    /// Suspend it to its image.
    Suspend,
    /// Ask it to stop.
    Stop,
    /// End it.
    Kill,
}

impl Action {
    /// State of the guest after the action, in a word.
    #[must_use]
    pub const fn done(self) -> &'static str {
        match self {
            Self::Start => "started",
            Self::Resume => "resumed",
            Self::Suspend => "suspended",
            Self::Stop => "stopped",
            Self::Kill => "ended",
        }
    }
}

/// Result of an action on a guest.
#[derive(Debug)]
pub struct Outcome {
    /// Name of the VM; of a domain of libvirt with `libvirt:` before it.
    pub name: String,
    /// The action, and whether it succeeded; `None`: there was nothing to do.
    pub result: Result<Option<Action>, Error>,
    /// Time it took.
    pub took: Duration,
}

impl Outcome {
    /// Does what there is to do for one guest, and reports it.
    pub(super) fn of(
        name: String,
        turn: Turn<'_>,
        work: impl FnOnce() -> Result<Option<Action>, Error>,
    ) -> Self {
        let begun = Instant::now();
        let result = work();
        let outcome = Self {
            name,
            result,
            took: begun.elapsed(),
        };
        (turn.report)(&outcome);
        outcome
    }

    /// Sentence about what was done; none if nothing was.
    #[must_use]
    pub fn done(&self) -> Option<String> {
        let action = self.result.as_ref().ok().copied().flatten()?;
        let seconds = self.took.as_secs_f64();
        Some(format!(
            "{}: {} in {seconds:.1} s",
            self.name,
            action.done()
        ))
    }
}

/// Options of acting on all guests.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    /// Number of guests at once that are started, resumed or suspended.
    pub jobs: usize,
    /// If true, no action on another guest begins, and those that can be undone are undone.
    pub cancel: &'a AtomicBool,
    /// Called when an action has ended, by any thread.
    pub report: &'a (dyn Fn(&Outcome) + Sync),
}

impl Turn<'_> {
    pub(super) fn is_cancelled(self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}

impl<'a> Turn<'a> {
    pub(super) fn control(self) -> Control<'a> {
        Control {
            cancel: self.cancel,
            ..Control::none()
        }
    }
}

impl std::fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Turn({})", self.jobs)
    }
}

/// Decision about each VM, and its execution.
pub(super) struct Task<'a> {
    /// Finds out what there is to do.
    pub(super) decide: &'a (dyn Fn(&VmPaths) -> Result<Option<Action>, Error> + Sync),
    /// Does it.
    pub(super) act: &'a (dyn Fn(&VmPaths, Action) -> Result<(), Error> + Sync),
    /// Time from which another command that works on the VM is not waited for any more.
    pub(super) until: Option<Instant>,
}

impl Task<'_> {
    /// Waits while another command works on a VM: only then it is known what is to be done.
    pub(super) fn run(&self, paths: &VmPaths, turn: Turn<'_>) -> Result<Option<Action>, Error> {
        loop {
            let done = match (self.decide)(paths) {
                Ok(None) => return Ok(None),
                _ if turn.is_cancelled() => return Err(Error::Interrupted),
                Ok(Some(action)) => match (self.act)(paths, action) {
                    // It came to it by itself, or by another command.
                    Err(Error::State { .. }) if matches!((self.decide)(paths), Ok(None)) => {
                        return Ok(None);
                    }
                    done => done.map(|()| Some(action)),
                },
                Err(error) => Err(error),
            };
            match done {
                Err(error @ Error::Busy { .. }) => self.wait(error)?,
                done => return done,
            }
        }
    }

    /// Waits a moment for another command that works on the VM.
    fn wait(&self, error: Error) -> Result<(), Error> {
        match self.until {
            Some(until) if Instant::now() >= until => Err(error),
            _ => {
                thread::sleep(AGAIN);
                Ok(())
            }
        }
    }
}

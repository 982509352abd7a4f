//! `autostart` and `autostop`: all VMs at once, after the host has booted and before it shuts down.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use brisk_image::Control;
use brisk_vm::cache::Cache;

use super::carried;
use super::condition::Condition;
use super::definition::Autoshutdown;
use super::error::Error;
use super::lifecycle::{kill, start, stop};
use super::live::condition;
use super::paths::{StateDirs, VmPaths};
use super::process::is_there;
use super::resume::{How, resume};
use super::suspend::{Suspending, suspend};

/// Interval at which a VM that another command works on is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// Action on a VM.
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
    /// State of the VM after the action, in a word.
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

/// Result of an action on a VM.
#[derive(Debug)]
pub struct Outcome {
    /// Name of the VM.
    pub name: String,
    /// The action, and whether it succeeded; `None`: there was nothing to do.
    pub result: Result<Option<Action>, Error>,
    /// Time it took.
    pub took: Duration,
}

/// Options of acting on all VMs.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    /// Number of VMs at once.
    pub jobs: usize,
    /// If true, no action on another VM begins, and those that can be undone are undone.
    pub cancel: &'a AtomicBool,
    /// Called when an action has ended, by any thread.
    pub report: &'a (dyn Fn(&Outcome) + Sync),
}

impl std::fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Turn({})", self.jobs)
    }
}

/// Starts or resumes all VMs with `autoboot` that do not run, and resumes those that were suspended
/// because the host went down. A failure of one VM does not affect the others.
#[must_use]
pub fn autostart(dirs: &StateDirs, cache: &Cache, turn: Turn<'_>) -> Vec<Outcome> {
    let decide = |paths: &VmPaths| {
        let is_wanted = paths.definition()?.autoboot || carried::is_noted(paths);
        Ok(at_boot(is_wanted, condition(paths)?))
    };
    let act = |paths: &VmPaths, action| match action {
        Action::Resume => back(paths, cache, turn),
        _ => start(paths, cache, turn.cancel, &mut |_| {}),
    };
    each(dirs, turn, &decide, &act)
}

/// Suspends all running VMs whose `autoshutdown` is to suspend, before the host restarts. One that
/// cannot be suspended runs on.
#[must_use]
pub fn carry(dirs: &StateDirs, turn: Turn<'_>) -> Vec<Outcome> {
    let decide = |paths: &VmPaths| {
        let wanted = paths.definition().map(|it| it.autoshutdown);
        if !matches!(wanted, Ok(Autoshutdown::Suspend)) {
            return Ok(None);
        }
        Ok(at_shutdown(Autoshutdown::Suspend, condition(paths)?))
    };
    let act = |paths: &VmPaths, _| away(paths, turn);
    each(dirs, turn, &decide, &act)
}

/// Resumes all VMs that [`carry`] or [`autostop`] suspended.
#[must_use]
pub fn carry_back(dirs: &StateDirs, cache: &Cache, turn: Turn<'_>) -> Vec<Outcome> {
    let decide = |paths: &VmPaths| {
        let is_carried = carried::is_noted(paths) && condition(paths)? == Condition::Suspended;
        Ok(is_carried.then_some(Action::Resume))
    };
    let act = |paths: &VmPaths, _| back(paths, cache, turn);
    each(dirs, turn, &decide, &act)
}

/// Suspends a VM until the host is up again.
fn away(paths: &VmPaths, turn: Turn<'_>) -> Result<(), Error> {
    suspend(paths, Suspending::default(), control(turn))?;
    if let Err(error) = carried::note(paths) {
        paths.note(&format!(
            "VM will not be resumed with the host by itself: {error}"
        ));
    }
    Ok(())
}

/// Resumes a VM with the host.
fn back(paths: &VmPaths, cache: &Cache, turn: Turn<'_>) -> Result<(), Error> {
    // All of its memory first: no process has to stay with it.
    resume(paths, cache, &How::default(), control(turn))?;
    carried::forget(paths);
    Ok(())
}

/// Suspends, stops or ends all running VMs, each as its `autoshutdown` says. A VM that cannot be
/// suspended is stopped instead, which is reported as an error. Stopping may take `limit`.
#[must_use]
pub fn autostop(dirs: &StateDirs, cache: &Cache, limit: Duration, turn: Turn<'_>) -> Vec<Outcome> {
    let decide = |paths: &VmPaths| {
        let now = match condition(paths) {
            Err(error) if is_there(paths)? => return Err(error),
            // One whose definition is wrong, and that does nothing, is none of ours.
            Err(_) => Condition::Off,
            Ok(now) => now,
        };
        let wanted = paths.definition().map(|it| it.autoshutdown);
        Ok(at_shutdown(wanted.unwrap_or_default(), now))
    };
    let halt = |paths: &VmPaths| {
        if condition(paths).is_ok_and(|now| now == Condition::Paused) {
            resume(paths, cache, &How::default(), control(turn))?;
        }
        stop(paths, limit)
    };
    let act = |paths: &VmPaths, action| match action {
        Action::Suspend => match away(paths, turn) {
            Err(error) if runs(paths) && is_failure(&error) => {
                paths.note("VM is stopped, because it cannot be suspended");
                let then = match halt(paths) {
                    Ok(()) => "but stopped",
                    Err(_) => "and did not stop either",
                };
                Err(Error::NotSuspended {
                    then,
                    source: Box::new(error),
                })
            }
            other => other,
        },
        Action::Kill => kill(paths),
        _ => halt(paths),
    };
    each(dirs, turn, &decide, &act)
}

fn runs(paths: &VmPaths) -> bool {
    let now = condition(paths);
    !now.is_ok_and(|now| {
        matches!(
            now,
            Condition::Off | Condition::Suspended | Condition::Missing | Condition::CutOff
        )
    })
}

fn is_failure(error: &Error) -> bool {
    !matches!(error, Error::Busy { .. } | Error::Interrupted)
}

fn control(turn: Turn<'_>) -> Control<'_> {
    Control {
        cancel: turn.cancel,
        ..Control::none()
    }
}

fn at_boot(is_wanted: bool, now: Condition) -> Option<Action> {
    match now {
        _ if !is_wanted => None,
        // Which shows what is missing.
        Condition::Off | Condition::Missing | Condition::CutOff => Some(Action::Start),
        Condition::Suspended | Condition::Paused => Some(Action::Resume),
        Condition::Running | Condition::Busy => None,
    }
}

fn at_shutdown(wanted: Autoshutdown, now: Condition) -> Option<Action> {
    match (now, wanted) {
        (Condition::Off | Condition::Suspended | Condition::Missing | Condition::CutOff, _) => None,
        (_, Autoshutdown::Suspend) => Some(Action::Suspend),
        (_, Autoshutdown::Shutdown) => Some(Action::Stop),
        (_, Autoshutdown::Off) => Some(Action::Kill),
    }
}

type Decide<'a> = dyn Fn(&VmPaths) -> Result<Option<Action>, Error> + Sync + 'a;
type Act<'a> = dyn Fn(&VmPaths, Action) -> Result<(), Error> + Sync + 'a;

fn each(dirs: &StateDirs, turn: Turn<'_>, decide: &Decide<'_>, act: &Act<'_>) -> Vec<Outcome> {
    let names = dirs.names();
    let jobs = turn.jobs.clamp(1, names.len().max(1));
    let rest = Mutex::new(names.into_iter());
    let next = || rest.lock().unwrap_or_else(PoisonError::into_inner).next();
    let done = Mutex::new(Vec::new());
    let work = || {
        while let Some(name) = next() {
            let begun = Instant::now();
            let paths = dirs.vm(&name);
            let result = paths.and_then(|paths| patiently(&paths, turn, decide, act));
            let outcome = Outcome {
                name,
                result,
                took: begun.elapsed(),
            };
            (turn.report)(&outcome);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push(outcome);
        }
    };
    thread::scope(|scope| {
        for _ in 1..jobs {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by(|a, b| a.name.cmp(&b.name));
    done
}

/// Waits while another command works on a VM: only then it is known what is to be done.
fn patiently(
    paths: &VmPaths,
    turn: Turn<'_>,
    decide: &Decide<'_>,
    act: &Act<'_>,
) -> Result<Option<Action>, Error> {
    loop {
        let Some(action) = decide(paths)? else {
            return Ok(None);
        };
        if turn.cancel.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        match act(paths, action) {
            Err(Error::Busy { .. }) => thread::sleep(AGAIN),
            // It came to it by itself, or by another command.
            Err(Error::State { .. }) if decide(paths)?.is_none() => return Ok(None),
            other => return other.map(|()| Some(action)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Condition; 5] = [
        Condition::Off,
        Condition::Suspended,
        Condition::Running,
        Condition::Paused,
        Condition::Busy,
    ];

    #[test]
    fn machines_that_want_it_come_up() {
        assert_eq!(ALL.map(|now| at_boot(false, now)), [None; 5]);
        let (start, resume) = (Some(Action::Start), Some(Action::Resume));
        let actions = ALL.map(|now| at_boot(true, now));
        assert_eq!(actions, [start, resume, None, resume, None]);
    }

    #[test]
    fn machines_that_run_go_down_as_they_want() {
        for (wanted, action) in [
            (Autoshutdown::Suspend, Action::Suspend),
            (Autoshutdown::Shutdown, Action::Stop),
            (Autoshutdown::Off, Action::Kill),
        ] {
            let actions = ALL.map(|now| at_shutdown(wanted, now));
            let some = Some(action);
            assert_eq!(actions, [None, None, some, some, some]);
        }
    }
}

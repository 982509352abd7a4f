//! All guests before the host goes down: saved together under one deadline, or stopped.

use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use brisk_image::{Control, Progress};
use brisk_vm::cache::Cache;

use super::budget::{Load, saved_until};
use super::carried::{self, Before};
use super::domains::Domains;
use super::gate::Gate;
use super::turn::{Action, Outcome, Task, Turn};
use super::written;
use crate::reboot::restart::Keep;
use crate::vm::condition::Condition;
use crate::vm::definition::Autoshutdown;
use crate::vm::error::Error;
use crate::vm::lifecycle::{kill, stop};
use crate::vm::live::condition;
use crate::vm::paths::{StateDirs, VmPaths};
use crate::vm::process::is_there;
use crate::vm::resume::resume_standing;
use crate::vm::running::Running;
use crate::vm::suspend::{Suspending, suspend};
use brisk_host::chain;

/// Least time for a guest to stop: one that is asked for it has to be asked.
const LEAST: Duration = Duration::from_secs(1);

/// How guests go down.
#[derive(Debug, Clone, Copy)]
pub struct Down<'a> {
    /// Time for all of them together; `None`: as long as it takes.
    pub deadline: Option<Duration>,
    /// Time limit for one of them to stop, which is kept free before the deadline.
    pub stop: Duration,
    /// Domains of libvirt that go down, too.
    pub domains: &'a Domains,
    /// Whether memory is kept in RAM, of those VMs whose definition wants that.
    pub keep: Option<Keep>,
    /// Whether the host restarts such that memory which was kept in RAM stays there.
    pub ram_stays: bool,
}

/// Guests that are going down.
struct Descent<'a> {
    dirs: &'a StateDirs,
    down: Down<'a>,
    turn: Turn<'a>,
    begun: Instant,
    gate: Gate<'a>,
}

/// Suspends all running VMs whose `autoshutdown` is to suspend, and the domains, before the host
/// restarts. One that cannot be suspended, or not in time, runs on.
#[must_use]
pub fn carry(dirs: &StateDirs, down: Down<'_>, turn: Turn<'_>) -> Vec<Outcome> {
    // None of them stops, so there is no time to keep for that.
    let descent = Descent::new(dirs, down, turn, down.deadline);
    let decide = |paths: &VmPaths| {
        let definition = match paths.definition() {
            // What becomes of it is not known.
            Err(error) if is_there(paths)? => return Err(error),
            Err(_) => return Ok(None),
            Ok(definition) => definition,
        };
        if definition.autoshutdown != Autoshutdown::Suspend {
            return Ok(None);
        }
        let action = at_shutdown(Autoshutdown::Suspend, settled(paths)?);
        match action {
            Some(_) if !definition.suspend.host_key => Err(Error::state(
                &paths.name,
                "would not come back by itself: no key of this host opens its image (host-key = false)",
                "suspend or stop it first",
            )),
            action => Ok(action),
        }
    };
    let act = |paths: &VmPaths, _| descent.away(paths, carried::begin(paths)?);
    descent.all(&decide, &act, &|name| {
        down.domains.save(dirs, name, &descent.gate)
    })
}

/// Suspends, stops or ends all running VMs, each as its `autoshutdown` says, and suspends the
/// domains. One that cannot be suspended, or not in time, is stopped instead, which is reported as
/// an error. Without a cache, memory that is in RAM alone cannot be written.
#[must_use]
pub fn autostop(
    dirs: &StateDirs,
    cache: Option<&Cache>,
    down: Down<'_>,
    turn: Turn<'_>,
) -> Vec<Outcome> {
    let until = down
        .deadline
        .map(|deadline| saved_until(deadline, down.stop));
    let descent = Descent::new(dirs, down, turn, until);
    let decide = |paths: &VmPaths| {
        let now = match settled(paths) {
            Err(error @ Error::Busy { .. }) => return Err(error),
            Err(error) if is_there(paths)? => return Err(error),
            // One whose definition is wrong, and that does nothing, is none of ours.
            Err(_) => Condition::Off,
            Ok(now) => now,
        };
        if !down.ram_stays && now == Condition::Suspended && written::is_alone(paths)? {
            return Ok(Some(Action::Suspend));
        }
        let wanted = paths.definition().map(|it| it.autoshutdown);
        Ok(at_shutdown(wanted.unwrap_or_default(), now))
    };
    let halt = |paths: &VmPaths| {
        if condition(paths).is_ok_and(|now| now == Condition::Paused) {
            resume_standing(paths)?;
        }
        stop(paths, descent.time_to_stop())
    };
    let act = |paths: &VmPaths, action| match action {
        // Its memory is nowhere but in RAM, which goes off.
        Action::Suspend if written::is_alone(paths)? => written::write(paths, cache, turn),
        Action::Suspend => match descent.away_noted_or_not(paths) {
            Err(error) if runs(paths) && is_failure(&error) => {
                paths.note(&format!(
                    "VM is stopped, because it cannot be suspended: {}",
                    chain(&error)
                ));
                Err(instead(error, halt(paths)))
            }
            other => other,
        },
        Action::Kill => kill(paths),
        _ => match paths.definition() {
            Ok(_) => halt(paths),
            // It may be one that is to be suspended.
            Err(error) => Err(instead(error, halt(paths))),
        },
    };
    descent.all(&decide, &act, &|name| {
        let domains = down.domains;
        match domains.save(dirs, name, &descent.gate) {
            Err(error) if is_failure(&error) && domains.runs(name) => {
                let stopped = domains.stop(name, descent.time_to_stop());
                Err(instead(error, stopped))
            }
            other => other,
        }
    })
}

/// The error of a guest that could not be suspended and was to stop.
fn instead(error: Error, stopped: Result<(), Error>) -> Error {
    let then = match stopped {
        Ok(()) => "but stopped",
        Err(_) => "and did not stop either",
    };
    Error::NotSuspended {
        then,
        source: Box::new(error),
    }
}

impl<'a> Descent<'a> {
    fn new(dirs: &'a StateDirs, down: Down<'a>, turn: Turn<'a>, until: Option<Duration>) -> Self {
        let begun = Instant::now();
        Self {
            dirs,
            down,
            turn,
            begun,
            gate: Gate::new(begun, until, turn),
        }
    }

    /// Has each guest go down, in a thread of its own: those that stop only wait, and those that
    /// are suspended wait for each other.
    fn all(
        &self,
        decide: &(dyn Fn(&VmPaths) -> Result<Option<Action>, Error> + Sync),
        act: &(dyn Fn(&VmPaths, Action) -> Result<(), Error> + Sync),
        domain: &(dyn Fn(&str) -> Result<Option<Action>, Error> + Sync),
    ) -> Vec<Outcome> {
        let task = Task {
            decide,
            act,
            until: self.down.deadline.map(|deadline| self.begun + deadline),
        };
        let of_vm = |name: String| {
            let paths = self.dirs.vm(&name);
            Outcome::of(name, self.turn, || task.run(&paths?, self.turn))
        };
        let of_domain = |name: &str| {
            let label = Domains::label(name);
            Outcome::of(label, self.turn, || domain(name))
        };
        let done = Mutex::new(Vec::new());
        let note = |outcome| {
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push(outcome);
        };
        thread::scope(|scope| {
            let _open = self.gate.open();
            scope.spawn(|| self.gate.watch());
            let vms = self.dirs.names().into_iter().chain(self.dirs.undefined());
            let (of_vm, of_domain, note) = (&of_vm, &of_domain, &note);
            let mut guests: Vec<_> = vms
                .map(|name| scope.spawn(move || note(of_vm(name))))
                .collect();
            guests.extend(
                self.down
                    .domains
                    .names
                    .iter()
                    .map(|name| scope.spawn(move || note(of_domain(name)))),
            );
            for guest in guests {
                if let Err(panic) = guest.join() {
                    std::panic::resume_unwind(panic);
                }
            }
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by(|a, b| a.name.cmp(&b.name));
        done
    }

    /// Suspends a VM, also if that cannot be noted: its state is worth more than its being resumed
    /// by itself.
    fn away_noted_or_not(&self, paths: &VmPaths) -> Result<(), Error> {
        let error = match carried::begin(paths) {
            Ok(before) => return self.away(paths, before),
            Err(error) => error,
        };
        self.suspend(paths)?;
        if carried::note(paths).is_err() {
            paths.note(&format!(
                "VM will not be resumed with the host by itself: {}",
                chain(&error)
            ));
        }
        Ok(())
    }

    /// Suspends a VM until the host is up again, which was noted.
    fn away(&self, paths: &VmPaths, before: Before) -> Result<(), Error> {
        let suspended = self.suspend(paths);
        match &suspended {
            // If this cannot be written, what was noted before holds for it.
            Ok(()) => drop(carried::note(paths)),
            Err(error) => {
                let now = condition(paths).unwrap_or(Condition::Busy);
                match error {
                    Error::Busy { .. } => carried::take_back(paths, before),
                    // It stands still after a suspend that failed, or another command did it.
                    Error::State { .. } if now != Condition::Paused => {
                        carried::take_back(paths, before);
                    }
                    _ => carried::forget_begun(paths, now),
                }
            }
        }
        suspended
    }

    fn suspend(&self, paths: &VmPaths) -> Result<(), Error> {
        let keep = self.down.keep;
        let pass = self.gate.enter(load_of(paths, keep))?;
        let progress = |now: Progress| pass.did(now);
        let control = Control {
            progress: &progress,
            cancel: pass.cancel(),
        };
        let how = Suspending {
            keep,
            ..Suspending::default()
        };
        let suspended = suspend(paths, how, control);
        suspended.map(drop).map_err(|error| pass.explain(error))
    }

    /// Time that a guest has to stop, if it is asked now.
    fn time_to_stop(&self) -> Duration {
        let left = |deadline: Duration| deadline.saturating_sub(self.begun.elapsed());
        let left = self.down.deadline.map_or(Duration::MAX, left);
        self.down.stop.min(left).max(LEAST)
    }
}

/// Condition of a VM that no other command is about to change: one may be starting or resuming it.
///
/// # Errors
/// [`Error::Busy`] if there is such a command.
fn settled(paths: &VmPaths) -> Result<Condition, Error> {
    let now = condition(paths)?;
    if !is_away(now) {
        return Ok(now);
    }
    let _lock = match paths.lock("autostop") {
        // There is nothing of it.
        Err(Error::Unknown { .. }) => return Ok(now),
        lock => lock?,
    };
    condition(paths)
}

/// What there is to write of a VM's memory: what the host has of it, and nothing if it is kept in
/// RAM alone.
fn load_of(paths: &VmPaths, keep: Option<Keep>) -> Load {
    let limit = paths
        .definition()
        .ok()
        .and_then(|definition| definition.suspend.options().ok()?.limit);
    let stays = keep == Some(Keep::Alone)
        && paths
            .definition()
            .is_ok_and(|definition| matches!(paths.area(&definition), Ok(Some(_))));
    let bytes = Running::of(paths).map_or(0, |running| {
        if stays {
            return 0;
        }
        let size = running.machine.memory.mib << 20;
        let file = paths.open_memory(&running).ok();
        let taken = file.and_then(|file| Some(file.metadata().ok()?.blocks() * 512));
        // Not known of some file systems.
        taken
            .filter(|taken| *taken > 0)
            .map_or(size, |taken| taken.min(size))
    });
    Load {
        bytes,
        is_limited: limit.is_some(),
    }
}

fn runs(paths: &VmPaths) -> bool {
    !condition(paths).is_ok_and(is_away)
}

/// Whether there is nothing of it that goes down with the host.
fn is_away(now: Condition) -> bool {
    matches!(
        now,
        Condition::Off | Condition::Suspended | Condition::Missing | Condition::CutOff
    )
}

fn is_failure(error: &Error) -> bool {
    !matches!(error, Error::Busy { .. } | Error::Interrupted)
}

fn at_shutdown(wanted: Autoshutdown, now: Condition) -> Option<Action> {
    match (now, wanted) {
        (now, _) if is_away(now) => None,
        (_, Autoshutdown::Suspend) => Some(Action::Suspend),
        (_, Autoshutdown::Shutdown) => Some(Action::Stop),
        (_, Autoshutdown::Off) => Some(Action::Kill),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_run_go_down_as_they_want() {
        let all = [
            Condition::Off,
            Condition::Suspended,
            Condition::Running,
            Condition::Paused,
            Condition::Busy,
        ];
        for (wanted, action) in [
            (Autoshutdown::Suspend, Action::Suspend),
            (Autoshutdown::Shutdown, Action::Stop),
            (Autoshutdown::Off, Action::Kill),
        ] {
            let actions = all.map(|now| at_shutdown(wanted, now));
            let some = Some(action);
            assert_eq!(actions, [None, None, some, some, some]);
        }
    }
}

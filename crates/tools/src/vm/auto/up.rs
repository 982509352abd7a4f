//! All guests after the host has booted: those that were saved with it, and those that it starts.

use std::sync::{Mutex, PoisonError};
use std::thread;

use brisk_vm::cache::Cache;

use super::carried;
use super::domains::{Domains, Note};
use super::turn::{Action, Outcome, Task, Turn};
use crate::vm::condition::Condition;
use crate::vm::error::Error;
use crate::vm::lifecycle::{BOOT, start};
use crate::vm::live::condition;
use crate::vm::paths::{StateDirs, VmPaths};
use crate::vm::postcopy::{Postcopied, resume_postcopy};
use crate::vm::resume::{How, resume, unfit};
use crate::vm::suspend_record::{cut_off, image_missing};
use brisk_host::chain;

/// How guests come up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Up {
    /// Whether all memory of a VM is loaded before it runs, also where postcopy is possible.
    pub eager: bool,
}

/// Starts or resumes all VMs with `autoboot` that do not run, and resumes those, and domains of
/// libvirt, that were suspended because the host went down. A failure of one does not affect the
/// others.
#[must_use]
pub fn autostart(dirs: &StateDirs, cache: &Cache, up: Up, turn: Turn<'_>) -> Vec<Outcome> {
    let decide = |paths: &VmPaths| {
        let now = condition(paths)?;
        carried::forget_begun(paths, now);
        wanted(paths, now)
    };
    let act = |paths: &VmPaths, action| match action {
        Action::Resume => back(paths, cache, up, turn),
        _ => start(paths, cache, BOOT, turn.cancel, &mut |_| {}),
    };
    each(dirs, turn, &[], &decide, &act)
}

/// What [`autostart`] would do now, by name: an action, or why it would fail.
#[must_use]
pub fn foresee(dirs: &StateDirs, cache: &Cache) -> Vec<(String, Result<Action, String>)> {
    let of_vm = |name: &str| -> Result<Option<Action>, Error> {
        let paths = dirs.vm(name)?;
        let now = condition(&paths)?;
        let action = wanted(&paths, now)?;
        match (action, now) {
            (Some(_), Condition::Missing) => Err(image_missing(&paths)),
            (Some(_), Condition::CutOff) => Err(cut_off(&paths, &paths.definition()?)),
            (Some(Action::Resume), Condition::Suspended) => match unfit(&paths, cache) {
                Some(reason) => Err(Error::Reported(reason)),
                None => Ok(action),
            },
            _ => Ok(action),
        }
    };
    let vms = dirs.names().into_iter().filter_map(|name| {
        let action = of_vm(&name).map_err(|error| chain(&error)).transpose()?;
        Some((name, action))
    });
    let domains = Note::all(dirs).into_iter();
    let domains = domains.map(|note| (Domains::label(&note.name), Ok(Action::Resume)));
    vms.chain(domains).collect()
}

fn wanted(paths: &VmPaths, now: Condition) -> Result<Option<Action>, Error> {
    let is_wanted = paths.definition()?.autoboot || carried::is_noted(paths, now);
    Ok(at_boot(is_wanted, now))
}

/// Names of the VMs, and labels of the domains, that [`carry`](super::carry) or
/// [`autostop`](super::autostop) suspended, and that were not resumed.
#[must_use]
pub fn away(dirs: &StateDirs) -> Vec<String> {
    let is_away = |name: &String| {
        let is_carried = |paths: VmPaths| Ok(is_carried(&paths, condition(&paths)?));
        dirs.vm(name).and_then(is_carried).unwrap_or(false)
    };
    let vms = dirs.names().into_iter().filter(is_away);
    let domains = Note::all(dirs).into_iter();
    vms.chain(domains.map(|note| Domains::label(&note.name)))
        .collect()
}

fn is_carried(paths: &VmPaths, now: Condition) -> bool {
    let stands = matches!(now, Condition::Suspended | Condition::Paused);
    stands && carried::is_noted(paths, now)
}

/// Resumes all VMs and domains that [`carry`](super::carry) suspended; those of `others`, which are
/// [`away`] for another reason, stay.
#[must_use]
pub fn carry_back(
    dirs: &StateDirs,
    cache: &Cache,
    others: &[String],
    turn: Turn<'_>,
) -> Vec<Outcome> {
    let up = Up::default();
    let decide = |paths: &VmPaths| {
        let now = condition(paths)?;
        carried::forget_begun(paths, now);
        let is_wanted = is_carried(paths, now) && !others.contains(&paths.name);
        Ok(is_wanted.then_some(Action::Resume))
    };
    let act = |paths: &VmPaths, _| back(paths, cache, up, turn);
    each(dirs, turn, others, &decide, &act)
}

/// Resumes a VM with the host: it runs soon, and a process of its own serves its memory.
fn back(paths: &VmPaths, cache: &Cache, up: Up, turn: Turn<'_>) -> Result<(), Error> {
    let runs = !up.eager
        && match resume_postcopy(paths, turn.control())? {
            Postcopied::Runs(_) => true,
            // Its log says why.
            Postcopied::Unable(_) => false,
        };
    if !runs {
        resume(paths, cache, &How::default(), turn.control())?;
    }
    carried::forget(paths);
    Ok(())
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

/// A guest of either kind.
enum Guest {
    Vm(String),
    Domain(Note),
}

fn each(
    dirs: &StateDirs,
    turn: Turn<'_>,
    others: &[String],
    decide: &(dyn Fn(&VmPaths) -> Result<Option<Action>, Error> + Sync),
    act: &(dyn Fn(&VmPaths, Action) -> Result<(), Error> + Sync),
) -> Vec<Outcome> {
    let vms = dirs.names().into_iter().map(Guest::Vm);
    let domains = Note::all(dirs).into_iter();
    let domains = domains
        .filter(|note| !others.contains(&Domains::label(&note.name)))
        .map(Guest::Domain);
    let guests: Vec<_> = vms.chain(domains).collect();
    let jobs = turn.jobs.clamp(1, guests.len().max(1));
    let rest = Mutex::new(guests.into_iter());
    let next = || rest.lock().unwrap_or_else(PoisonError::into_inner).next();
    let done = Mutex::new(Vec::new());
    let task = Task {
        decide,
        act,
        until: None,
    };
    let work = || {
        while let Some(guest) = next() {
            let outcome = match guest {
                Guest::Vm(name) => {
                    let paths = dirs.vm(&name);
                    Outcome::of(name, turn, || task.run(&paths?, turn))
                }
                Guest::Domain(note) => Outcome::of(Domains::label(&note.name), turn, || {
                    if turn.is_cancelled() {
                        return Err(Error::Interrupted);
                    }
                    note.restore(dirs)
                }),
            };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_want_it_come_up() {
        let all = [
            Condition::Off,
            Condition::Suspended,
            Condition::Running,
            Condition::Paused,
            Condition::Busy,
        ];
        assert_eq!(all.map(|now| at_boot(false, now)), [None; 5]);
        let (start, resume) = (Some(Action::Start), Some(Action::Resume));
        let actions = all.map(|now| at_boot(true, now));
        assert_eq!(actions, [start, resume, None, resume, None]);
    }
}

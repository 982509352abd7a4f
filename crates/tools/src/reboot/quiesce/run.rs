//! Does what a plan says, and puts back what was done.

use super::action::Action;
use super::machine::Machine;
use super::record::{Progress, Record};

/// Something that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// An action begins.
    Begins(&'a Action),
    /// An action is done.
    Done(&'a Action),
    /// An action is about to be put back.
    PutsBack(&'a Action),
    /// An action was put back.
    Back(&'a Action),
}

/// Result of putting back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Undone {
    /// What could not be put back, each with the reason; the record still has these.
    pub lost: Vec<String>,
    /// Processes that were ended, and that nothing can put back.
    pub ended: Vec<String>,
}

/// Error of [`run`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A step failed.
    #[error("cannot {step}: {reason}")]
    Failed {
        /// The step.
        step: String,
        /// Why.
        reason: String,
        /// Result of putting back.
        undone: Undone,
    },
    /// A signal asked for the end.
    #[error("interrupted")]
    Interrupted {
        /// The signal.
        signal: i32,
        /// Result of putting back.
        undone: Undone,
    },
}

impl RunError {
    /// Result of putting back.
    #[must_use]
    pub fn undone(&self) -> &Undone {
        match self {
            Self::Failed { undone, .. } | Self::Interrupted { undone, .. } => undone,
        }
    }
}

/// Does the actions of a record, in order. Before each of them the record is saved. At the end each
/// has to be in effect still.
///
/// # Errors
/// If one fails, or a signal comes: then what was done is put back.
pub fn run(
    record: &mut Record,
    machine: &mut dyn Machine,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<(), RunError> {
    match attempt(record, machine, tell) {
        Ok(()) => Ok(()),
        Err((step, reason)) => {
            // Whatever a step says that was interrupted, that is why.
            let signal = machine.interrupted();
            let undone = undo(record, machine, tell);
            Err(match signal {
                Some(signal) => RunError::Interrupted { signal, undone },
                None => RunError::Failed {
                    step,
                    reason,
                    undone,
                },
            })
        }
    }
}

/// Step that failed, and why.
type Failure = (String, String);

fn attempt(
    record: &mut Record,
    machine: &mut dyn Machine,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<(), Failure> {
    const RECORD: &str = "write down what is done";
    let unsaved = |error: std::io::Error| (RECORD.to_owned(), error.to_string());
    for place in 0..record.entries.len() {
        let action = record.entries[place].step.clone();
        let failed = |reason: String| (action.to_string(), reason);
        if machine.interrupted().is_some() {
            return Err(failed("interrupted".to_owned()));
        }
        record.entries[place].progress = Progress::Begun;
        if let Err(error) = machine.save(record) {
            record.entries[place].progress = Progress::Planned;
            return Err(unsaved(error));
        }
        tell(Event::Begins(&action));
        machine.carry_out(&action).map_err(failed)?;
        if !machine.is_done(&action) {
            return Err(failed("it had no effect".to_owned()));
        }
        record.entries[place].progress = Progress::Done;
        tell(Event::Done(&action));
    }
    machine.save(record).map_err(unsaved)?;
    // Something else may have started a service or loaded a module again meanwhile.
    let mut done = record.entries.iter().map(|entry| &entry.step);
    match done.find(|action| !machine.is_done(action)) {
        Some(action) => Err((
            format!("keep to this: {action}"),
            "something else has put it back meanwhile".to_owned(),
        )),
        None if machine.interrupted().is_some() => Err((String::new(), String::new())),
        None => Ok(()),
    }
}

fn restore(
    action: &Action,
    machine: &mut dyn Machine,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<(), String> {
    tell(Event::PutsBack(action));
    machine.put_back(action)?;
    if !machine.is_back(action) {
        return Err("it had no effect".to_owned());
    }
    tell(Event::Back(action));
    Ok(())
}

/// Puts back what was done, the last first, as far as that is possible. An action that was begun is
/// put back as far as there is something to put back. Without loss the record is removed, else it
/// has what was lost, and undoing it again tries again.
pub fn undo(
    record: &mut Record,
    machine: &mut dyn Machine,
    tell: &mut dyn FnMut(Event<'_>),
) -> Undone {
    let mut undone = Undone::default();
    for place in (0..record.entries.len()).rev() {
        let entry = &record.entries[place];
        if matches!(entry.progress, Progress::Planned | Progress::Back) {
            continue;
        }
        let action = entry.step.clone();
        if !machine.is_back(&action) {
            if let Action::End { pid, name, .. } = &action {
                undone.ended.push(format!("{name} (PID {pid})"));
            } else if let Err(reason) = restore(&action, machine, tell) {
                undone.lost.push(format!("{action}: {reason}"));
                continue;
            }
        }
        record.entries[place].progress = Progress::Back;
        // An older record only has more in it, of which there is nothing to put back.
        let _ = machine.save(record);
    }
    let is_all_back = |record: &Record| {
        let mut entries = record.entries.iter();
        entries.all(|entry| matches!(entry.progress, Progress::Planned | Progress::Back))
    };
    let result = match is_all_back(record) {
        true => machine.forget(),
        false => machine.save(record),
    };
    if let Err(error) = result {
        undone
            .lost
            .push(format!("the record of what was done: {error}"));
    }
    undone
}

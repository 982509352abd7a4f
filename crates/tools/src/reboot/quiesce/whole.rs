//! Releasing and putting back as a part of something greater, such as a restart.

use std::path::Path;

use super::live::Live;
use super::lock::Lock;
use super::plan::Options;
use super::run::{Event, run, undo};
use crate::reboot::config::QuiesceConfig;
use brisk_host::interrupt::Interrupt;

/// Releases what there is to release; records are in `directory`. What an earlier process left half
/// done is put back first. Whether something was released before is no difference.
///
/// # Errors
/// Text of what stands against it, of what failed, and of what could not be put back after that.
pub fn release(
    directory: &Path,
    config: &QuiesceConfig,
    interrupt: Interrupt,
    tell: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let (_lock, mut live) = begin(directory, config, interrupt)?;
    let text = |error: &dyn std::error::Error| brisk_host::chain(error);
    let mut before = live.record().map_err(|error| text(&error))?;
    let mut plan = live.plan(config, Options::default());
    let is_whole = |plan: &super::plan::Plan| plan.steps.is_empty();
    if let Some(record) = &mut before {
        if record.is_complete() && plan.as_ref().is_ok_and(is_whole) {
            return Ok(());
        }
        whole(undo(record, &mut live, &mut |event| say(&event, tell)).lost)?;
        plan = live.plan(config, Options::default());
    }
    let plan = plan.map_err(|error| text(&error))?;
    let obstacles = plan.obstacles.iter();
    let obstacles: Vec<_> = obstacles
        .map(|one| format!("{} ({})", one.what, one.fix))
        .collect();
    whole(obstacles)?;
    if plan.steps.is_empty() {
        return Ok(());
    }
    let mut record = live.begin(&plan);
    let result = run(&mut record, &mut live, &mut |event| say(&event, tell));
    result.map_err(|error| {
        let lost = &error.undone().lost;
        let lost = lost.iter().map(|lost| format!("; not put back: {lost}"));
        format!("{error}{}", lost.collect::<String>())
    })
}

/// Puts back what [`release`] of this or an earlier process released; nothing, if there is nothing.
///
/// # Errors
/// Text of what could not be put back.
pub fn give_back(
    directory: &Path,
    config: &QuiesceConfig,
    tell: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let never = Interrupt::new().map_err(|error| error.to_string())?;
    let (_lock, mut live) = begin(directory, config, never)?;
    match live.record().map_err(|error| brisk_host::chain(&error))? {
        None => Ok(()),
        Some(mut record) => {
            whole(undo(&mut record, &mut live, &mut |event| say(&event, tell)).lost)
        }
    }
}

fn begin(
    directory: &Path,
    config: &QuiesceConfig,
    interrupt: Interrupt,
) -> Result<(Lock, Live), String> {
    let lock = Lock::take(directory)
        .map_err(|error| format!("cannot make a lock in {}: {error}", directory.display()))?
        .ok_or("another brisk releases graphics cards, or puts them back")?;
    let live = Live::new(directory, config.timeout, interrupt);
    Ok((lock, live.map_err(|error| brisk_host::chain(&error))?))
}

fn whole(reasons: Vec<String>) -> Result<(), String> {
    match reasons.is_empty() {
        true => Ok(()),
        false => Err(reasons.join("; ")),
    }
}

fn say(event: &Event<'_>, tell: &mut dyn FnMut(&str)) {
    match event {
        Event::Begins(_) | Event::PutsBack(_) => {}
        Event::Done(action) => tell(&format!("done: {action}")),
        Event::Back(action) => tell(&format!("undone: {action}")),
    }
}

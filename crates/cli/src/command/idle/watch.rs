//! Measures guests that run, and shows how far that is.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use brisk_host::interrupt::Interrupt;
use brisk_tools::idle::measure::{
    Exits, Guest, MeasureError, Measurement, Options, Phase, Progress, Recording, WINDOW, measure,
};

use super::causes::Causes;
use super::table;
use crate::ui::{Board, Ui};

/// How a measurement went.
#[derive(Debug)]
pub(super) struct Watched {
    /// What was measured, the most expensive guest first. If it was interrupted before a window was
    /// over, why there is nothing.
    pub(super) measurement: Result<Measurement, MeasureError>,
    /// The signal that ended it.
    pub(super) signal: Option<i32>,
}

/// Measures. Without a time in the options it goes on until a signal comes.
pub(super) fn watch(
    guests: &[Guest],
    options: &Options,
    causes: &Causes,
    ui: &Ui,
) -> anyhow::Result<Watched> {
    let interrupt = Interrupt::by_signals().context("cannot watch for signals")?;
    let board = ui.board();
    let is_live = options.time.is_none();
    let mut show = |progress: &Progress<'_>| show(&board, progress, causes, is_live);
    let measured = measure(Path::new("/"), guests, options, &interrupt, &mut show);
    drop(board);
    let signal = interrupt.signal();
    let measurement = match (measured, signal) {
        (Err(error), None) => return Err(error.into()),
        (measured, _) => measured.map(|mut measurement| {
            measurement.rank();
            measurement
        }),
    };
    Ok(Watched {
        measurement,
        signal,
    })
}

/// Shows the last window, and how far the measurement is.
fn show(board: &Board, progress: &Progress<'_>, causes: &Causes, is_live: bool) {
    if !board.is_shown() {
        return;
    }
    let recording = progress.recording;
    let windows = match progress.phase {
        Phase::Settling => &recording.settling,
        Phase::Measuring => &recording.measured,
    };
    let phase = match (progress.phase, is_live) {
        (Phase::Settling, _) => "waiting until it has settled",
        (Phase::Measuring, false) => "measuring; Ctrl-C prints what there is",
        (Phase::Measuring, true) => "measuring until Ctrl-C",
    };
    let limit = progress.limit.map(|limit| limit.as_secs());
    board.step(phase, progress.elapsed.as_secs(), limit);
    let Some(last) = windows.last() else {
        board.text(&format!(
            "the first window takes {} s",
            window(progress.limit).as_secs()
        ));
        return;
    };
    // Only the last window: the means come at the end.
    let now = Recording {
        guests: recording.guests.clone(),
        settling: Vec::new(),
        measured: vec![last.clone()],
        how: recording.how,
    };
    let exits = vec![Exits::unknown("counted at the end"); now.guests.len()];
    let mut measurement = now.result(&exits);
    measurement.rank();
    let likely = causes.likely(&measurement);
    board.text(&table::now(&measurement, &likely));
}

/// Length of a window.
fn window(limit: Option<Duration>) -> Duration {
    limit.map_or(WINDOW, |limit| limit.min(WINDOW))
}

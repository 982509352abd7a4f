//! Two configurations, booted in interleaved rounds.

use std::time::Duration;

use brisk_measure::CompareOptions;

use super::analyze::{Analysis, LogPatterns, analyze, summarize};
use super::bench::{BenchError, boot, outcome, unit};
use super::difference::Difference;
use super::observation::Ended;
use super::observe::Limits;
use super::ready_condition::Until;
use super::target::BootTarget;
use brisk_experiment::{Experiment, Order, Plan, Saved};
use brisk_host::interrupt::Interrupt;

/// A configuration.
#[derive(Debug)]
pub struct Side<'a> {
    /// Name in the report.
    pub name: &'a str,
    /// The boot that is measured.
    pub plain: &'a BootTarget,
    /// With its trace on, to explain the difference; none where there is none.
    pub traced: Option<&'a BootTarget>,
}

/// How often, and how far.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Pairs of boots that count.
    pub runs: u32,
    /// Pairs before them.
    pub warmups: u32,
    /// Traced boots of each side, for the explanation.
    pub traces: u32,
    /// Where the measured time ends.
    pub until: Until,
    /// How long one boot may take.
    pub timeout: Duration,
}

/// Boots both sides in interleaved rounds, into two series of the report and a comparison; then
/// traced, for the explanation: the difference of the boots with the median time. `progress` is
/// called with the number of rounds that were made, traced ones included.
///
/// # Errors
/// If a VM cannot be started at all, the report not be saved, or the user interrupts.
pub fn compare(
    sides: &[Side<'_>; 2],
    settings: Settings,
    patterns: &LogPatterns,
    mut saved: Saved<'_>,
    progress: &mut dyn FnMut(u32),
) -> Result<Option<Difference>, BenchError> {
    let clock = sides[0].plain.clock();
    let interrupt = Interrupt::by_signals().map_err(BenchError::Watch)?;
    let limits = |keep, until| Limits {
        until,
        timeout: settings.timeout,
        keep,
    };
    let names = sides.each_ref().map(|side| side.name);
    let plan = Plan::new(names, settings.runs).warmups(settings.warmups);
    Experiment::new(&plan, &interrupt)
        .on_round(|round| progress(round.done))
        .run(&mut saved, |turn, readings| {
            let side = sides[turn.side].plain;
            let pass = boot(side, limits(false, settings.until), &interrupt)?;
            readings.put("", unit(clock), outcome(&pass, clock, settings.until)?);
            Ok::<_, BenchError>(())
        })?;
    let found = plan.comparisons(&saved.report.series, "", 0, &CompareOptions::default());
    saved.report.comparisons.extend(found);
    let mut analyses: [Vec<Analysis>; 2] = Default::default();
    let before = plan.most_rounds();
    let traces = Plan::new(names, settings.traces).order(Order::Fixed);
    Experiment::new(&traces, &interrupt)
        .on_round(|round| progress(before + round.done))
        .run(&mut saved, |turn, _| {
            let Some(traced) = sides[turn.side].traced else {
                return Ok(());
            };
            let pass = boot(traced, limits(true, Until::Exit), &interrupt)?;
            match pass.ended {
                Ended::Reached => {
                    analyses[turn.side].push(analyze(&pass.observation, patterns));
                }
                Ended::Interrupted(signal) => return Err(BenchError::Interrupted(signal)),
                Ended::Failed(_) | Ended::TimedOut => {}
            }
            Ok(())
        })?;
    saved.report.warn();
    let [a, b] = analyses.map(|analyses| median(&analyses));
    Ok(a.zip(b)
        .and_then(|(a, b)| Difference::of(&a.timeline, &b.timeline).ok()))
}

fn median(analyses: &[Analysis]) -> Option<Analysis> {
    let index = summarize(analyses).median?;
    analyses.get(index).cloned()
}

//! Two configurations, booted by turns.

use std::time::Duration;

use brisk_measure::{CompareOptions, Comparison, Pairing, Phase, Report, Series, Statistic, turns};

use super::analyze::{Analysis, LogPatterns, analyze, summarize};
use super::bench::{BenchError, boot, sample, unit};
use super::difference::Difference;
use super::observe::{Ended, Limits};
use super::ready_condition::Until;
use super::target::BootTarget;
use crate::interrupt::Interrupt;

/// A configuration.
#[derive(Debug)]
pub struct Side<'a> {
    /// Name in the report.
    pub name: &'a str,
    /// As it is measured.
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

/// Boots both sides by turns, into two series of the report and a comparison; then traced, for
/// the explanation: the difference of the boots with the median time.
///
/// # Errors
/// If a machine cannot be started at all, the report not be saved, or the user interrupts.
pub fn compare(
    sides: &[Side<'_>; 2],
    settings: Settings,
    markers: &LogPatterns,
    report: &mut Report,
    after: &mut dyn FnMut(&Report, u32) -> Result<(), BenchError>,
) -> Result<Option<Difference>, BenchError> {
    let clock = sides[0].plain.clock();
    let interrupt = Interrupt::by_signals().map_err(BenchError::Watch)?;
    let limits = |keep, until| Limits {
        until,
        timeout: settings.timeout,
        keep,
    };
    let mut done = 0;
    for index in 0..settings.warmups + settings.runs {
        let (phase, iteration) = match index.checked_sub(settings.warmups) {
            None => (Phase::Warmup, index),
            Some(iteration) => (Phase::Measured, iteration),
        };
        for side in turns(0, index, sides.len())
            .into_iter()
            .map(|turn| &sides[turn])
        {
            let pass = boot(side.plain, limits(false, settings.until), &interrupt)?;
            let sample = sample(&pass, clock, settings.until, iteration, phase)?;
            report.series_mut(side.name, unit(clock)).push(sample);
        }
        done += 1;
        after(report, done)?;
    }
    if let [Some(a), Some(b)] = sides.each_ref().map(|side| report.series(side.name)) {
        let comparison = Comparison::of(a, b, &CompareOptions::default());
        report.comparisons.push(comparison);
    }
    let mut analyses: [Vec<Analysis>; 2] = Default::default();
    for _ in 0..settings.traces {
        for (side, analyses) in sides.iter().zip(&mut analyses) {
            let Some(traced) = side.traced else { continue };
            let pass = boot(traced, limits(true, Until::Exit), &interrupt)?;
            match pass.ended {
                Ended::Reached => analyses.push(analyze(&pass.observation, markers)),
                Ended::Interrupted(signal) => return Err(BenchError::Interrupted(signal)),
                Ended::Failed(_) | Ended::TimedOut => {}
            }
        }
        done += 1;
        after(report, done)?;
    }
    report.warn();
    let [a, b] = analyses.map(|analyses| median(&analyses));
    Ok(a.zip(b)
        .and_then(|(a, b)| Difference::of(&a.timeline, &b.timeline).ok()))
}

fn median(analyses: &[Analysis]) -> Option<Analysis> {
    let index = summarize(analyses).median?;
    analyses.get(index).cloned()
}

/// Compares what two reports measured: the first series of the first that the second has, too,
/// or else the first of each. Their runs were not made by turns.
#[must_use]
pub fn of_reports(a: &Report, b: &Report) -> Option<(Series, Series, Comparison)> {
    let common = a.series.iter().find_map(|s| Some((s, b.series(&s.name)?)));
    let (one, other) = common.or_else(|| a.series.first().zip(b.series.first()))?;
    let (mut one, mut other) = (one.clone(), other.clone());
    if one.name == other.name {
        one.name = format!("A: {}", one.name);
        other.name = format!("B: {}", other.name);
    }
    let options = CompareOptions {
        pairing: Pairing::Independent,
        statistic: Statistic::Median,
        noise_floor: None,
    };
    let comparison = Comparison::of(&one, &other, &options);
    Some((one, other, comparison))
}

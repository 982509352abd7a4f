//! Benchmark of boots.

use std::time::Duration;

use brisk_measure::{Clock, Outcome, Series, Unit};
use brisk_vm::cache::Cache;
use brisk_vm::qemu::Accelerator;

use super::observation::Ended;
use super::observation::Observation;
use super::observe::{Limits, Pass, READY, observe};
use super::ready_condition::Until;
use super::running_vm::ASKED;
use super::target::{BootTarget, Guest};
use crate::guest::{Error, Options};
use crate::run::Milestone;
use brisk_experiment::{Experiment, Plan, Progress, Readings, Saved, Stopped};
use brisk_host::interrupt::Interrupt;

/// How often, and how far.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Boots that count.
    pub runs: u32,
    /// Boots before them.
    pub warmups: u32,
    /// Where the measured time ends.
    pub until: Until,
    /// How long one may take.
    pub timeout: Duration,
}

/// Why measuring stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The guest could not be started.
    #[error(transparent)]
    Start(#[from] Error),
    /// Its channels failed.
    #[error("the guest and brisk lost each other")]
    Watch(#[source] std::io::Error),
    /// The report could not be saved.
    #[error(transparent)]
    Save(#[from] brisk_measure::ReportError),
    /// The user does not want to go on.
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
    /// What was asked for cannot be measured.
    #[error("{0}")]
    Unfit(String),
}

impl From<Stopped<Self>> for BenchError {
    fn from(stopped: Stopped<Self>) -> Self {
        match stopped {
            Stopped::Interrupted(signal) => Self::Interrupted(signal),
            Stopped::Save(error) => Self::Save(error),
            Stopped::Run(error) => error,
        }
    }
}

/// The name of the series.
#[must_use]
pub fn series_name(subject: &BootTarget, until: Until) -> String {
    format!("{} to {}", subject.beginning(), until.name())
}

/// Boots once; a failed boot is a sample, too.
pub(crate) fn boot(
    subject: &BootTarget,
    limits: Limits,
    interrupt: &Interrupt,
) -> Result<Pass, BenchError> {
    let mut interrupted = None;
    let entry = subject.entry(limits.until)?;
    let breakpoint = entry.map(|entry| entry.address);
    let started = subject.start(breakpoint.is_some(), &mut || {
        interrupted = interrupted.or_else(|| interrupt.signal());
        interrupted.is_some()
    });
    if let Some(signal) = interrupted {
        return Err(BenchError::Interrupted(signal));
    }
    let (machine, executed) = started?;
    observe(machine, breakpoint, executed, limits, interrupt).map_err(BenchError::Watch)
}

/// A guest's options for boots whose instructions are counted; none where they cannot be, or are
/// not the same in every boot.
pub(crate) fn countable(subject: &BootTarget) -> Option<Options> {
    let BootTarget::Guest(guest) = subject else {
        return None;
    };
    let emulated = guest.facts().accelerator.0 == Accelerator::Tcg;
    (emulated && subject.indeterminate().is_empty()).then(|| Options {
        instructions: true,
        ..guest.options.clone()
    })
}

/// Instructions of a boot of the same guest; none where they cannot be counted, or are not the
/// same in every boot.
pub(crate) fn count(
    subject: &BootTarget,
    limits: Limits,
    cache: &Cache,
    interrupt: &Interrupt,
) -> Result<Option<f64>, BenchError> {
    let Some(options) = countable(subject) else {
        return Ok(None);
    };
    let subject = BootTarget::Guest(Box::new(Guest::prepare(options, cache, &mut |_| {})?));
    let until = match limits.until {
        Until::Kernel => Until::Init,
        until => until,
    };
    let pass = boot(&subject, Limits { until, ..limits }, interrupt)?;
    Ok(match pass.ended {
        Ended::Interrupted(signal) => return Err(BenchError::Interrupted(signal)),
        Ended::Reached => value(&pass.observation, Clock::Instructions, until),
        Ended::Failed(_) | Ended::TimedOut => None,
    })
}

/// Boots `settings.warmups + settings.runs` times into the report's series, unless the first boots
/// all fail; `progress` is called after each boot.
///
/// # Errors
/// If the guest cannot be started at all, the report not be saved, or the user interrupts.
pub fn bench(
    subject: &BootTarget,
    settings: Settings,
    mut saved: Saved<'_>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(), BenchError> {
    let interrupt = Interrupt::by_signals().map_err(BenchError::Watch)?;
    let limits = Limits {
        until: settings.until,
        timeout: settings.timeout,
        keep: false,
    };
    let clock = subject.clock();
    let name = series_name(subject, settings.until);
    // There is one side only: its series have the names of what is measured.
    let plan = Plan::new([""], settings.runs).warmups(settings.warmups);
    Experiment::new(&plan, &interrupt)
        .until(|record| record.is_hopeless(0, &name))
        .on_round(progress)
        .run(&mut saved, |_, readings| {
            let pass = boot(subject, limits, &interrupt)?;
            let outcome = outcome(&pass, clock, settings.until)?;
            let usable = matches!(outcome, Outcome::Ok { .. });
            readings.put(name.as_str(), unit(clock), outcome);
            if usable {
                of_libvirt(&pass.observation, readings);
            }
            Ok::<_, BenchError>(())
        })?;
    let report = saved.report;
    if clock == Clock::Instructions {
        let proof = proof(
            report.series_mut(&name, unit(clock)),
            &subject.indeterminate(),
        );
        report.notes.push(proof);
    }
    if let Some(entry) = subject.entry(settings.until)? {
        report.notes.push(format!(
            "counted until the kernel's first instruction in protected mode, its {} at {:#x}",
            entry.name, entry.address
        ));
    }
    report.notes.extend(subject.endpoints());
    report.warn();
    Ok(())
}

/// When QEMU's process began and when the guest ran, where libvirt had to start them first.
fn of_libvirt(observation: &Observation, readings: &mut Readings) {
    if observation.moment(ASKED).is_none() {
        return;
    }
    for (moment, name) in [
        (Milestone::Exec, "virsh start to QEMU's process"),
        (Milestone::QemuUp, "virsh start to the guest runs"),
    ] {
        if let Some(nanos) = observation.moment(moment.name()) {
            readings.put(name, unit(Clock::HostMonotonic), nanos as f64 / 1e9);
        }
    }
}

/// The unit of a clock's measurements.
#[must_use]
pub fn unit(clock: Clock) -> Unit {
    clock.unit().0
}

/// What one boot measured, or how it failed.
pub(crate) fn outcome(pass: &Pass, clock: Clock, until: Until) -> Result<Outcome, BenchError> {
    let failed = |reason: &str| Outcome::Failed {
        reason: reason.to_owned(),
    };
    Ok(match &pass.ended {
        Ended::Interrupted(signal) => return Err(BenchError::Interrupted(*signal)),
        Ended::TimedOut => Outcome::TimedOut,
        Ended::Failed(reason) => failed(reason),
        Ended::Reached => value(&pass.observation, clock, until)
            .map_or_else(|| failed("the guest did not send the time"), Outcome::from),
    })
}

/// From the execution of QEMU (or, in instructions, power-on) to the end, in the clock's unit.
#[must_use]
pub fn value(observation: &Observation, clock: Clock, until: Until) -> Option<f64> {
    if clock == Clock::Instructions {
        return instructions(observation, until).map(|count| count as f64);
    }
    let guest = |moment: Milestone| {
        let stamp = observation.stamp(moment.name())? as i64;
        u64::try_from(stamp + observation.guest_offset?).ok()
    };
    let nanos = match until {
        Until::Kernel => observation.moment(Milestone::Kernel.name()),
        Until::Init => guest(Milestone::Init),
        Until::Ready => observation
            .moment(READY)
            .or_else(|| guest(Milestone::CommandStart)),
        Until::Exit => observation.moment(Milestone::QemuGone.name()),
    };
    nanos.map(|nanos| nanos as f64 / 1e9)
}

/// What QEMU counted until the kernel was entered; the counter at init's start, and from there the
/// guest's clock, which is the same one.
fn instructions(observation: &Observation, until: Until) -> Option<u64> {
    if until == Until::Kernel {
        return observation.entered;
    }
    let cycles = observation.cycles?;
    let init = observation.stamp(Milestone::Init.name())?;
    let moment = match until {
        Until::Kernel | Until::Init => return Some(cycles),
        Until::Ready => Milestone::CommandStart,
        Until::Exit => Milestone::CommandEnd,
    };
    let later = observation.stamp(moment.name())?;
    Some(cycles + later.checked_sub(init)?)
}

/// What the samples say about being the same every time.
fn proof(series: &Series, indeterminate: &[String]) -> String {
    let values: Vec<u64> = series
        .samples
        .iter()
        .filter(|sample| matches!(sample.outcome, Outcome::Ok { .. }))
        .filter_map(|sample| sample.value())
        .map(|value| value as u64)
        .collect();
    let mut distinct = values.clone();
    distinct.sort_unstable();
    distinct.dedup();
    match distinct.as_slice() {
        [] => "deterministic: unknown, no boot succeeded".into(),
        [one] => format!(
            "deterministic: {} boots, 1 distinct value: {one} instructions",
            values.len()
        ),
        [first, .., last] => {
            let why = if indeterminate.is_empty() {
                "nothing in the configuration explains it".to_owned()
            } else {
                indeterminate.join("; ")
            };
            format!(
                "not deterministic: {} boots, {} distinct values from {first} to {last} \
                 instructions ({why})",
                values.len(),
                distinct.len()
            )
        }
    }
}

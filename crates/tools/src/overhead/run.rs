//! Runs the targets in turn.

use std::collections::BTreeMap;
use std::io;

use brisk_measure::{CompareOptions, ReportError, Unit};

use super::instance::{Instance, Run, RunError};
use super::judgement::judge;
use super::metrics::{CPU, OWN, PARTS, SWAPPED, TIME};
use super::plan::{HOST, Options, names, plan, sides};
use super::session::{Patience, SessionError};
use super::target::Target;
use super::workload::Workload;
use crate::experiment::{Experiment, Progress, Readings, Saved, Stopped, Turn};
use crate::interrupt::Interrupt;

/// Starts of a target that fail before it is given up.
const STARTS: u32 = 2;

/// A measurement that came to no end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverheadError {
    /// The workload does not run on the host itself, with which the others are compared.
    #[error("the workload fails on the host")]
    Host(#[source] RunError),
    /// The system does not let brisk wait for signals.
    #[error("cannot wait for signals")]
    Signals(#[source] io::Error),
    /// The report cannot be saved.
    #[error(transparent)]
    Save(#[from] ReportError),
    /// The user interrupts.
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
}

impl From<Stopped<Self>> for OverheadError {
    fn from(stopped: Stopped<Self>) -> Self {
        match stopped {
            Stopped::Interrupted(signal) => Self::Interrupted(signal),
            Stopped::Save(error) => Self::Save(error),
            Stopped::Run(error) => error,
        }
    }
}

/// How far a measurement is.
#[derive(Debug)]
pub enum Step<'a> {
    /// A target is being started.
    Starts(&'a str),
    /// A round was made.
    Round(&'a Progress),
}

/// Facts that targets say of themselves, by the name of the target.
type Facts = BTreeMap<String, BTreeMap<String, String>>;

/// A target, and what is known of it.
struct Slot {
    target: Target,
    instance: Option<Instance>,
    failed_starts: u32,
    /// Why it does not run.
    reason: String,
}

/// Everything that the turns need.
struct Bench<'a> {
    slots: Vec<Slot>,
    workload: &'a Workload,
    options: &'a Options,
    interrupt: &'a Interrupt,
    /// Hashes of what the host makes.
    proofs: BTreeMap<String, String>,
    facts: Facts,
}

/// Starts all targets and runs the workload in each, in rounds. The report has all samples and the
/// comparisons with the host.
///
/// # Errors
/// If the workload fails on the host, the report cannot be saved, or the user interrupts. What was
/// measured before is in the report. A target that fails is a reading that failed.
pub fn run(
    targets: &[Target],
    workload: &Workload,
    options: &Options,
    saved: &mut Saved<'_>,
    step: &mut dyn FnMut(Step<'_>),
) -> Result<(), OverheadError> {
    let interrupt = Interrupt::by_signals().map_err(OverheadError::Signals)?;
    let plan = plan(targets, options);
    let mut bench = Bench {
        slots: sides(targets).into_iter().map(Slot::new).collect(),
        workload,
        options,
        interrupt: &interrupt,
        proofs: BTreeMap::new(),
        facts: Facts::new(),
    };
    let prepared = bench.prepare(step);
    let ended = prepared.and_then(|()| {
        let experiment = Experiment::new(&plan, &interrupt);
        let experiment = experiment.on_round(|progress| step(Step::Round(progress)));
        let ended = experiment.run(saved, |turn, readings| {
            bench.turn(turn, readings);
            Ok::<_, OverheadError>(())
        });
        Ok(ended.map(drop)?)
    });
    let report = &mut *saved.report;
    for (target, facts) in &bench.facts {
        let known = facts.iter();
        let known = known.map(|(name, value)| (format!("{target}: {name}"), value.clone()));
        report.environment.extra.extend(known);
    }
    let compare = CompareOptions::default();
    let compared = plan.comparisons(&report.series, TIME, HOST, &compare);
    report.comparisons.extend(compared);
    for judged in judge(report, &names(targets)) {
        report.notes.extend(judged.lines());
    }
    report.warn();
    ended
}

impl Slot {
    fn new(target: Target) -> Self {
        Self {
            target,
            instance: None,
            failed_starts: 0,
            reason: String::new(),
        }
    }
}

impl<'a> Bench<'a> {
    fn patience(&self) -> Patience<'a> {
        Patience {
            interrupt: self.interrupt,
            time: self.options.timeout,
        }
    }

    /// Starts all targets, and runs the host once for the hashes that all others must have.
    fn prepare(&mut self, step: &mut dyn FnMut(Step<'_>)) -> Result<(), OverheadError> {
        for side in 0..self.slots.len() {
            step(Step::Starts(&self.slots[side].target.name));
            let started = self.start(side);
            if let Some(signal) = self.interrupt.signal() {
                return Err(OverheadError::Interrupted(signal));
            }
            if side != HOST {
                // A target that cannot be started is one that failed.
                continue;
            }
            started.map_err(OverheadError::Host)?;
            let patience = self.patience();
            let host = self.slots[HOST].instance.as_mut();
            let first = host.map(|host| host.run(self.workload, patience));
            match first {
                Some(Ok(run)) => self.proofs = run.proofs,
                Some(Err(error)) => match self.interrupt.signal() {
                    Some(signal) => return Err(OverheadError::Interrupted(signal)),
                    None => return Err(OverheadError::Host(error)),
                },
                None => {}
            }
        }
        Ok(())
    }

    fn start(&mut self, side: usize) -> Result<(), RunError> {
        let kind = &self.slots[side].target.kind;
        let started = Instance::start(kind, &self.options.cpus, self.workload, self.patience());
        let slot = &mut self.slots[side];
        match started {
            Ok(instance) => {
                self.facts
                    .insert(slot.target.name.clone(), instance.facts.clone());
                slot.instance = Some(instance);
                Ok(())
            }
            Err(error) => {
                slot.failed_starts += 1;
                slot.reason = crate::chain(&error);
                Err(error)
            }
        }
    }

    /// Runs one side once.
    fn turn(&mut self, turn: Turn, readings: &mut Readings) {
        let lost = |instance: &Instance| instance.is_lost();
        if self.slots[turn.side].instance.as_ref().is_none_or(lost) {
            self.slots[turn.side].instance = None;
            if self.slots[turn.side].failed_starts < STARTS {
                // Its reason is in the slot.
                let _ = self.start(turn.side);
            }
        }
        let patience = self.patience();
        let slot = &mut self.slots[turn.side];
        let result = match &mut slot.instance {
            Some(instance) => instance.run(self.workload, patience),
            None => return failed(&slot.reason, readings),
        };
        match result.and_then(|run| self.compared(run)) {
            Ok(run) => put(&run, readings),
            // The engine sees the signal.
            Err(RunError::Session(SessionError::Interrupted)) => {}
            Err(error) => failed(&crate::chain(&error), readings),
        }
    }

    /// A run whose work is that of the host.
    fn compared(&self, run: Run) -> Result<Run, RunError> {
        let differs = |(name, hash): &(&String, &String)| run.proofs.get(*name) != Some(*hash);
        match self.proofs.iter().find(differs) {
            Some((name, _)) => Err(RunError::Object(name.clone())),
            None => Ok(run),
        }
    }
}

fn put(run: &Run, readings: &mut Readings) {
    let account = &run.account;
    readings.put(TIME, Unit::Seconds, run.wall.as_secs_f64());
    readings.put(CPU, Unit::Seconds, account.cpu());
    let parts = [
        Some(account.guest),
        Some(account.user),
        Some(account.system),
        account.waiting,
        account.idle,
        account.steal,
        Some(account.rest()),
    ];
    for (name, value) in PARTS.into_iter().zip(parts) {
        if let Some(value) = value {
            readings.put(name, Unit::Seconds, value);
        }
    }
    if let Some(pages) = run.swapped {
        readings.put(SWAPPED, Unit::Count, pages as f64);
    }
    if let Some(own) = run.own {
        readings.put(OWN, Unit::Seconds, own);
    }
}

fn failed(reason: &str, readings: &mut Readings) {
    for metric in [TIME, CPU] {
        readings.put(metric, Unit::Seconds, Err::<f64, _>(reason.to_owned()));
    }
}

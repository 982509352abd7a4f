//! Runs the targets in turn.

use std::cell::RefCell;
use std::collections::BTreeMap;

use brisk_measure::{CompareOptions, Report, ReportError, Sample, Unit, Warning};

use super::answer::answers;
use super::continued::{CONCLUSIONS, changed};
use super::disturbance::{disturbance, untimed};
use super::explain::explain;
use super::instance::{Instance, Run, RunError};
use super::judgement::{Judged, judge, lines};
use super::memory;
use super::metrics::{COUNTS, CPU, DISTURBED, OFF, OWN, PARTS, SPEED, SWAPPED, TIME};
use super::plan::{Options, is_settled, plan};
use super::report::{changes, too_short};
use super::session::Patience;
use super::session_error::SessionError;
use super::sides::{HOST, Side, names};
use super::workload::Workload;
use brisk_experiment::{Experiment, Progress, Readings, Record, Saved, Stopped, Turn};
use brisk_host::affinity::time_of_a_loop;
use brisk_host::interrupt::Interrupt;

/// How long each operation is measured for an explanation, milliseconds.
const TIME_OF_AN_OPERATION: u32 = 50;

/// Starts of a target that fail before it is given up.
const STARTS: u32 = 2;

/// A measurement that came to no end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverheadError {
    /// The workload does not run on the host itself, with which the others are compared.
    #[error("the workload fails on the host")]
    Host(#[source] RunError),
    /// A target is another one than in the rounds before.
    #[error(
        "target {target} has another {fact} than in the rounds before: {now}, and {before} then; \
         begin a new report"
    )]
    Changed {
        /// The target.
        target: String,
        /// Name of the fact.
        fact: String,
        /// In the rounds before.
        before: String,
        /// What it has now.
        now: String,
    },
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
    /// The costs of single operations are measured in a target.
    Probes(&'a str),
    /// The workload runs in a target.
    Runs(&'a str),
    /// A target fails for the first time: its name, and why.
    Fails(&'a str, &'a str),
    /// A round was made.
    Round(&'a Progress),
}

/// Facts that targets say of themselves, by the name of the target.
type Facts = BTreeMap<String, BTreeMap<String, String>>;

/// A target, and what is known of it.
struct Slot {
    side: Side,
    instance: Option<Instance>,
    failed_starts: u32,
    /// Whether a run of it has failed before.
    has_failed: bool,
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
    sides: &[Side],
    workload: &Workload,
    options: &Options,
    interrupt: &Interrupt,
    saved: &mut Saved<'_>,
    step: &mut dyn FnMut(Step<'_>),
) -> Result<(), OverheadError> {
    let plan = plan(sides, options);
    let mut bench = Bench {
        slots: sides.iter().cloned().map(Slot::new).collect(),
        workload,
        options,
        interrupt,
        proofs: BTreeMap::new(),
        facts: Facts::new(),
    };
    let prepared = bench.prepare(step);
    let prepared = prepared.and_then(|()| {
        let before = &saved.report.environment.extra;
        bench
            .facts
            .iter()
            .try_for_each(|(target, facts)| changed(before, target, facts))
    });
    // Each save has them: an interrupted measurement goes on with the same targets alone.
    let is_known = prepared.is_ok();
    if is_known {
        bench.describe(saved.report);
    }
    let prepared = prepared.and_then(|()| bench.explain(saved.report, step));
    let ended = prepared.and_then(|()| {
        let experiment = Experiment::new(&plan, interrupt);
        let is_enough = |record: &Record<'_>| {
            options
                .precision
                .is_some_and(|precision| is_settled(sides, precision, record))
        };
        let step = RefCell::new(&mut *step);
        let experiment = experiment
            .until(is_enough)
            .on_round(|progress| (step.borrow_mut())(Step::Round(progress)));
        let ended = experiment.run(saved, |turn, readings| {
            let name = bench.slots[turn.side].side.name.clone();
            (step.borrow_mut())(Step::Runs(&name));
            if let Some(reason) = bench.turn(turn, readings) {
                (step.borrow_mut())(Step::Fails(&name, &reason));
            }
            Ok::<_, OverheadError>(())
        });
        Ok(ended.map(drop)?)
    });
    // Before the rounds and after them, for what changed meanwhile.
    let ended = ended.and_then(|()| bench.explain(saved.report, step));
    let report = &mut *saved.report;
    // Those of other targets would pass for the ones that were measured.
    if is_known {
        bench.describe(report);
    }
    let compare = CompareOptions::default();
    let all = names(sides);
    for metric in workload.compared() {
        let compared = plan.comparisons(&report.series, metric, HOST, &compare);
        // Those of a target that is too short for its lines would be of their errors.
        let suffix = format!(": {metric}");
        let is_known = |side: &str| metric != TIME || too_short(report, &all[HOST], side).is_none();
        let compared: Vec<_> = compared
            .into_iter()
            .filter(|one| one.b.strip_suffix(&suffix).is_none_or(is_known))
            .collect();
        report.comparisons.extend(compared);
    }
    let judged = judge(report, &names(sides));
    report.notes.extend(lines(&judged));
    // What a probe takes as a whole is chosen.
    let answers = match workload {
        Workload::Probe { .. } => Vec::new(),
        _ => answers(report, sides, &judged),
    };
    conclude(report, sides, &judged, answers);
    warn(report);
    ended
}

/// Puts what follows from the samples into the report, beside the facts of each target: whether it is
/// comparable, what its change is worth, and where its loss comes from.
fn conclude(
    report: &mut Report,
    sides: &[Side],
    judged: &[Judged],
    answers: Vec<(String, String)>,
) {
    let [verdict, against, loss, answer] = CONCLUSIONS;
    let mut facts = BTreeMap::new();
    for one in judged {
        facts.insert(
            format!("{}{verdict}", one.name),
            one.comparable.name().to_owned(),
        );
    }
    for change in changes(report, sides) {
        facts.insert(format!("{}{against}", change.name), change.text());
    }
    for one in explain(report, &names(sides)) {
        facts.insert(format!("{}{loss}", one.name), one.text());
    }
    for (name, text) in answers {
        facts.insert(format!("{name}{answer}"), text);
    }
    report.environment.extra.extend(facts);
}

/// Adds warnings about times. Parts of accounts are medians of little, and vary.
fn warn(report: &mut Report) {
    let suffix = format!(": {TIME}");
    let all = std::mem::take(&mut report.series);
    let times = all.iter().filter(|series| series.name.ends_with(&suffix));
    report.series = times.cloned().collect();
    report.warn();
    report.series = all;
    // The answers say it, and so do the runs that failed or were dropped.
    report.warnings.retain(|warning| {
        let is_said = matches!(
            warning,
            Warning::NoiseFloorAboveDifference { .. }
                | Warning::RunsFailed { .. }
                | Warning::FewRuns { .. }
        );
        !is_said
    });
}

impl Slot {
    fn new(side: Side) -> Self {
        Self {
            side,
            instance: None,
            failed_starts: 0,
            has_failed: false,
            reason: String::new(),
        }
    }
}

impl<'a> Bench<'a> {
    /// Puts what targets say of themselves into the report.
    fn describe(&self, report: &mut Report) {
        for (target, facts) in &self.facts {
            let known = facts.iter();
            let known = known.map(|(name, value)| (format!("{target}: {name}"), value.clone()));
            report.environment.extra.extend(known);
        }
    }

    fn patience(&self) -> Patience<'a> {
        Patience {
            interrupt: self.interrupt,
            time: self.options.timeout,
        }
    }

    /// Starts all targets, and runs the host once for the hashes that all others must have.
    fn prepare(&mut self, step: &mut dyn FnMut(Step<'_>)) -> Result<(), OverheadError> {
        for side in 0..self.slots.len() {
            // It is started for each run: two of them may be the same guest.
            if self.slots[side].side.trial.is_some() {
                continue;
            }
            step(Step::Starts(&self.slots[side].side.name));
            let started = self.start(side);
            if let Some(signal) = self.interrupt.signal() {
                return Err(OverheadError::Interrupted(signal));
            }
            if side != HOST {
                // A target that cannot be started is one that failed.
                if started.is_err() {
                    let slot = &mut self.slots[side];
                    slot.has_failed = true;
                    step(Step::Fails(&slot.side.name, &slot.reason));
                }
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
        let entrant = &self.slots[side].side;
        let limit = memory::share(self.slots.len());
        let cpus = &self.options.cpus;
        let started = Instance::start(entrant, cpus, limit, self.workload, self.patience());
        let slot = &mut self.slots[side];
        match started {
            Ok(instance) => {
                self.facts
                    .insert(slot.side.name.clone(), instance.facts.clone());
                slot.instance = Some(instance);
                Ok(())
            }
            Err(error) => {
                slot.failed_starts += 1;
                slot.reason = brisk_host::chain(&error);
                Err(error)
            }
        }
    }

    /// Measures in each target what single operations cost, if that is wanted.
    fn explain(
        &mut self,
        report: &mut Report,
        step: &mut dyn FnMut(Step<'_>),
    ) -> Result<(), OverheadError> {
        if !self.options.explains {
            return Ok(());
        }
        let patience = self.patience();
        for slot in &mut self.slots {
            let name = &slot.side.name;
            let Some(instance) = slot.instance.as_mut().filter(|one| !one.is_lost()) else {
                continue;
            };
            step(Step::Probes(name));
            match instance.probe(TIME_OF_AN_OPERATION, patience) {
                Ok(figures) => {
                    self.facts
                        .entry(name.clone())
                        .or_default()
                        .extend(figures.reasons());
                    for (operation, nanoseconds) in figures.medians {
                        let series = format!("{name}: {operation}");
                        let series = report.series_mut(&series, Unit::Seconds);
                        let number = series.samples.len().try_into().unwrap_or(u32::MAX);
                        series.push(Sample::measured(number, nanoseconds * 1e-9));
                    }
                }
                Err(error) => {
                    if let Some(signal) = self.interrupt.signal() {
                        return Err(OverheadError::Interrupted(signal));
                    }
                    let facts = self.facts.entry(name.clone()).or_default();
                    facts.insert("costs of operations".into(), brisk_host::chain(&error));
                }
            }
        }
        Ok(())
    }

    /// Runs one side once. The reason if it failed for the first time.
    fn turn(&mut self, turn: Turn, readings: &mut Readings) -> Option<String> {
        let reason = self.tried(turn, readings);
        let slot = &mut self.slots[turn.side];
        if slot.side.trial.is_some() {
            slot.instance = None;
        }
        let reason = reason?;
        failed(&reason, readings);
        (!std::mem::replace(&mut slot.has_failed, true)).then_some(reason)
    }

    /// Runs one side once. The reason if it failed.
    fn tried(&mut self, turn: Turn, readings: &mut Readings) -> Option<String> {
        let lost = |instance: &Instance| instance.is_lost();
        if self.slots[turn.side].instance.as_ref().is_none_or(lost) {
            self.slots[turn.side].instance = None;
            if self.slots[turn.side].failed_starts < STARTS {
                // Its reason is in the slot.
                let _ = self.start(turn.side);
            }
        }
        let patience = self.patience();
        if let Some(Ok(time)) = self.options.cpus.first().map(|cpu| time_of_a_loop(*cpu)) {
            readings.put(SPEED, Unit::Seconds, time.as_secs_f64());
        }
        let slot = &mut self.slots[turn.side];
        let result = match &mut slot.instance {
            Some(instance) => instance.run(self.workload, patience),
            None => return Some(slot.reason.clone()),
        };
        match result.and_then(|run| self.compared(run)) {
            Ok(run) => {
                put(&run, self.options.keeps_disturbed, readings);
                // What could be measured as it started may not be later: huge pages run out.
                let name = self.slots[turn.side].side.name.clone();
                let facts = self.facts.entry(name).or_default();
                facts.extend(run.figures.reasons());
                None
            }
            // The engine sees the signal.
            Err(RunError::Session(SessionError::Interrupted)) => None,
            Err(error) => Some(brisk_host::chain(&error)),
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

fn put(run: &Run, keeps_disturbed: bool, readings: &mut Readings) {
    let account = run.account.as_ref();
    let disturbed = account.and_then(disturbance).filter(|_| !keeps_disturbed);
    match (run.taken.time.map(|time| time.as_secs_f64()), disturbed) {
        (None, _) => readings.put(TIME, Unit::Seconds, Err::<f64, _>(untimed())),
        (Some(time), None) => readings.put(TIME, Unit::Seconds, time),
        (Some(time), Some(reason)) => {
            readings.put(TIME, Unit::Seconds, Err::<f64, _>(reason));
            readings.put(DISTURBED, Unit::Seconds, time);
        }
    }
    if let Some(off) = run.taken.off {
        readings.put(OFF, Unit::Seconds, off.as_secs_f64());
    }
    if let Some(account) = account {
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
    }
    if let Some(pages) = run.swapped {
        readings.put(SWAPPED, Unit::Count, pages as f64);
    }
    for (name, count) in COUNTS.into_iter().zip(run.counts) {
        if let Some(count) = count {
            readings.put(name, Unit::Count, count as f64);
        }
    }
    if let Some(own) = run.own {
        readings.put(OWN, Unit::Seconds, own);
    }
    for (operation, nanoseconds) in &run.figures.medians {
        readings.put(operation, Unit::Seconds, nanoseconds * 1e-9);
    }
}

fn failed(reason: &str, readings: &mut Readings) {
    for metric in [TIME, CPU] {
        readings.put(metric, Unit::Seconds, Err::<f64, _>(reason.to_owned()));
    }
}

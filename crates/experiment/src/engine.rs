//! Carries a plan out.

use std::time::{Duration, Instant};

use brisk_measure::{ReportError, Sample};

use super::plan::{Plan, Turn};
use super::readings::Readings;
use super::record::Record;
use super::store::Store;
use brisk_host::interrupt::Interrupt;

/// Why an experiment came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All rounds were made.
    AllRounds,
    /// The stopping rule ended it.
    Settled,
    /// The time is used up.
    OutOfTime,
}

/// Why an experiment came to no end. What was measured before is in the store, which was saved.
#[derive(Debug, thiserror::Error)]
pub enum Stopped<E> {
    /// The user does not want to go on.
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
    /// What was measured could not be kept.
    #[error(transparent)]
    Save(#[from] ReportError),
    /// A side could not be run.
    #[error("{0}")]
    Run(E),
}

/// How far an experiment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Rounds that were made, warm-ups included.
    pub done: u32,
    /// Rounds at most.
    pub rounds: u32,
    /// How long they took.
    pub elapsed: Duration,
}

impl Progress {
    /// How long the others will take, if all are made and each takes as long.
    #[must_use]
    pub fn rest(&self) -> Duration {
        let left = self.rounds.saturating_sub(self.done);
        self.elapsed / self.done.max(1) * left
    }
}

type Rule<'a> = dyn FnMut(&Record<'_>) -> bool + 'a;

/// A plan that is to be carried out.
pub struct Experiment<'a> {
    plan: &'a Plan,
    interrupt: &'a Interrupt,
    until: Box<Rule<'a>>,
    on_round: Box<dyn FnMut(&Progress) + 'a>,
}

impl std::fmt::Debug for Experiment<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Experiment");
        shown.field("plan", self.plan).finish_non_exhaustive()
    }
}

impl<'a> Experiment<'a> {
    /// All rounds of a plan, unless it is interrupted.
    #[must_use]
    pub fn new(plan: &'a Plan, interrupt: &'a Interrupt) -> Self {
        Self {
            plan,
            interrupt,
            until: Box::new(|_| false),
            on_round: Box::new(|_| {}),
        }
    }

    /// It ends when `rule`, which is asked after each round, says so.
    #[must_use]
    pub fn until(mut self, rule: impl FnMut(&Record<'_>) -> bool + 'a) -> Self {
        self.until = Box::new(rule);
        self
    }

    /// `progress` is called after each round, when that is saved.
    #[must_use]
    pub fn on_round(mut self, progress: impl FnMut(&Progress) + 'a) -> Self {
        self.on_round = Box::new(progress);
        self
    }

    /// Makes the rounds. `run` runs one side once and puts down what it gave. What a run that was
    /// interrupted gave is not kept, since the signal may have ended what was measured, too.
    ///
    /// # Errors
    /// If `run` fails, which ends the experiment at once; if the store cannot be saved; or if the
    /// user interrupts.
    pub fn run<E>(
        mut self,
        store: &mut dyn Store,
        mut run: impl FnMut(Turn, &mut Readings) -> Result<(), E>,
    ) -> Result<End, Stopped<E>> {
        let begun = Instant::now();
        if let Some(seed) = self.plan.order_seed() {
            store.note_seed(seed);
        }
        for round in 0..self.plan.most_rounds() {
            for turn in self.plan.turns(round) {
                if let Err(stopped) = self.turn(turn, store, &mut run) {
                    // What ended it is the better reason, should the file not be written either.
                    let _ = store.save();
                    return Err(stopped);
                }
            }
            store.save()?;
            let progress = Progress {
                done: round + 1,
                rounds: self.plan.most_rounds(),
                elapsed: begun.elapsed(),
            };
            (self.on_round)(&progress);
            if (self.until)(&Record::new(self.plan, store.series(), progress.done)) {
                return Ok(End::Settled);
            }
            if self.plan.is_out_of_time(progress.elapsed) {
                return Ok(End::OutOfTime);
            }
        }
        Ok(End::AllRounds)
    }

    fn turn<E>(
        &self,
        turn: Turn,
        store: &mut dyn Store,
        run: &mut dyn FnMut(Turn, &mut Readings) -> Result<(), E>,
    ) -> Result<(), Stopped<E>> {
        self.go_on()?;
        let mut readings = Readings::default();
        let result = run(turn, &mut readings);
        self.go_on()?;
        for reading in readings {
            let sample = Sample {
                iteration: turn.iteration,
                phase: turn.phase,
                outcome: reading.outcome,
            };
            let name = self.plan.series_name(turn.side, &reading.metric);
            store.push(&name, reading.unit, sample);
        }
        result.map_err(Stopped::Run)
    }

    fn go_on<E>(&self) -> Result<(), Stopped<E>> {
        self.interrupt
            .signal()
            .map_or(Ok(()), |signal| Err(Stopped::Interrupted(signal)))
    }
}

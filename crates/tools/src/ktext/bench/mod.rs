//! What replication changes for single operations of the kernel: RedHawk's table, with replication on
//! and off by turns in one boot.
//!
//! On the live machine it is their time; in an emulated one the number of instructions, which says what
//! replication costs and nothing of what it gains.

mod live;
mod place;
mod run;
mod summary;

use std::time::Duration;

use brisk_measure::{ReportError, Unit};

pub use place::{Place, PlaceError};
pub use run::{Emulated, emulated, has_copies, live};
pub use summary::{Row, bars, rows, text};

use super::emulated::EmulationError;
use super::source::SourceError;
use super::switch::SwitchError;
use super::worker::{Operation, WorkerError};
use brisk_experiment::Stopped;

/// Sides of the comparison: replication off, on, and off once more, which shows the noise.
pub(super) const OFF: usize = 0;
pub(super) const ON: usize = 1;
pub(super) const AGAIN: usize = 2;
pub(super) const SIDES: [&str; 3] = ["off", "on", "off again"];

/// Caches at the beginning of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Caches {
    /// As the operation before leaves them.
    Hot,
    /// Flushed at each system call, by the module `ktext_cold`.
    Cold,
}

impl Caches {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::Cold => "cold",
        }
    }
}

/// Name of the metric of an operation.
pub(super) fn metric(operation: Operation, caches: Caches) -> String {
    match caches {
        Caches::Hot => operation.name().to_owned(),
        Caches::Cold => format!("{} {}", operation.name(), caches.name()),
    }
}

/// What a figure is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Time by the clock of the machine.
    Time,
    /// Instructions of all CPUs.
    Instructions,
}

impl Quantity {
    pub(super) const fn unit(self) -> Unit {
        match self {
            Self::Time => Unit::Seconds,
            Self::Instructions => Unit::Instructions,
        }
    }

    /// The figure of an answer: nanoseconds and ticks.
    pub(super) fn of(self, numbers: &[f64]) -> Option<f64> {
        let [nanoseconds, ticks] = numbers[..] else {
            return None;
        };
        Some(match self {
            Self::Time => nanoseconds * 1e-9,
            Self::Instructions => ticks,
        })
    }
}

/// How to measure.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which operations.
    pub operations: Vec<Operation>,
    /// Rounds that count.
    pub rounds: u32,
    /// Seed of the order in each round.
    pub seed: u64,
    /// Time for a step at most.
    pub limit: Duration,
}

/// Why nothing was measured, or not all.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The emulated machine.
    #[error(transparent)]
    Emulation(EmulationError),
    /// The kernel's files cannot be used.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Replication cannot be switched.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// No CPU is of use.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The program that does the operations.
    #[error("cannot run the program that does the operations")]
    Program(#[source] std::io::Error),
    /// Another measurement runs.
    #[error("another brisk ktext bench switches replication on this machine: wait for its end")]
    Busy,
    /// The module that flushes caches goes on.
    #[error("cannot write /sys/module/ktext_cold/parameters/pid, and caches go on to be flushed")]
    Caches(#[source] std::io::Error),
    /// There is not enough memory for the load.
    #[error(
        "the memory load takes {} MiB, and {} MiB are available: --no-load leaves it out",
        needed >> 20, available >> 20
    )]
    Memory {
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that are available.
        available: u64,
    },
    /// It has ended.
    #[error("the program that does the operations ended by itself")]
    Ended,
    /// It does not answer.
    #[error("\"{step}\" took more than {} s", limit.as_secs())]
    Hangs {
        /// What it was to do.
        step: String,
        /// The limit.
        limit: Duration,
    },
    /// It refuses.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// The report cannot be saved.
    #[error(transparent)]
    Save(#[from] ReportError),
    /// The user interrupts.
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
}

impl From<EmulationError> for BenchError {
    fn from(error: EmulationError) -> Self {
        match error {
            EmulationError::Interrupted(signal) => Self::Interrupted(signal),
            error => Self::Emulation(error),
        }
    }
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

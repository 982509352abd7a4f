//! Comparisons by measurement: the engine for everything that is measured in rounds.
//!
//! A [`Plan`] names the sides, how many rounds there are and in which order the sides take their
//! turns. An [`Experiment`] carries the plan out: in each round each side runs once, warm-up rounds
//! first. One run gives [`Readings`], one for each metric; a run that fails is a reading, too. A
//! [`Store`] holds all samples; [`Saved`] writes its report after each round, so that an
//! interrupted experiment loses nothing that was measured. The rounds end when the plan has no
//! more, its time is used up, or a stopping rule says so, such as [`Narrow`]. [`Plan::comparisons`]
//! then compares the sides, with the noise floor of a side that the plan has twice.
//!
//! Everything but [`Experiment`] and [`Saved`] is pure.
//!
//! # Example
//!
//! Two programs, the first of them twice, with two metrics each run. It ends when the ratio of
//! their times is known to 1 %, or to half of what a program differs from itself:
//!
//! ```
//! use std::time::Instant;
//!
//! use brisk_measure::{CompareOptions, Environment, Report, Unit};
//! use brisk_experiment::{Experiment, Narrow, Plan, Saved};
//! use brisk_host::interrupt::Interrupt;
//!
//! # fn program(side: usize) -> Result<u64, String> { Ok(40 + side as u64) }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let file = dir.path().join("report.json");
//! const OLD: usize = 0;
//! const AGAIN: usize = 1;
//! const NEW: usize = 2;
//!
//! let plan = Plan::new(["old", "old again", "new"], 15)
//!     .warmups(1)
//!     .repeats(AGAIN, OLD)
//!     .seed(20_261_125);
//! let narrow = Narrow {
//!     metric: "time".into(),
//!     base: OLD,
//!     subject: NEW,
//!     repeat: Some(AGAIN),
//!     half_width: 0.01,
//! };
//! let mut report = Report::new("example", "2026-11-25T00:00:00Z", Environment::default());
//! let interrupt = Interrupt::by_signals()?;
//! Experiment::new(&plan, &interrupt)
//!     .until(|record| narrow.is_reached(record))
//!     .on_round(|progress| println!("round {} of {}", progress.done, progress.rounds))
//!     .run(&mut Saved::new(&mut report, &file), |turn, readings| {
//!         let begun = Instant::now();
//!         let bytes = program(turn.side);
//!         readings.put("time", Unit::Seconds, begun.elapsed().as_secs_f64());
//!         // A program that fails is a sample that failed; an error would end the experiment.
//!         readings.put("memory", Unit::Bytes, bytes.map(|bytes| bytes as f64));
//!         Ok::<_, std::io::Error>(())
//!     })?;
//! for metric in ["time", "memory"] {
//!     let options = CompareOptions::default();
//!     let found = plan.comparisons(&report.series, metric, OLD, &options);
//!     report.comparisons.extend(found);
//! }
//! report.warn();
//! report.save(&file)?;
//! assert_eq!(report.comparisons[0].b, "new: time");
//! # Ok(())
//! # }
//! ```

mod engine;
pub mod environment;
mod plan;
mod readings;
mod record;
mod reports;
mod stop;
mod store;

pub use engine::{End, Experiment, Progress, Stopped};
pub use plan::{Naming, Order, Plan, Side, Turn};
pub use readings::{Reading, Readings};
pub use record::Record;
pub use reports::compare_reports;
pub use stop::Narrow;
pub use store::{Saved, Store};

#[cfg(test)]
mod tests;

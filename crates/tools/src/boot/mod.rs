//! Boots: measured, explained and tuned.
//!
//! An [`observation`] is the record of one boot. Everything else is computed from observations:
//! [`analyze`] shows where the time of a boot goes.

pub mod analyze;
pub mod bench;
pub mod compare;
pub mod difference;
pub mod domain;
mod failure_context;
pub mod observation;
mod observe;
pub mod passes;
pub mod range;
pub mod ready_condition;
mod running_vm;
pub mod target;
pub mod tune;

pub use difference::{Difference, Incomparable};
pub use observation::{Observation, Piece, TimedEvent};

//! Boots measured, explained and tuned.
//!
//! An [`observation`] is one boot as it was seen. Everything else is made from observations.

pub mod difference;
pub mod observation;
pub mod range;

pub use difference::{Difference, Incomparable};
pub use observation::{Happening, Observation, Piece};

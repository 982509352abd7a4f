//! Boots measured, explained and tuned.
//!
//! An [`observation`] is one boot as it was seen. Everything else is made from observations:
//! [`analyze`] says where its time went.

pub mod analyze;
pub mod observation;

pub use observation::{Happening, Observation, Piece};

//! Boots measured, explained and tuned.
//!
//! An [`observation`] is one boot as it was seen. Everything else is made from observations:
//! [`analyze`] says where its time went.

pub mod analyze;
pub mod bench;
pub mod compare;
pub mod difference;
pub mod domain;
mod machine;
pub mod marker;
pub mod observation;
mod observe;
pub mod passes;
pub mod range;
pub mod subject;
pub mod tune;
mod words;

pub use difference::{Difference, Incomparable};
pub use observation::{Happening, Observation, Piece};

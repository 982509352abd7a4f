//! What makes boots slow or impossible on this machine, and what to do about each.
//!
//! [`facts`] looks, [`findings`] judges.

mod command;
mod domain;
mod facts;
mod findings;

pub use command::Line;
pub use facts::{Facts, Kvm, gather};
pub use findings::{Finding, Severity, findings};

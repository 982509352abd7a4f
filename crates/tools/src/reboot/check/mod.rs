//! Whether a machine can be restarted without its firmware, before anything is stopped.
//!
//! [`Machine::read`] and [`Images::read`] gather facts, rules judge them, and a trial load of the
//! real files is the last rule.

mod consequence;
mod hardware;
mod images;
mod judgement;
pub mod machine;
mod preflight;
mod report;
mod rules;
#[cfg(test)]
mod tests;
mod trial;

pub use consequence::{Consequence, Verdict};
pub use images::{Defect, Images, Initrd, KernelImage, Unsupported};
pub use machine::Machine;
pub use preflight::Preflight;
pub use report::{SCHEMA, json, text};
pub use rules::descriptions;
pub use trial::Trial;

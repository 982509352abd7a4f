//! Whether a machine could gain from replication of the kernel's text: on any kernel, from `/proc` and
//! `/sys` alone.
//!
//! [`Machine::read`] gathers facts, and rules judge them. What a machine gains is not foreseen: that
//! has to be measured.

mod consequence;
mod cost;
mod machine;
mod nodes;
mod processors;
mod report;
mod rules;
#[cfg(test)]
mod tests;

pub use consequence::{Consequence, Verdict};
pub use cost::Cost;
pub use machine::{Image, Machine, Replication};
pub use nodes::Node;
pub use processors::{Kind, Processors};
pub use report::{SCHEMA, json, text};
pub use rules::descriptions;

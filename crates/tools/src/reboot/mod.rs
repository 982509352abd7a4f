//! Restarts a machine into a kernel without its firmware.

pub mod check;
pub mod config;
mod device;
pub mod load;
pub mod plan;
pub mod quiesce;
pub mod rehearse;
pub mod restart;
mod target;

pub use plan::{Plan, plan};
pub use target::Target;

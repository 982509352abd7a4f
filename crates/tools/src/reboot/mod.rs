//! Restarts a machine into a kernel without its firmware.

pub mod check;
pub mod load;
mod target;

pub use target::Target;

//! Restarts a machine into a kernel without its firmware.

mod target;

pub use target::Target;

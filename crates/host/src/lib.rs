//! What this machine is: kernels, modules, programs.

pub mod kernel;
pub mod program;

//! What this machine is: kernels, modules, programs.

pub mod beside;
pub mod kernel;
pub mod program;

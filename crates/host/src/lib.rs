//! What this host is: processors, processes, kernels, programs, and where brisk's files are.

pub mod beside;
pub mod cpu;
pub mod dirs;
pub mod files;
pub mod kernel;
pub mod proc;
pub mod program;
pub mod quantity;
pub mod sysfs;

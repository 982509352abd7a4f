//! Facts about this host: processors, processes, kernels, programs, and the places of brisk's
//! files.

pub mod beside;
pub mod boot_entries;
pub mod cgroup;
pub mod cgroup_limits;
pub mod cpu;
pub mod dirs;
pub mod files;
pub mod kernel;
pub mod modules;
mod own_file;
pub mod proc;
pub mod process_times;
pub mod program;
pub mod quantity;
pub mod sockets;
pub mod sysfs;
pub mod tasks;
mod tree;
pub mod trust;
pub mod units;

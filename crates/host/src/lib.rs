//! Facts about this host: processors, processes, kernels, programs, and the places of brisk's
//! files.

pub mod affinity;
pub mod beside;
pub mod block_devices;
pub mod boot_entries;
pub mod cgroup;
pub mod cgroup_limits;
pub mod cpu;
pub mod dirs;
pub mod files;
pub mod interrupt;
pub mod kernel;
pub mod kernel_config;
pub mod modules;
mod own_file;
pub mod proc;
pub mod process_times;
pub mod program;
pub mod program_output;
pub mod quantity;
pub mod sockets;
pub mod sysfs;
pub mod tasks;
mod tree;
pub mod trust;
pub mod units;

/// An error with its causes, in a line.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

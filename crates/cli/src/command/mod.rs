//! One file per command.

pub mod boot;
pub mod completions;
pub mod crypto;
pub mod doctor;
pub mod guest;
pub mod idle;
pub mod image;
pub mod initramfs;
pub mod kernel;
pub mod ktext;
pub mod overhead;
pub mod reboot;
pub mod report;
mod rules;
pub mod run;
mod run_output;
mod system;
pub mod vm;
mod warm_pool;

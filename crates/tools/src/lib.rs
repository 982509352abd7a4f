//! The capabilities of brisk, one module each.

mod block_devices;
pub mod boot;
pub mod crypto;
pub mod doctor;
pub mod environment;
pub mod experiment;
pub mod guest;
pub mod idle;
pub mod interrupt;
mod kernel_config;
pub mod ktext;
pub mod lint;
pub mod overhead;
mod program_output;
pub mod reboot;
mod reservation;
pub mod run;
pub mod vm;

/// An error with its causes, in a line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

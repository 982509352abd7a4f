//! The capabilities of brisk, one module each.

pub mod boot;
pub mod crypto;
pub mod doctor;
pub mod guest;
pub mod idle;
pub mod ktext;
pub mod overhead;
pub mod reboot;
mod reservation;
pub mod run;
pub mod vm;

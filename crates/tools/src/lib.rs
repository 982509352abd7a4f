//! The capabilities of brisk, one module each.

pub mod boot;
pub mod doctor;
pub mod environment;
pub mod run;

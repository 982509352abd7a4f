//! The capabilities of brisk, one module each.

pub mod run;

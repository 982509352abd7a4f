//! `brisk boot`.

pub mod range;

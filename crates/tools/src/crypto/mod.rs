//! Crypto offload: implementations of an algorithm, what they cost, and from which size one of them
//! is worth it.

mod algorithm;
mod curve;

pub use algorithm::{ALGORITHMS, Algorithm, Kind};
pub use curve::{Curve, Point};

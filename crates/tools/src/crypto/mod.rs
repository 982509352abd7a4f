//! Crypto offload: implementations of an algorithm, what they cost, and from which size one of them
//! is worth it.

mod af_alg;
mod algorithm;
mod bench;
#[cfg(test)]
mod captured;
mod combined;
pub mod config;
mod configured;
mod correct;
mod curve;
mod device;
mod direct;
mod energy;
pub mod explain;
pub mod fit;
mod implementation;
pub mod kernel;
pub mod libcrypto;
pub mod list;
mod local;
mod machine;
mod measure;
pub mod metric;
mod origin;
mod remote;
pub mod speed;
mod trial;
mod vectors;
mod window;
mod worker;

pub use af_alg::{AfAlgError, Direction};
pub use algorithm::{ALGORITHMS, Algorithm, Kind, is_same};
pub use bench::{BenchError, Options, Step, bench};
pub use combined::{Combination, Pair, Split, best, combinations, combined};
pub use curve::{Curve, Point};
pub use direct::answer_and_exit;
pub use implementation::{Implementation, NoImplementation};
pub use local::{About, Local, Worker};
pub use machine::Machine;
pub use measure::{Group, GroupRate, Mark, Measured, NotMeasured, Proof, Request};
pub use metric::{Row, rows};
pub use origin::Origin;
pub use remote::Remote;
pub use trial::{Doer, SIZES, Trial, Tried};
pub use vectors::{Checked, Vector, VectorError, vector};
pub use window::Window;
pub use worker::serve;

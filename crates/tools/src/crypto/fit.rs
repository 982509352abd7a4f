//! From which size on an offload is worth it: lines through the times of two implementations, and
//! where they cross. Pure.
//!
//! The time of an operation on n bytes is taken as t(n) = a + b·n: what an operation costs whatever
//! its size, and what each byte costs. Both lines are fitted by least squares of relative errors
//! (weights 1/t²), since times of small and of large sizes are apart by orders of magnitude and
//! known about equally well. They cross at n* = (a_offload − a_software) / (b_software − b_offload).
//!
//! A line always fits somehow, so this stands beside it:
//!
//! - Each size has an order of its own, with what it rests on: software, offload, alike, or not
//!   decided. A verdict about every size needs every size to be decided; sizes that are not take no
//!   part in any other.
//! - The *bracket* needs no line: the two neighbouring decided sizes between which the faster
//!   implementation changes.
//! - A fit is rejected if one of its points is more than [`TOLERANCE`] from its line. Then there is
//!   only the bracket, or the step of a driver that leaves small sizes to software.
//!
//! A crossover outside the measured sizes is an extrapolation, and is called one.

mod crossover;
mod interval;
mod line;
mod order;
mod pairs;
mod report;
mod scatter;
mod sentence;
mod sizes;
mod step;
mod verdict;

pub use crossover::{Crossover, FEWEST};
pub use line::{Line, TOLERANCE};
pub use pairs::{Candidate, Chosen, Pair, PairError, pairs};
pub use report::{CurvesError, METRICS, Metric, curves_of_report, resolution_name, series_name};
pub use scatter::ALIKE;
pub use sizes::{Order, Size};
pub use verdict::{Beyond, Bounds, Bracket, Estimate, Rejection, Verdict};

#[cfg(test)]
mod coverage;
#[cfg(test)]
mod tests;

//! From which size on an offload is worth it: lines through the times of two implementations, and
//! where they cross. Pure.
//!
//! The time of an operation on n bytes is taken as t(n) = a + b·n: what an operation costs whatever
//! its size, and what each byte costs. Both lines are fitted by least squares of relative errors
//! (weights 1/t²), since times of small and of large sizes are apart by orders of magnitude and
//! known about equally well. They cross at n* = (a_offload − a_software) / (b_software − b_offload).
//!
//! A line always fits somehow, so three things stand beside it:
//!
//! - The *bracket* needs no line: the two neighbouring measured sizes between which the faster
//!   implementation changes.
//! - A fit is rejected if one of its points is more than [`TOLERANCE`] from its line. Then there is
//!   only the bracket. Drivers that leave small sizes to software have such points.
//! - n* has a 95 % interval by bootstrap: the samples of each size are resampled, and so are the
//!   relative residuals of the line, with their leverage taken out (Davison and Hinkley, "Bootstrap
//!   Methods and their Application", 1997, section 6.2.3). With one sample for each size, what
//!   remains is the bootstrap of the residuals.
//!
//! A crossover outside the measured sizes is an extrapolation, and is called one.

mod crossover;
mod line;
mod order;
mod pairs;
mod report;
mod resampled;
mod sentence;
mod sizes;
mod verdict;

pub use crossover::{Crossover, FEWEST};
pub use line::{Line, TOLERANCE};
pub use pairs::{Candidate, Chosen, Pair, PairError, pairs};
pub use report::{CurvesError, METRICS, Metric, curves_of_report, series_name};
pub use sizes::{Order, Size};
pub use verdict::{Beyond, Bounds, Bracket, Estimate, Rejection, Verdict};

#[cfg(test)]
mod tests;

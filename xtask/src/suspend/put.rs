//! Where the parts of the benchmark put what they measured.

use brisk_measure::Unit;

/// Takes a figure of a series.
pub(super) type Put<'a> = dyn FnMut(&str, Unit, f64) + 'a;

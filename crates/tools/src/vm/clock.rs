//! The guest's clock, which stood still with it.

use std::time::Duration;

use super::paths::VmPaths;
use super::ports::run_steps;
use crate::guest::clock;

/// How long init may take to set the clock.
const CLOCK: Duration = Duration::from_secs(10);

/// A guest whose clock cannot be set still runs.
pub(super) fn set_clock(paths: &VmPaths) {
    if let Err(error) = run_steps(paths, &[clock()], CLOCK) {
        paths.note(&format!("The clock was not set: {error}"));
    }
}

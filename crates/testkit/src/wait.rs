//! Waiting for conditions that no descriptor reports.

use std::thread;
use std::time::{Duration, Instant};

/// After so long something hangs: a guest takes some seconds, and a minute and a half on a host
/// whose host has given its processors to others; a test boots several.
pub const DEADLINE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(5);

/// Polls `condition` until it gives a value.
///
/// # Panics
/// At the [`DEADLINE`], saying `what` did not happen.
#[track_caller]
pub fn until<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    within(condition)
        .unwrap_or_else(|| panic!("waited {} s in vain until {what}", DEADLINE.as_secs()))
}

/// Polls `condition` until it gives a value; `None` at the [`DEADLINE`].
pub(crate) fn within<T>(condition: impl FnMut() -> Option<T>) -> Option<T> {
    within_time(DEADLINE, condition)
}

/// Polls `condition` until it gives a value; `None` after a time.
pub(crate) fn within_time<T>(
    time: Duration,
    mut condition: impl FnMut() -> Option<T>,
) -> Option<T> {
    let deadline = Instant::now() + time;
    loop {
        if let Some(value) = condition() {
            return Some(value);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(PAUSE);
    }
}

//! Waiting for what has no descriptor to wait at.

use std::thread;
use std::time::{Duration, Instant};

/// After so long something hangs: a guest takes some seconds, on a loaded machine ten times
/// that.
pub const DEADLINE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(5);

/// Polls `condition` until it gives something.
///
/// # Panics
/// At the [`DEADLINE`], saying `what` did not happen.
#[track_caller]
pub fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(
            Instant::now() < deadline,
            "waited {} s in vain until {what}",
            DEADLINE.as_secs()
        );
        thread::sleep(PAUSE);
    }
}

//! Throttle of the background copy while the guest is at work.
//!
//! The background copy at full speed takes two processors of the host, and so slows the guest down,
//! to half its speed where two hardware threads share a core. The first work of a guest after a
//! resume would take nearly twice as long. So the background copy is slow at first while the guest
//! is at work, and then faster and faster, since the image has to stay readable until all is
//! copied.

use std::time::{Duration, Instant};

/// Time in which a guest at work gets only the pages that it asks for.
const ALONE: Duration = Duration::from_secs(1);
/// Time from then on until the background copy has full speed.
const RAMP: Duration = Duration::from_secs(8);
/// A guest with a page fault within this time is at work, even if it runs nothing.
const RECENT: Duration = Duration::from_millis(20);

/// Share of the time of a guest at work that the background copy has taken.
#[derive(Debug)]
pub(super) struct Throttle {
    begun: Instant,
    /// Time of the guest's last page fault.
    asked: Option<Instant>,
    /// Time that sending took while the guest was at work.
    taken: Duration,
    /// Time that the last piece took.
    piece: Duration,
}

impl Throttle {
    pub(super) fn new() -> Self {
        Self {
            begun: Instant::now(),
            asked: None,
            taken: Duration::ZERO,
            piece: Duration::ZERO,
        }
    }

    pub(super) fn was_asked(&mut self) {
        self.asked = Some(Instant::now());
    }

    /// Whether the guest has just had a page fault.
    pub(super) fn is_asking(&self) -> bool {
        self.asked.is_some_and(|asked| asked.elapsed() < RECENT)
    }

    /// Whether another piece is too much for a guest at work.
    pub(super) fn must_wait(&self) -> bool {
        self.taken + self.piece >= allowed(self.begun.elapsed())
    }

    /// Records that a piece was sent; `beside`: while the guest was at work.
    pub(super) fn sent(&mut self, since: Instant, beside: bool) {
        self.piece = since.elapsed();
        if beside {
            self.taken += self.piece;
        }
    }
}

/// Time that sending may take of the first `time`: a share that grows from nothing to all.
fn allowed(time: Duration) -> Duration {
    let time = time.saturating_sub(ALONE);
    let ramp = time.min(RAMP);
    ramp.mul_f64(ramp.div_duration_f64(RAMP) / 2.0) + (time - ramp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_grows_from_nothing_to_all() {
        let seconds = |time: f64| allowed(Duration::from_secs_f64(time)).as_secs_f64();
        assert_eq!((seconds(0.0), seconds(1.0)), (0.0, 0.0));
        let share = |time: f64| (seconds(time + 0.01) - seconds(time)) / 0.01;
        for (time, expected) in [(1.0, 0.0), (3.0, 0.25), (5.0, 0.5), (9.0, 1.0), (60.0, 1.0)] {
            assert!((share(time) - expected).abs() < 0.001, "{time}");
        }
        // What would take ten seconds takes five more.
        assert!((seconds(15.0) - 10.0).abs() < 0.001);
    }

    #[test]
    fn what_is_sent_to_an_idle_guest_is_not_counted() {
        let mut throttle = Throttle::new();
        let long_ago = throttle
            .begun
            .checked_sub(ALONE * 3)
            .expect("up for seconds");
        throttle.begun = long_ago;
        assert!(!throttle.must_wait() && !throttle.is_asking());
        throttle.sent(long_ago, false);
        // The next one might take as long.
        assert!(throttle.must_wait());
        throttle.sent(Instant::now(), false);
        assert!(!throttle.must_wait());
        throttle.sent(long_ago, true);
        throttle.sent(Instant::now(), true);
        assert!(throttle.must_wait());
        throttle.was_asked();
        assert!(throttle.is_asking());
    }
}

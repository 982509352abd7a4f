//! When a run began and ended: by the clock of the host's kernel in its shell, or by its lines.
//!
//! A line says when it was read, which on a busy host is some milliseconds after it was written, or
//! at once with the next one. A shell that runs on the host's kernel takes its times itself, where they
//! happen. A guest's clock is evidence only.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Difference between the host's two clocks that is none: what reading them one after the other may
/// make.
const STEP: Duration = Duration::from_millis(1);
/// By how much the clock that is set may be slowed or hurried, as a share: adjtimex(2) allows 0.05 %.
const SLEW: f64 = 0.001;
/// How long reading both clocks takes at most when nothing comes between.
const QUICK: Duration = Duration::from_micros(50);
/// Readings of which the quickest is taken.
const TRIES: u32 = 5;
/// Share of the stamps' errors below their resolution.
const MOST: f64 = 0.9;
/// How many times the resolution a time has to be.
const LEAST: f64 = 2.0;

/// The host's clock that cannot be set, and the one that can, at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    at: Instant,
    date: Duration,
}

impl Moment {
    pub(super) fn now() -> Self {
        let read = || {
            let before = Instant::now();
            let date = SystemTime::now().duration_since(UNIX_EPOCH);
            let took = before.elapsed();
            let moment = Self {
                at: before + took / 2,
                date: date.unwrap_or_default(),
            };
            (took, moment)
        };
        let mut best = read();
        for _ in 1..TRIES {
            if best.0 < QUICK {
                break;
            }
            let next = read();
            if next.0 < best.0 {
                best = next;
            }
        }
        best.1
    }

    /// The time between two stamps of a shell, which it took between this moment and a later one; none
    /// if they are not of this clock, or the clock was set meanwhile.
    pub(super) fn between(&self, later: &Self, begin: Duration, end: Duration) -> Option<Duration> {
        let passed = later.at.saturating_duration_since(self.at);
        let of_date = later.date.checked_sub(self.date)?;
        let is_steady = of_date.abs_diff(passed) <= STEP + passed.mul_f64(SLEW);
        // A stamp has microseconds.
        let micro = Duration::from_micros(1);
        let is_between = begin + micro > self.date && end <= later.date;
        let time = end.checked_sub(begin).filter(|time| !time.is_zero())?;
        (is_steady && is_between).then_some(time)
    }
}

/// A stamp of a shell that has microseconds, as `EPOCHREALTIME` of bash has; none of a coarser clock.
pub(super) fn stamp(text: &str) -> Option<Duration> {
    let (seconds, micros) = text.trim().split_once('.')?;
    let is_fine = micros.len() == 6 && micros.bytes().all(|one| one.is_ascii_digit());
    let seconds = seconds.parse().ok().filter(|_| is_fine)?;
    Some(Duration::from_secs(seconds) + Duration::from_micros(micros.parse().ok()?))
}

/// How long a run took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Taken {
    /// None if nothing says it.
    pub(super) time: Option<Duration>,
    /// By how much the lines say something else than the clock of the shell, if that is fine enough.
    pub(super) off: Option<Duration>,
}

impl Taken {
    /// By the host's clock in the shell, by the times at which the lines of begin and end were read, and
    /// by the shell's own clock. Lines that were read at once say nothing.
    pub(super) fn by(here: Option<Duration>, lines: Duration, own: Option<Duration>) -> Self {
        let of_lines = (!lines.is_zero()).then_some(lines);
        Self {
            time: here.or(of_lines),
            off: here.or(own).map(|clock| lines.abs_diff(clock)),
        }
    }
}

/// Below which time lines say nothing, seconds, by their errors; none if these are not known.
pub(super) fn least(errors: impl Iterator<Item = f64>) -> Option<f64> {
    let mut errors: Vec<_> = errors.collect();
    errors.sort_by(f64::total_cmp);
    let place = (errors.len() as f64 * MOST).ceil() as usize;
    Some(errors.get(place.checked_sub(1)?)? * LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn moments(at: u32, date: u32) -> (Moment, Moment) {
        let first = Moment {
            at: Instant::now(),
            date: MILLI * 5000,
        };
        let later = Moment {
            at: first.at + MILLI * at,
            date: first.date + MILLI * date,
        };
        (first, later)
    }

    #[test]
    fn stamps_of_the_hosts_clock_are_times_also_if_their_lines_are_read_at_once() {
        let (first, later) = moments(40, 40);
        let between = |begin: u32, end: u32| first.between(&later, MILLI * begin, MILLI * end);
        assert_eq!(between(5001, 5003), Some(MILLI * 2));
        // Of another clock, and without a difference.
        assert_eq!(between(4990, 5003), None);
        assert_eq!(between(5001, 5050), None);
        assert_eq!(between(5002, 5002), None);
        let at_once = Taken::by(between(5001, 5003), Duration::ZERO, None);
        assert_eq!(at_once.time, Some(MILLI * 2));
        assert_eq!(at_once.off, Some(MILLI * 2));
        // The clock was set meanwhile.
        let (first, later) = moments(40, 1040);
        assert_eq!(first.between(&later, MILLI * 5001, MILLI * 5003), None);
    }

    #[test]
    fn lines_that_are_read_at_once_are_no_time() {
        let own = Some(MILLI * 3);
        let at_once = Taken::by(None, Duration::ZERO, own);
        assert_eq!((at_once.time, at_once.off), (None, own));
        let apart = Taken::by(None, MILLI * 2, own);
        assert_eq!((apart.time, apart.off), (Some(MILLI * 2), Some(MILLI)));
        assert_eq!(Taken::by(None, MILLI, None).off, None);
        // Nine of ten are not above it.
        let errors = (1..=10).map(f64::from);
        assert_eq!(least(errors), Some(18.0));
        assert_eq!(least([].into_iter()), None);
    }

    #[test]
    fn a_stamp_has_microseconds() {
        let expected = Duration::new(1_700_000_000, 42_000);
        assert_eq!(stamp("1700000000.000042\r"), Some(expected));
        // `/proc/uptime`.
        assert_eq!(stamp("12.34"), None);
    }
}

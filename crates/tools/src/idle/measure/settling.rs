//! Whether a guest has settled: boots, logins and update checks are over. Pure.

use serde::{Deserialize, Serialize};

use super::window::GuestWindow;

/// Windows in a row that have to agree.
pub(super) const WINDOWS: usize = 3;

/// CPU time may differ by so many percent of one host CPU whatever the level. Below that lies the
/// work of timers that come every few seconds.
const CPU_POINTS: f64 = 0.2;
/// Wakeups a second may differ by so many whatever the level: a timer that comes once in 5 s and
/// wakes several threads is in one window and not in the next.
const WAKEUPS: f64 = 5.0;
/// Above that both may differ by this part of their mean.
const PART: f64 = 0.2;
/// A process of so many seconds at most may still be booting.
const BOOT: f64 = 180.0;
/// A guest that boots uses so many percent of a CPU at least; less is a guest that is up already,
/// or was resumed.
const BOOT_CPU: f64 = 50.0;

/// How it went until the measurement began.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "settling")]
pub enum Settling {
    /// All guests settled.
    Settled {
        /// Seconds until then.
        after: f64,
    },
    /// Some guests had not settled at the limit.
    Unsettled {
        /// The limit, in seconds.
        after: f64,
    },
    /// The user did not want to wait.
    Skipped,
}

/// Why a guest has not settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restless {
    /// Its windows do not agree, or there are too few.
    Changing,
    /// Its process is young, and busy all the time: a boot.
    Booting,
    /// Its threads waited for a CPU for longer than they had one: its numbers are the host's.
    Starved,
}

/// Why a guest has not settled; None if it has.
///
/// It has if the last [`WINDOWS`] windows agree: the largest and the smallest CPU time differ by at
/// most 0.2 points or 20 % of their mean, whichever is more, and wakeups by at most 5 a second or
/// 20 %. A boot may be as steady as that, and so may a guest that gets no CPU; both are told apart.
/// A guest that has ended has settled.
///
/// The rule is about all threads together: which of several virtual CPUs does the guest's work
/// changes from window to window.
#[must_use]
pub(super) fn restless(windows: &[GuestWindow]) -> Option<Restless> {
    if windows.last().is_some_and(|window| window.has_ended) {
        return None;
    }
    let Some(first) = windows.len().checked_sub(WINDOWS) else {
        return Some(Restless::Changing);
    };
    let last = &windows[first..];
    let do_agree = agree(last.iter().map(GuestWindow::cpu_percent), CPU_POINTS)
        && agree(last.iter().map(GuestWindow::wakeups_per_second), WAKEUPS);
    match last {
        _ if !do_agree => Some(Restless::Changing),
        _ if last.iter().any(boots) => Some(Restless::Booting),
        _ if last.iter().any(starves) => Some(Restless::Starved),
        _ => None,
    }
}

fn boots(window: &GuestWindow) -> bool {
    let is_young = window.age_seconds.is_some_and(|age| age < BOOT);
    is_young && window.cpu_percent() >= BOOT_CPU
}

fn starves(window: &GuestWindow) -> bool {
    window.waiting_percent() > window.cpu_percent() + CPU_POINTS
}

fn agree(values: impl Iterator<Item = f64> + Clone, floor: f64) -> bool {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.clone().fold(f64::NEG_INFINITY, f64::max);
    let mean = values.sum::<f64>() / WINDOWS as f64;
    high - low <= floor.max(PART * mean)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::idle::measure::role::Role;
    use crate::idle::measure::window::{Life, ThreadWindow};

    fn has_settled(windows: &[GuestWindow]) -> bool {
        restless(windows).is_none()
    }

    fn windows(values: &[(f64, f64)]) -> Vec<GuestWindow> {
        let window = |&(cpu_percent, wakeups_per_second): &(f64, f64)| GuestWindow {
            seconds: 5.0,
            age_seconds: Some(4000.0),
            threads: vec![ThreadWindow {
                tid: 1,
                start_ticks: 1,
                name: "q".into(),
                role: Role::Main,
                cpu_percent,
                waiting_percent: 0.0,
                wakeups_per_second,
                preemptions_per_second: 0.0,
                life: Life::Whole,
            }],
            has_ended: false,
            lost: Vec::new(),
        };
        values.iter().map(window).collect()
    }

    #[test]
    fn three_windows_have_to_agree_in_both() {
        let cases: [(&[(f64, f64)], bool); 9] = [
            (&[], false),
            (&[(0.3, 40.0); 2], false),
            (&[(0.3, 40.0); 3], true),
            // 0.2 points and 5 wakeups are nothing at a low level.
            (&[(0.2, 33.0), (0.4, 38.0), (0.3, 35.0)], true),
            (&[(0.2, 33.0), (0.5, 38.0), (0.3, 35.0)], false),
            (&[(0.2, 33.0), (0.4, 42.0), (0.3, 35.0)], false),
            // A fifth at a high one.
            (&[(90.0, 980.0), (99.0, 900.0), (95.0, 1000.0)], true),
            (&[(70.0, 980.0), (99.0, 900.0), (95.0, 1000.0)], false),
            // The boot is over.
            (
                &[(100.0, 5000.0), (0.3, 40.0), (0.3, 41.0), (0.25, 39.0)],
                true,
            ),
        ];
        for (values, expected) in cases {
            assert_eq!(has_settled(&windows(values)), expected, "{values:?}");
        }
        let mut ended = windows(&[(100.0, 5000.0)]);
        ended[0].has_ended = true;
        assert!(has_settled(&ended));
    }

    #[test]
    fn a_steady_boot_and_a_guest_without_a_cpu_have_not_settled() {
        let with = |cpu: f64, age: f64, waiting: f64| {
            let mut windows = windows(&[(cpu, 900.0); 3]);
            for window in &mut windows {
                window.age_seconds = Some(age);
                window.threads[0].waiting_percent = waiting;
            }
            restless(&windows)
        };
        // A kernel under TCG computes for half a minute without a pause.
        assert_eq!(with(99.0, 20.0, 1.0), Some(Restless::Booting));
        // It is young, but up: it was resumed, or boots fast.
        assert_eq!(with(1.0, 20.0, 0.1), None);
        // It is at work, as it has been for an hour.
        assert_eq!(with(99.0, 4000.0, 1.0), None);
        assert_eq!(with(0.3, 4000.0, 12.0), Some(Restless::Starved));
        // Each wakeup waits for some microseconds, on a quiet host, too.
        assert_eq!(with(0.1, 4000.0, 0.25), None);
        let mut one = windows(&[(0.3, 40.0); 3]);
        one[0].threads[0].waiting_percent = 12.0;
        assert_eq!(restless(&one), Some(Restless::Starved));
        one.insert(3, one[1].clone());
        assert_eq!(restless(&one), None);
    }

    proptest! {
        #[test]
        fn only_the_last_windows_count(
            early in prop::collection::vec((0.0..400.0f64, 0.0..1e5f64), 0..4),
            cpu in 0.0..400.0f64,
            wakeups in 0.0..1e5f64,
        ) {
            let all: Vec<_> = early.into_iter().chain([(cpu, wakeups); WINDOWS]).collect();
            prop_assert!(has_settled(&windows(&all)));
        }
    }
}

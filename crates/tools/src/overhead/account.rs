//! Where the time of the processors went during a run, by the counters of the host. Pure.

use std::time::{Duration, Instant};

/// Share of a run by which the time between the readings of its counters may differ from its own.
const LATE: f64 = 0.2;

/// Counters of a target and of its processors, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// CPU time of the target outside of the host's kernel, that in guest mode included.
    pub(super) user: Duration,
    /// CPU time of the target in the host's kernel.
    pub(super) system: Duration,
    /// Time in which the target wanted to run and all of it waited; none if it is not counted.
    pub(super) waiting: Option<Duration>,
    /// Idle time of the processors; none if it is not known.
    pub(super) idle: Option<Duration>,
    /// Time of the processors that a hypervisor below the host gave to others; none if it is not
    /// known.
    pub(super) steal: Option<Duration>,
}

/// Counters with their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    /// When they were read: some time after what they were read for.
    pub(super) at: Instant,
    /// The counters.
    pub(super) counters: Counters,
}

/// Where the time of the processors went: wall-clock time times processors, in parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Account {
    /// Wall-clock time between the readings of the counters, times the number of processors,
    /// seconds.
    pub total: f64,
    /// In guest mode, seconds.
    pub guest: f64,
    /// In the target's programs: a VMM, or the workload itself. Seconds.
    pub user: f64,
    /// In the host's kernel for the target, seconds.
    pub system: f64,
    /// The target wanted to run, and something else did. Seconds; none if it is not counted.
    pub waiting: Option<f64>,
    /// The processors were idle, seconds; none if it is not known.
    pub idle: Option<f64>,
    /// A hypervisor below the host had the processors, seconds; none if it is not known.
    pub steal: Option<f64>,
}

impl Account {
    /// The account between two moments, with the time in guest mode.
    pub(super) fn between(before: &Reading, after: &Reading, guest: Duration, cpus: usize) -> Self {
        let wall = after.at.saturating_duration_since(before.at);
        let (before, after) = (&before.counters, &after.counters);
        let part =
            |of: fn(&Counters) -> Duration| of(after).saturating_sub(of(before)).as_secs_f64();
        let known = |of: fn(&Counters) -> Option<Duration>| {
            let (after, before) = of(after).zip(of(before))?;
            Some(after.saturating_sub(before).as_secs_f64())
        };
        let guest = guest.as_secs_f64();
        Self {
            total: wall.as_secs_f64() * cpus as f64,
            guest,
            user: (part(|counters| counters.user) - guest).max(0.0),
            system: part(|counters| counters.system),
            waiting: known(|counters| counters.waiting),
            idle: known(|counters| counters.idle),
            steal: known(|counters| counters.steal),
        }
    }

    /// Whether it is of a run of this time: on a busy host, the counters may be read after its begin.
    pub(super) fn is_of(&self, time: Option<Duration>, cpus: usize) -> bool {
        let own = self.total / cpus as f64;
        time.is_some_and(|time| (own - time.as_secs_f64()).abs() <= LATE * time.as_secs_f64())
    }

    /// Without the time in which its groups did not let it run: the processors were idle then, and
    /// nobody else had them.
    pub(super) fn held_back(self, time: Duration) -> Self {
        let waiting = self
            .waiting
            .map(|waiting| (waiting - time.as_secs_f64()).max(0.0));
        Self { waiting, ..self }
    }

    /// CPU time of the target, seconds.
    #[must_use]
    pub fn cpu(&self) -> f64 {
        self.guest + self.user + self.system
    }

    /// Time in which others had the processors and the target wanted them, seconds; where that is
    /// not counted, the rest, which has it and may have more.
    pub(super) fn lost(&self) -> f64 {
        self.waiting.unwrap_or_else(|| self.rest()) + self.steal.unwrap_or(0.0)
    }

    /// What the parts leave over of the total, seconds: other programs on the processors while the
    /// target did not want to run, interrupts, and what the counters miss. Below zero if the
    /// parts are more than the total.
    #[must_use]
    pub fn rest(&self) -> f64 {
        let others = [self.waiting, self.idle, self.steal].into_iter().flatten();
        self.total - self.cpu() - others.sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(before: Counters, after: Counters, times: [u64; 2], cpus: usize) -> Account {
        let [time, guest] = times.map(Duration::from_millis);
        let at = Instant::now();
        let before = Reading {
            at,
            counters: before,
        };
        let after = Reading {
            at: at + time,
            counters: after,
        };
        Account::between(&before, &after, guest, cpus)
    }

    fn counters(values: [u64; 3]) -> Counters {
        let [user, system, other] = values.map(Duration::from_millis);
        Counters {
            user,
            system,
            waiting: Some(other),
            idle: Some(other * 2),
            steal: Some(other / 5),
        }
    }

    #[test]
    fn the_parts_and_the_rest_are_the_total() {
        let (before, after) = (counters([100, 50, 5]), counters([900, 250, 35]));
        let account = between(before, after, [600, 500], 2);
        let rounded = |seconds: f64| (seconds * 1000.0).round();
        assert_eq!(rounded(account.total), 1200.0);
        assert_eq!(
            [account.guest, account.user, account.system].map(rounded),
            [500.0, 300.0, 200.0]
        );
        assert_eq!(account.waiting.map(rounded), Some(30.0));
        assert_eq!(account.idle.map(rounded), Some(60.0));
        assert_eq!(rounded(account.cpu()), 1000.0);
        assert_eq!(account.steal.map(rounded), Some(6.0));
        assert_eq!(rounded(account.rest()), 104.0);
    }

    #[test]
    fn counters_that_are_read_late_are_not_of_the_run() {
        let account = between(counters([0, 0, 0]), counters([900, 0, 0]), [1000, 0], 2);
        let is_of = |millis: u64| account.is_of(Some(Duration::from_millis(millis)), 2);
        assert!(is_of(1000) && is_of(900) && !is_of(500) && !is_of(2000));
        assert!(!account.is_of(None, 2));
    }

    #[test]
    fn nobody_has_the_processors_while_a_group_may_not_run() {
        let account = between(counters([0, 0, 0]), counters([500, 0, 450]), [1000, 0], 1);
        assert!((account.lost() - 0.54).abs() < 1e-9);
        let account = account.held_back(Duration::from_millis(430));
        assert!((account.lost() - 0.11).abs() < 1e-9);
        assert_eq!(account.held_back(Duration::from_secs(9)).waiting, Some(0.0));
    }

    #[test]
    fn a_part_that_is_not_counted_is_in_the_rest() {
        let unknown = |counters| Counters {
            waiting: None,
            idle: None,
            steal: None,
            ..counters
        };
        let before = unknown(counters([0, 0, 0]));
        let after = unknown(counters([400, 100, 9]));
        let account = between(before, after, [1000, 0], 1);
        assert_eq!((account.waiting, account.idle), (None, None));
        assert!((account.rest() - 0.5).abs() < 1e-9);
    }
}

//! Runs in which other programs had the processors. Pure.

use brisk_measure::{Outcome, Sample};

use super::account::Account;

/// Share of a run in which others may have what the target wanted.
const SHARE: f64 = 0.05;
/// The resolution of the counters, seconds: idle time and steal are counted in ticks of 10 ms, at
/// both ends and on each processor.
const RESOLUTION: f64 = 0.04;
/// What stands before the reason of a run that is dropped.
const DROPPED: &str = "dropped: ";

/// Why the time of a run says little about its target; none if it does.
pub(super) fn disturbance(account: &Account) -> Option<String> {
    let lost = account.lost();
    let is_much = lost > RESOLUTION && lost > account.total * SHARE;
    is_much.then(|| {
        let percent = lost / account.total * 100.0;
        format!("{DROPPED}other programs had the processors in {percent:.0} % of its time")
    })
}

/// What stands before the reason of a run whose time is not known.
const UNTIMED: &str = "not timed: ";

/// Why a run has no time.
pub(super) fn untimed() -> String {
    format!(
        "{UNTIMED}its begin and its end were read at once, so that it is shorter than its lines can say"
    )
}

/// Whether a run has no time, though its work was done.
pub(super) fn is_untimed(sample: &Sample) -> bool {
    matches!(&sample.outcome, Outcome::Failed { reason } if reason.starts_with(UNTIMED))
}

/// Whether a run was dropped.
pub(super) fn is_dropped(sample: &Sample) -> bool {
    matches!(&sample.outcome, Outcome::Failed { reason } if reason.starts_with(DROPPED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(total: f64, waiting: Option<f64>) -> Account {
        Account {
            total,
            guest: 0.0,
            user: total / 2.0,
            system: 0.0,
            waiting,
            idle: Some(total / 2.0 - waiting.unwrap_or(0.0)),
            steal: Some(0.0),
        }
    }

    #[test]
    fn a_run_is_dropped_for_a_share_that_can_be_counted() {
        assert_eq!(disturbance(&account(10.0, Some(0.4))), None);
        let reason = disturbance(&account(10.0, Some(0.6))).unwrap();
        let expected = "dropped: other programs had the processors in 6 % of its time";
        assert_eq!(reason, expected);
        // Less than the counters can say.
        assert_eq!(disturbance(&account(0.3, Some(0.03))), None);
        // What a hypervisor below the host took.
        let stolen = Account {
            steal: Some(3.0),
            idle: Some(2.0),
            ..account(10.0, Some(0.0))
        };
        assert!(disturbance(&stolen).unwrap().contains("in 30 %"));
        // Without a count of the time that it waited, the rest has it.
        let uncounted = Account {
            idle: Some(4.0),
            ..account(10.0, None)
        };
        assert!(disturbance(&uncounted).unwrap().contains("in 10 %"));
        let sample = Sample::failed(0, brisk_measure::Phase::Measured, expected);
        assert!(is_dropped(&sample));
        assert!(!is_dropped(&Sample::measured(0, 1.0)));
    }
}

//! What came of a restart, told after the machine has started again. Pure.

use super::boot::Boot;
use super::census::Census;
use super::record::{Barred, Down, Outcome, Phase, Record, Restart, Stage, Times, Way};

/// What came of a restart.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    /// Entry of the history.
    pub record: Record,
    /// Combination that is barred, if one is.
    pub barred: Option<Barred>,
}

/// Concludes from what was kept: the restart that had begun, if brisk was asked, and the mark of
/// the shutdown. `seen` are times of this boot, and what runs now: they are asked for only if this
/// boot is one after a restart. None if it is not: the machine was off, or nothing was kept.
#[must_use]
pub fn conclude(
    pending: Option<&Restart>,
    down: Option<&Down>,
    now: &Boot,
    seen: impl FnOnce() -> (Times, Census),
) -> Option<Conclusion> {
    let down = down.filter(|down| down.boot.id != now.id);
    // A restart of this boot has not ended yet.
    let Some(restart) = pending.filter(|restart| restart.from.id != now.id) else {
        return other(down?, now, seen);
    };
    let (times, after) = seen();
    let down = down.filter(|down| down.boot.id == restart.from.id);
    // The mark is begun when the shutdown begins; the jump comes after all services.
    let stopped = down.filter(|down| down.at.is_some());
    let outcome = outcome(restart, stopped, now);
    let times = Times {
        begun: restart.times.begun,
        handed: restart.times.handed,
        down: down.and_then(|down| down.at),
        ..times
    };
    let barred = match (&outcome, &restart.combination) {
        (Outcome::ColdInstead(phase), Some(combination)) if *phase != Phase::Shutdown => {
            Some(Barred {
                combination: combination.clone(),
                release: restart.release.clone(),
                phase: *phase,
                at: times.kernel.unwrap_or_default(),
            })
        }
        _ => None,
    };
    let record = Record {
        id: restart.id.clone(),
        by_brisk: true,
        outcome,
        reasons: restart.reasons.clone(),
        from: restart.from.clone(),
        to: now.clone(),
        times,
        combination: restart.combination.clone(),
        before: restart.before.clone(),
        after,
    };
    Some(Conclusion { record, barred })
}

fn outcome(restart: &Restart, down: Option<&Down>, now: &Boot) -> Outcome {
    if restart.stage < Stage::Restart {
        return Outcome::Interrupted(restart.stage);
    }
    let is_warm = now.is_kexec == Some(true);
    match (restart.way, &restart.up) {
        (Way::Cold, _) if is_warm => Outcome::Warm,
        (Way::Cold, _) => Outcome::Cold,
        (Way::Warm, Some(up)) if up.id == now.id => Outcome::Warm,
        (Way::Warm, Some(_)) => Outcome::ColdInstead(Phase::Userspace),
        (Way::Warm, None) if is_warm => Outcome::Warm,
        (Way::Warm, None) if down.is_some_and(jumped) => Outcome::ColdInstead(Phase::Kernel),
        (Way::Warm, None) => Outcome::ColdInstead(Phase::Shutdown),
    }
}

/// Whether the kernel was started, as far as is known: somebody else may have asked for another
/// shutdown, which it has no part in, and the old kernel may have failed before its services were
/// stopped.
fn jumped(down: &Down) -> bool {
    matches!(&*down.target, "kexec" | "") && down.at.is_some()
}

/// A restart that brisk was not asked for.
fn other(down: &Down, now: &Boot, seen: impl FnOnce() -> (Times, Census)) -> Option<Conclusion> {
    if !matches!(&*down.target, "reboot" | "kexec") {
        return None;
    }
    let (times, after) = seen();
    let outcome = match now.is_kexec {
        Some(true) => Outcome::Warm,
        _ => Outcome::Cold,
    };
    let times = Times {
        begun: None,
        handed: down.asked,
        down: down.at,
        ..times
    };
    let record = Record {
        id: now.id.clone(),
        by_brisk: false,
        outcome,
        reasons: Vec::new(),
        from: down.boot.clone(),
        to: now.clone(),
        times,
        combination: None,
        before: Census::default(),
        after,
    };
    Some(Conclusion {
        record,
        barred: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot(id: &str, is_kexec: bool) -> Boot {
        Boot {
            id: id.to_owned(),
            release: "6.12".to_owned(),
            is_kexec: Some(is_kexec),
        }
    }

    fn restart(way: Way, stage: Stage) -> Restart {
        Restart {
            id: "1".to_owned(),
            way,
            reasons: Vec::new(),
            stage,
            from: boot("a", false),
            release: "6.12".to_owned(),
            combination: (way == Way::Warm).then(|| "c".to_owned()),
            times: Times {
                begun: Some(10.0),
                handed: Some(12.0),
                ..Times::default()
            },
            vms: Vec::new(),
            suspends: true,
            away_before: Vec::new(),
            releases: true,
            may_be_loaded: false,
            watch: None,
            once: None,
            before: Census::default(),
            up: None,
        }
    }

    fn down(target: &str) -> Down {
        Down {
            boot: boot("a", false),
            at: Some(15.0),
            asked: Some(12.5),
            target: target.to_owned(),
        }
    }

    fn concluded(restart: &Restart, down: Option<&Down>, now: &Boot) -> (Outcome, bool) {
        let conclusion = conclude(Some(restart), down, now, Default::default).unwrap();
        (conclusion.record.outcome, conclusion.barred.is_some())
    }

    #[test]
    fn a_warm_restart_has_one_of_these_ends() {
        use Outcome::{ColdInstead, Interrupted, Warm};
        let handed = restart(Way::Warm, Stage::Restart);
        let mut up = restart(Way::Warm, Stage::Up);
        up.up = Some(boot("b", true));
        let mark = down("kexec");
        let (kexec, another) = (boot("b", true), boot("d", true));
        let firmware = boot("c", false);
        let ends = concluded;
        assert_eq!(ends(&up, Some(&mark), &kexec), (Warm, false));
        assert_eq!(ends(&handed, Some(&mark), &kexec), (Warm, false));
        assert_eq!(
            ends(&handed, Some(&mark), &firmware),
            (ColdInstead(Phase::Kernel), true)
        );
        assert_eq!(
            ends(&up, Some(&mark), &firmware),
            (ColdInstead(Phase::Userspace), true)
        );
        // Another kexec after it: the one that was asked for did not come to its end.
        assert_eq!(
            ends(&up, Some(&mark), &another),
            (ColdInstead(Phase::Userspace), true)
        );
        // Not the kernel's fault.
        assert_eq!(
            ends(&handed, None, &firmware),
            (ColdInstead(Phase::Shutdown), false)
        );
        // Somebody else had the machine reboot, or turned it off.
        for target in ["reboot", "poweroff", "halt"] {
            assert_eq!(
                ends(&handed, Some(&down(target)), &firmware),
                (ColdInstead(Phase::Shutdown), false)
            );
        }
        assert_eq!(
            ends(&handed, Some(&down("")), &firmware),
            (ColdInstead(Phase::Kernel), true)
        );
        let begun = restart(Way::Warm, Stage::Quiesce);
        assert_eq!(
            ends(&begun, None, &firmware),
            (Interrupted(Stage::Quiesce), false)
        );
        assert_eq!(
            ends(&begun, Some(&mark), &firmware),
            (Interrupted(Stage::Quiesce), false)
        );
    }

    #[test]
    fn a_kernel_has_no_part_in_a_shutdown_that_did_not_come_to_its_end() {
        let handed = restart(Way::Warm, Stage::Restart);
        let early = Down {
            at: None,
            ..down("kexec")
        };
        let end = concluded(&handed, Some(&early), &boot("c", false));
        assert_eq!(end, (Outcome::ColdInstead(Phase::Shutdown), false));
    }

    #[test]
    fn other_restarts_are_kept_too() {
        let now = boot("b", false);
        let times = Times {
            up: Some(60.0),
            ..Times::default()
        };
        let of = |down: &Down, now: &Boot| {
            conclude(None, Some(down), now, || (times, Census::default()))
        };
        let record = of(&down("reboot"), &now).unwrap().record;
        assert_eq!(record.outcome, Outcome::Cold);
        assert_eq!(record.times.downtime(), Some(47.5));
        assert!(!record.by_brisk);
        assert_eq!(
            of(&down("kexec"), &boot("b", true)).unwrap().record.outcome,
            Outcome::Warm
        );
        // The machine was off; or the mark is of this boot, which goes down.
        assert_eq!(of(&down("poweroff"), &now), None);
        assert_eq!(of(&down("reboot"), &boot("a", false)), None);
        assert_eq!(conclude(None, None, &now, || unreachable!()), None);
    }

    #[test]
    fn a_cold_restart_is_not_held_against_a_kernel() {
        let cold = restart(Way::Cold, Stage::Restart);
        let now = boot("b", false);
        assert_eq!(
            concluded(&cold, Some(&down("reboot")), &now),
            (Outcome::Cold, false)
        );
        assert_eq!(concluded(&cold, None, &now), (Outcome::Cold, false));
        // A restart that has not left this boot is not concluded.
        let this = conclude(Some(&cold), None, &boot("a", false), || unreachable!());
        assert_eq!(this, None);
    }
}

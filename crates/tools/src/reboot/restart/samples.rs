//! Records for tests.

use super::boot::Boot;
use super::census::Census;
use super::record::{Outcome, Phase, Record, Restart, Stage, Times, Way};

/// A restart that is under way.
pub(super) fn restart(way: Way, stage: Stage) -> Restart {
    Restart {
        id: "1".to_owned(),
        way,
        reasons: Vec::new(),
        stage,
        from: Boot::default(),
        release: String::new(),
        combination: None,
        times: Times::default(),
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

/// A restart whose kernel did not come up.
pub(super) fn record(id: &str) -> Record {
    Record {
        id: id.to_owned(),
        by_brisk: true,
        outcome: Outcome::ColdInstead(Phase::Kernel),
        reasons: Vec::new(),
        from: Boot::default(),
        to: Boot::default(),
        times: Times::default(),
        combination: None,
        before: Census::default(),
        after: Census::default(),
    }
}

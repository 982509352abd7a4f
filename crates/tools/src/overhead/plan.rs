//! Rounds, when they are enough, and programs that are missing for targets.

use std::time::Duration;

use brisk_host::program::Program;

use super::existing;
use super::launch::{needs, qemu};
use super::metrics::TIME;
use super::sides::{AGAIN, HOST, Side, names};
use super::target::Kind;
use brisk_experiment::{Narrow, Plan, Record};

/// How often and on what.
#[derive(Debug, Clone)]
pub struct Options {
    /// Rounds that count, at most; each runs every target once.
    pub rounds: u32,
    /// Rounds before these, which do not count.
    pub warmups: u32,
    /// Half the width of the interval of a ratio that is narrow enough to end before that, relative
    /// to the ratio: 0.01 for 1 %. None to make all rounds.
    pub precision: Option<f64>,
    /// No round begins after so long.
    pub budget: Option<Duration>,
    /// Whether runs count in which other programs had the processors.
    pub keeps_disturbed: bool,
    /// Whether the costs of single operations are measured, too, to explain losses.
    pub explains: bool,
    /// Processors of the host that every target runs on.
    pub cpus: Vec<usize>,
    /// How long a target may take for one run, or to start.
    pub timeout: Duration,
    /// Seed of the orders.
    pub seed: u64,
    /// Number of the first round that counts: of a measurement that goes on, how many there are.
    pub first: u32,
}

/// Targets that cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Two have the same name.
    #[error("two targets are named {0}; the host takes part by itself, as host")]
    Twice(String),
    /// No target can have an ablation.
    #[error("{0}")]
    Ablation(String),
    /// A program is missing.
    #[error("target {target}: there is no `{program}`: apt-get install {package}")]
    Missing {
        /// The target.
        target: String,
        /// The program.
        program: &'static str,
        /// The Debian package.
        package: &'static str,
    },
    /// The guest that is to be measured does not run.
    #[error("target {target}: {reason}")]
    Guest {
        /// The target.
        target: String,
        /// Why, and what to try.
        reason: String,
    },
    /// Only root may do it.
    #[error("target {target}: {program} needs root; run brisk as root, or measure podman:IMAGE")]
    Root {
        /// The target.
        target: String,
        /// What needs root.
        program: &'static str,
    },
}

/// The plan: each side in each round, after rounds that do not count.
#[must_use]
pub fn plan(sides: &[Side], options: &Options) -> Plan {
    let rounds = options.rounds.saturating_sub(options.first);
    let plan = Plan::new(names(sides), rounds)
        .warmups(options.warmups)
        .repeats(AGAIN, HOST)
        .seed(options.seed)
        .beginning_at(options.first);
    match options.budget {
        Some(budget) => plan.within(budget),
        None => plan,
    }
}

/// Whether the ratio of each side to the host is known well enough, whatever it is. A side that
/// never succeeded is not waited for.
pub(super) fn is_settled(sides: &[Side], precision: f64, record: &Record<'_>) -> bool {
    let subjects = (0..sides.len()).filter(|side| ![HOST, AGAIN].contains(side));
    let mut subjects = subjects.filter(|side| {
        let times = record.series(*side, TIME);
        times.is_some_and(|times| !times.values().is_empty())
    });
    let narrow = |subject| Narrow {
        metric: TIME.to_owned(),
        base: HOST,
        subject,
        repeat: Some(AGAIN),
        half_width: precision,
    };
    let is_one_left = subjects.next();
    is_one_left.is_some_and(|first| {
        std::iter::once(first)
            .chain(subjects)
            .all(|subject| narrow(subject).is_reached(record))
    })
}

/// Whether all sides can be started here, before any is.
///
/// # Errors
/// If a program is missing, a guest does not run, or the user may not.
pub fn check(sides: &[Side]) -> Result<(), PlanError> {
    let is_root = rustix::process::geteuid().is_root();
    for side in sides {
        for (program, package) in needs(&side.kind) {
            Program::find(program).map_err(|_| PlanError::Missing {
                target: side.name.clone(),
                program,
                package,
            })?;
        }
        if side.trial.is_some() {
            continue;
        }
        can_be_reached(&side.kind).map_err(|reason| PlanError::Guest {
            target: side.name.clone(),
            reason,
        })?;
        let mounts_root = match side.kind {
            Kind::Runc => Some("runc"),
            Kind::Gvisor(_) => Some("runsc"),
            _ => None,
        };
        if let Some(program) = mounts_root.filter(|_| !is_root) {
            return Err(PlanError::Root {
                target: side.name.clone(),
                program,
            });
        }
    }
    Ok(())
}

/// The reason if a guest does not run, or its QEMU is not there or not to be started.
fn can_be_reached(kind: &Kind) -> Result<(), String> {
    existing::find(kind).map_err(|error| brisk_host::chain(&error))?;
    let Kind::Qemu(words) = kind else {
        return Ok(());
    };
    if let Some(program) = words.first() {
        Program::find(program).map_err(|error| brisk_host::chain(&error))?;
    }
    qemu::check(words).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use brisk_measure::{Sample, Series, Unit};

    use super::super::sides::sides;
    use super::*;

    fn options() -> Options {
        Options {
            rounds: 9,
            warmups: 1,
            precision: None,
            budget: None,
            keeps_disturbed: false,
            explains: false,
            cpus: vec![0],
            timeout: Duration::from_secs(1),
            seed: 1,
            first: 0,
        }
    }

    fn of(targets: &[&str]) -> Vec<Side> {
        let targets: Vec<_> = targets.iter().map(|text| text.parse().unwrap()).collect();
        sides(&targets, &[], &Default::default()).unwrap().0
    }

    #[test]
    fn a_plan_goes_on_where_another_ended() {
        let sides = of(&["x=host"]);
        assert_eq!(plan(&sides, &options()).most_rounds(), 10);
        let later = Options {
            first: 5,
            ..options()
        };
        let later = plan(&sides, &later);
        assert_eq!(later.most_rounds(), 5);
        assert_eq!(later.turns(1)[0].iteration, 5);
        let names = [0, 1, 2].map(|side| later.series_name(side, TIME));
        assert_eq!(names, ["host: time", "host again: time", "x: time"]);
        assert_eq!(check(&sides), Ok(()));
        let cold = Options {
            warmups: 0,
            ..options()
        };
        assert_eq!(plan(&sides, &cold).most_rounds(), 9);
    }

    #[test]
    fn it_ends_when_all_that_succeed_are_known_well_enough() {
        let sides = of(&["x=host", "y=host", "dead=host"]);
        let plan = plan(&sides, &options());
        let series = |name: &str, values: [f64; 6]| Series::of_values(name, Unit::Seconds, values);
        let steady = [2.0, 2.001, 2.002, 2.0, 2.001, 2.0];
        let mut dead = Series::new("dead: time", Unit::Seconds);
        dead.push(Sample::failed(0, brisk_measure::Phase::Measured, "why"));
        let mut all = vec![
            series("host: time", [1.0; 6]),
            series("host again: time", [1.0; 6]),
            series("x: time", steady),
            series("y: time", [2.0, 2.2, 1.8, 2.3, 2.0, 1.7]),
            dead,
        ];
        assert!(!is_settled(&sides, 0.01, &Record::new(&plan, &all, 7)));
        all[3] = series("y: time", steady);
        assert!(is_settled(&sides, 0.01, &Record::new(&plan, &all, 7)));
        // Five pairs have no interval.
        all[3].samples.pop();
        assert!(!is_settled(&sides, 0.01, &Record::new(&plan, &all, 6)));
        let failed = [all[0].clone(), all[1].clone(), all[4].clone()];
        assert!(!is_settled(&sides, 0.01, &Record::new(&plan, &failed, 7)));
    }
}

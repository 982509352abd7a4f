//! Sides of the comparison, and programs that are missing for them.

use std::collections::BTreeSet;
use std::time::Duration;

use brisk_host::program::Program;

use super::launch::needs;
use super::target::{Kind, Target};
use crate::experiment::Plan;

/// The side that all others are compared with.
pub(super) const HOST: usize = 0;
/// The host once more.
pub(super) const AGAIN: usize = 1;
/// Name of the host.
const HOST_NAME: &str = "host";
/// Name of its repetition.
const AGAIN_NAME: &str = "host again";

/// How often and on what.
#[derive(Debug, Clone)]
pub struct Options {
    /// Rounds that count; each runs every target once.
    pub rounds: u32,
    /// Processors of the host that every target runs on.
    pub cpus: Vec<usize>,
    /// How long a target may take for one run, or to start.
    pub timeout: Duration,
    /// Seed of the orders.
    pub seed: u64,
}

/// Targets that cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Two have the same name.
    #[error("two targets are named {0}; the host takes part by itself, as host")]
    Twice(String),
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
    /// Only root may do it.
    #[error("target {0}: runc needs root; run brisk as root, or measure podman:IMAGE")]
    Root(String),
}

/// All sides: the host twice, and the targets.
pub(super) fn sides(targets: &[Target]) -> Vec<Target> {
    let host = |name: &str| Target {
        name: name.to_owned(),
        kind: Kind::Host,
    };
    let mut sides = vec![host(HOST_NAME), host(AGAIN_NAME)];
    sides.extend_from_slice(targets);
    sides
}

/// Names of all sides, in order: the host, the host again, and the targets.
#[must_use]
pub fn names(targets: &[Target]) -> Vec<String> {
    let sides = sides(targets).into_iter();
    sides.map(|target| target.name).collect()
}

/// The plan: the host, the host again, and each target; one round more, which does not count.
#[must_use]
pub fn plan(targets: &[Target], options: &Options) -> Plan {
    Plan::new(names(targets), options.rounds)
        .warmups(1)
        .repeats(AGAIN, HOST)
        .seed(options.seed)
}

/// Whether all targets can be started here, before any is.
///
/// # Errors
/// If two have the same name, a program is missing, or the user may not.
pub fn check(targets: &[Target]) -> Result<(), PlanError> {
    let mut taken = BTreeSet::from([HOST_NAME]);
    let is_root = rustix::process::geteuid().is_root();
    for target in targets {
        if !taken.insert(&target.name) {
            return Err(PlanError::Twice(target.name.clone()));
        }
        for (program, package) in needs(&target.kind) {
            Program::find(program).map_err(|_| PlanError::Missing {
                target: target.name.clone(),
                program,
                package,
            })?;
        }
        if target.kind == Kind::Runc && !is_root {
            return Err(PlanError::Root(target.name.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_takes_part_twice_and_names_are_unique() {
        let target = |text: &str| text.parse::<Target>().unwrap();
        let options = Options {
            rounds: 6,
            cpus: vec![0],
            timeout: Duration::from_secs(1),
            seed: 1,
        };
        let plan = plan(&[target("x=host")], &options);
        assert_eq!(plan.most_rounds(), 7);
        let names = [0, 1, 2].map(|side| plan.series_name(side, "time"));
        assert_eq!(names, ["host: time", "host again: time", "x: time"]);
        let twice = [target("x=host"), target("x=command:nice")];
        assert_eq!(check(&twice), Err(PlanError::Twice("x".into())));
        let host = check(&[target("host=command:nice")]);
        assert_eq!(host, Err(PlanError::Twice("host".into())));
        assert_eq!(check(&twice[..1]), Ok(()));
    }
}

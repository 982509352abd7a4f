//! Sides of the comparison: the host twice, the targets, and what is changed about them. Pure.

use std::collections::BTreeSet;

use super::ablation::{Ablation, Here};
use super::plan::PlanError;
use super::target::{Kind, Target};

/// The side that all others are compared with.
pub(super) const HOST: usize = 0;
/// The host once more.
pub(super) const AGAIN: usize = 1;
/// Name of the host.
const HOST_NAME: &str = "host";
/// Name of its repetition.
pub(super) const AGAIN_NAME: &str = "host again";

/// One of what is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// Name in the report, unique.
    pub name: String,
    /// How it is started.
    pub kind: Kind,
    /// How it differs from the side of the number: an ablation of a target.
    pub change: Option<(Ablation, usize)>,
}

/// The host twice, then each target, followed by its ablations. An ablation that a target cannot
/// have is left out, with a line that says why.
///
/// # Errors
/// If two targets have the same name, or no target can have one of the ablations.
pub fn sides(
    targets: &[Target],
    ablations: &[Ablation],
    here: &Here,
) -> Result<(Vec<Side>, Vec<String>), PlanError> {
    let plain = |name: &str, kind: &Kind| Side {
        name: name.to_owned(),
        kind: kind.clone(),
        change: None,
    };
    let mut sides = vec![
        plain(HOST_NAME, &Kind::Host),
        plain(AGAIN_NAME, &Kind::Host),
    ];
    let mut taken = BTreeSet::from([HOST_NAME]);
    let mut left_out = Vec::new();
    let mut used = BTreeSet::new();
    for target in targets {
        if !taken.insert(&target.name) {
            return Err(PlanError::Twice(target.name.clone()));
        }
        let original = sides.len();
        sides.push(plain(&target.name, &target.kind));
        for (number, ablation) in ablations.iter().enumerate() {
            match ablation.of(&target.kind, here) {
                Ok(kind) => {
                    used.insert(number);
                    sides.push(Side {
                        name: format!("{} {ablation}", target.name),
                        kind,
                        change: Some((ablation.clone(), original)),
                    });
                }
                Err(why) => {
                    left_out.push(format!("{}: not measured {ablation}: {why}", target.name))
                }
            }
        }
    }
    let unused = ablations
        .iter()
        .enumerate()
        .find(|(number, _)| !used.contains(number));
    match unused {
        None => Ok((sides, left_out)),
        Some(_) => Err(PlanError::Ablation(left_out.join("; "))),
    }
}

/// Names of all sides.
#[must_use]
pub fn names(sides: &[Side]) -> Vec<String> {
    sides.iter().map(|side| side.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
        text.parse().unwrap()
    }

    #[test]
    fn ablations_follow_their_target() {
        let targets = [target("a=brisk:"), target("b=runc:")];
        let ablations = [Ablation::HugePages, Ablation::Kernel(Some("/k".into()))];
        let (sides, left_out) = sides(&targets, &ablations, &Here::default()).unwrap();
        let names = names(&sides);
        let expected = [
            "host",
            "host again",
            "a",
            "a without huge pages",
            "a with kernel /k",
            "b",
            "b without huge pages",
        ];
        assert_eq!(names, expected);
        let of: Vec<_> = sides
            .iter()
            .map(|side| side.change.as_ref().map(|(_, of)| *of))
            .collect();
        assert_eq!(of, [None, None, None, Some(2), Some(2), None, Some(5)]);
        let reason = "b: not measured with kernel /k: only a guest of brisk's can be given another \
                      kernel";
        assert_eq!(left_out, [reason]);
    }

    #[test]
    fn names_are_unique_and_each_ablation_has_a_target() {
        let twice = [target("x=host"), target("x=command:nice")];
        assert_eq!(
            sides(&twice, &[], &Here::default()),
            Err(PlanError::Twice("x".into()))
        );
        let host = sides(&[target("host=command:nice")], &[], &Here::default());
        assert_eq!(host, Err(PlanError::Twice("host".into())));
        let nobody = sides(
            &[target("x=runc:")],
            &[Ablation::Kernel(None)],
            &Here::default(),
        );
        assert!(matches!(nobody, Err(PlanError::Ablation(_))), "{nobody:?}");
    }
}

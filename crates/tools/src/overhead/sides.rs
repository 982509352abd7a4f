//! Sides of the comparison: the host twice, the targets, and what is changed about them. Pure.

use std::collections::BTreeSet;

use super::ablation::{Ablation, Here};
use super::guest::PINNING;
use super::plan::PlanError;
use super::target::{Kind, Target};
use crate::idle::prove::Start;
use crate::idle::text::Text;

/// The side that all others are compared with.
pub(super) const HOST: usize = 0;
/// The host once more.
pub(super) const AGAIN: usize = 1;
/// Name of the host.
const HOST_NAME: &str = "host";
/// Name of its repetition.
pub(super) const AGAIN_NAME: &str = "host again";
/// Name of a guest whose changes are tried.
const GUEST_NAME: &str = "guest";

/// One of what is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// Name in the report, unique.
    pub name: String,
    /// How it is started.
    pub kind: Kind,
    /// How it differs from the side of the number: an ablation of a target.
    pub change: Option<(Ablation, usize)>,
    /// A guest that is started for each run; none for a side that stays.
    pub trial: Option<Trial>,
}

impl Side {
    /// Of a kind, and with nothing changed.
    fn plain(name: &str, kind: &Kind) -> Self {
        Self {
            name: name.to_owned(),
            kind: kind.clone(),
            change: None,
            trial: None,
        }
    }

    /// The host, and the host once more.
    fn hosts() -> [Self; 2] {
        [HOST_NAME, AGAIN_NAME].map(|name| Self::plain(name, &Kind::Host))
    }
}

/// A guest that is started as somebody describes it, and ended after the run. Its definition stays
/// as it is.
#[derive(Debug, Clone)]
pub struct Trial {
    /// What starts it.
    pub start: Start,
    /// Its description.
    pub text: Text,
    /// Whether the description says which processors it runs on, and that is what is tried: it is not
    /// kept on others then.
    pub has_places: bool,
}

impl PartialEq for Trial {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Trial {}

/// The host twice, and a guest as it is described and with the changes of rules, each started for
/// its runs. `kind` is how the guest is reached when it runs.
#[must_use]
pub fn sides_of_trial(kind: &Kind, start: &Start, texts: [Text; 2], rules: &[String]) -> Vec<Side> {
    let has_places = rules.iter().any(|rule| rule == PINNING);
    let [before, after] = texts.map(|text| {
        Some(Trial {
            start: start.clone(),
            text,
            has_places,
        })
    });
    let fix = Ablation::Fix(rules.to_vec());
    let mut sides = Side::hosts().to_vec();
    let original = sides.len();
    sides.push(Side {
        trial: before,
        ..Side::plain(GUEST_NAME, kind)
    });
    sides.push(Side {
        trial: after,
        change: Some((fix.clone(), original)),
        ..Side::plain(&format!("{GUEST_NAME} {fix}"), kind)
    });
    sides
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
    let mut sides = Side::hosts().to_vec();
    let mut taken = BTreeSet::from([HOST_NAME]);
    let mut left_out = Vec::new();
    let mut used = BTreeSet::new();
    for target in targets {
        if !taken.insert(&target.name) {
            return Err(PlanError::Twice(target.name.clone()));
        }
        let original = sides.len();
        sides.push(Side::plain(&target.name, &target.kind));
        for (number, ablation) in ablations.iter().enumerate() {
            match ablation.of(&target.kind, here) {
                Ok(kind) => {
                    used.insert(number);
                    sides.push(Side {
                        change: Some((ablation.clone(), original)),
                        ..Side::plain(&format!("{} {ablation}", target.name), &kind)
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

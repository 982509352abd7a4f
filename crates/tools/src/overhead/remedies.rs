//! Which rules about the definition of a guest have to do with what was measured of it. Pure.

use super::explain::{Explanation, LOSSES};
use super::judgement::Judged;

/// A rule of [`super::guest`] that may change what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remedy {
    /// The rule.
    pub rule: &'static str,
    /// What was measured, as the beginning of a sentence.
    pub because: &'static str,
}

/// Rules of [`super::rules`] whose findings rules about a guest have to do with.
const OF_CAVEATS: [(&str, Remedy); 7] = [
    of("emulation", "guest-tcg", "its processor is emulated"),
    of(
        "other-processor",
        "guest-cpu-model",
        "its processor is not the host's",
    ),
    of(
        "other-mitigations",
        "guest-cpu-model",
        "its mitigations are not the host's",
    ),
    of("neighbours", "guest-pinning", "others had its processors"),
    of("not-pinned", "guest-pinning", "it ran on other processors"),
    of(
        "unsafe-cache",
        "guest-unsafe-cache",
        "its flushes are ignored",
    ),
    of(
        "other-file-system",
        "guest-sync-cache",
        "its work is on a disk",
    ),
];

/// Parts of a loss, in the order of [`LOSSES`], and the rules that make them smaller.
const OF_LOSSES: [(usize, Remedy); 6] = [
    (
        0,
        because("guest-cpu-model", "it loses most in its programs"),
    ),
    (
        0,
        because("guest-huge-pages", "it loses most in its programs"),
    ),
    (
        1,
        because("guest-huge-pages", "it loses most by page faults"),
    ),
    (
        1,
        because("guest-small-pages", "it loses most by page faults"),
    ),
    (
        2,
        because("guest-sync-cache", "it loses most when it reads and writes"),
    ),
    (
        3,
        because("guest-huge-pages", "it loses most when it starts programs"),
    ),
];

const fn of(
    caveat: &'static str,
    rule: &'static str,
    because: &'static str,
) -> (&'static str, Remedy) {
    (caveat, Remedy { rule, because })
}

const fn because(rule: &'static str, because: &'static str) -> Remedy {
    Remedy { rule, because }
}

/// Rules for what is said about a target, each once.
#[must_use]
pub fn remedies(judged: Option<&Judged>, explained: Option<&Explanation>) -> Vec<Remedy> {
    let findings = judged.map_or(&[][..], |judged| &judged.findings[..]);
    let of_caveats = OF_CAVEATS.iter().filter_map(|(caveat, remedy)| {
        findings
            .iter()
            .any(|finding| finding.rule == *caveat)
            .then_some(*remedy)
    });
    let largest = explained.and_then(largest);
    let of_losses = OF_LOSSES
        .iter()
        .filter_map(|(part, remedy)| (Some(*part) == largest).then_some(*remedy));
    let mut all: Vec<Remedy> = Vec::new();
    for remedy in of_caveats.chain(of_losses) {
        if all.iter().all(|one| one.rule != remedy.rule) {
            all.push(remedy);
        }
    }
    all
}

/// The largest part of a loss, if it is known.
fn largest(explained: &Explanation) -> Option<usize> {
    let parts = (0..LOSSES.len()).filter_map(|part| Some((part, explained.parts[part]?)));
    let parts = parts.filter(|(_, seconds)| *seconds > 0.0);
    let largest = parts.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    Some(largest.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::Description;
    use crate::overhead::{guest, rules};

    fn is_one_of(rules: &[Description], name: &str) -> bool {
        rules.iter().any(|rule| rule.id == name)
    }

    #[test]
    fn rules_are_those_that_there_are() {
        let (guests, caveats) = (guest::descriptions(), rules::descriptions());
        for (caveat, remedy) in OF_CAVEATS {
            assert!(is_one_of(&caveats, caveat), "{caveat}");
            assert!(is_one_of(&guests, remedy.rule), "{}", remedy.rule);
        }
        for (part, remedy) in OF_LOSSES {
            assert!(part < LOSSES.len());
            assert!(is_one_of(&guests, remedy.rule), "{}", remedy.rule);
        }
    }

    #[test]
    fn the_largest_part_of_a_loss_chooses() {
        let explained = |parts| Explanation {
            name: "x".into(),
            loss: 1.0,
            parts,
            stands_in: [false; LOSSES.len()],
        };
        let names = |parts| {
            let remedies = remedies(None, Some(&explained(parts)));
            remedies.iter().map(|one| one.rule).collect::<Vec<_>>()
        };
        let faults = [Some(0.2), Some(0.7), None, Some(0.1)];
        assert_eq!(names(faults), ["guest-huge-pages", "guest-small-pages"]);
        let programs = [Some(0.8), Some(0.7), None, None];
        assert_eq!(names(programs), ["guest-cpu-model", "guest-huge-pages"]);
        assert!(names([None, Some(-0.1), None, None]).is_empty());
        assert!(remedies(None, None).is_empty());
    }
}

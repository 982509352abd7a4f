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

/// Rules of [`super::rules`], each with a rule about a guest that has to do with what it finds, and with
/// what that is.
const OF_CAVEATS: [(&str, &str, &str); 7] = [
    ("emulation", "guest-tcg", "its processor is emulated"),
    (
        "other-processor",
        "guest-cpu-model",
        "its processor is not the host's",
    ),
    (
        "other-mitigations",
        "guest-cpu-model",
        "its mitigations are not the host's",
    ),
    ("neighbours", "guest-pinning", "others had its processors"),
    ("not-pinned", "guest-pinning", "it ran on other processors"),
    (
        "unsafe-cache",
        "guest-unsafe-cache",
        "its flushes are ignored",
    ),
    (
        "other-file-system",
        "guest-sync-cache",
        "its work is on a disk",
    ),
];

/// For each of [`LOSSES`], if it is the largest: what that is, and the rules that make it smaller.
const OF_LOSSES: [(&str, &[&str]); LOSSES.len()] = [
    (
        "it loses most in its programs",
        &["guest-cpu-model", "guest-huge-pages"],
    ),
    (
        "it loses most by page faults",
        &["guest-huge-pages", "guest-small-pages"],
    ),
    (
        "it loses most when it reads and writes",
        &["guest-sync-cache"],
    ),
    (
        "it loses most when it starts programs",
        &["guest-huge-pages"],
    ),
];

/// Rules for what is said about a target, each once.
#[must_use]
pub fn remedies(judged: Option<&Judged>, explained: Option<&Explanation>) -> Vec<Remedy> {
    let findings = judged.map_or(&[][..], |judged| &judged.findings[..]);
    let is_found = |caveat: &str| findings.iter().any(|finding| finding.rule == caveat);
    let of_caveats = OF_CAVEATS
        .into_iter()
        .filter(|(caveat, ..)| is_found(caveat));
    let of_caveats = of_caveats.map(|(_, rule, because)| Remedy { rule, because });
    let of_loss = explained.and_then(largest).into_iter().flat_map(|part| {
        let (because, rules) = OF_LOSSES[part];
        rules.iter().map(move |rule| Remedy { rule, because })
    });
    // A loss that is explained says more than what may have to do with it: the largest comes first.
    let mut found: Vec<_> = of_caveats.chain(of_loss).collect();
    if explained.is_some_and(Explanation::is_explained) {
        found.sort_by_key(|one| {
            OF_CAVEATS
                .iter()
                .any(|(.., because)| *because == one.because)
        });
    }
    let mut all: Vec<Remedy> = Vec::new();
    for remedy in found {
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
    use crate::overhead::{guest, rules};
    use brisk_lint::Description;

    fn is_one_of(rules: &[Description], name: &str) -> bool {
        rules.iter().any(|rule| rule.id == name)
    }

    #[test]
    fn rules_are_those_that_there_are() {
        let (guests, caveats) = (guest::descriptions(), rules::descriptions());
        for (caveat, rule, _) in OF_CAVEATS {
            assert!(is_one_of(&caveats, caveat), "{caveat}");
            assert!(is_one_of(&guests, rule), "{rule}");
        }
        for rule in OF_LOSSES.iter().flat_map(|(_, rules)| *rules) {
            assert!(is_one_of(&guests, rule), "{rule}");
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

//! Decision whether an optimisation helps, by pairs of boots. Pure.

use brisk_measure::{PairedRatio, paired_ratio, signed_rank_test};
use serde::{Deserialize, Serialize};

/// Numbers of pairs after which to look.
pub(crate) const LOOKS: [usize; 4] = [5, 8, 13, 20];
/// A saving below this is not worth a parameter, relative.
const WORTH: f64 = 0.005;
/// Chance of a difference like this without one, at each look. Four looks at this level make about
/// one false verdict in thirty optimisations (Bonferroni).
const LEVEL: f64 = 0.008;
/// Level of significance for an optimisation that leaves the instructions as they are, and so
/// hardly changes anything: most do, and each is a chance for noise.
const DOUBTFUL: f64 = 0.001;

/// Saved instructions that are worth a parameter, relative.
const COUNTED: f64 = 0.01;
/// Instructions that differ by less are as good as the same: longer command lines are read longer.
const SAME: f64 = 0.003;

/// Verdict on an optimisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It saves time and is used from then on.
    Kept,
    /// The boots do not show that it saves time.
    NoGain,
    /// It costs time.
    Slower,
    /// It gives up security, and that was not allowed.
    Refused,
    /// The guest does not boot, or the check fails.
    Broken,
    /// It does not fit the host, or what it would be compared with does not boot.
    Unfit,
}

impl Verdict {
    /// Name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::NoGain => "no gain",
            Self::Slower => "slower",
            Self::Refused => "refused",
            Self::Broken => "broken",
            Self::Unfit => "does not fit",
        }
    }
}

/// The verdict, if there is one by now; at the last look there always is.
///
/// `counted` is the ratio of instructions with and without the optimisation, where they can be
/// counted. They are exact and equal in every run, so they decide what the times leave open: an
/// optimisation that saves instructions is kept unless it is shown to be slower, one that costs
/// instructions is slower unless it is shown to be quicker, and one that changes nearly none and
/// shows no difference is given up early. A decision by times that noise could have made would
/// differ in the next run.
#[must_use]
pub(crate) fn decide(pairs: &[(f64, f64)], counted: Option<f64>) -> Option<Verdict> {
    if !LOOKS.contains(&pairs.len()) {
        return None;
    }
    let last = LOOKS[LOOKS.len() - 1] == pairs.len();
    let PairedRatio { ratio, interval } = paired_ratio(pairs)?;
    let all_one_way = pairs.iter().all(|(a, b)| b < a) || pairs.iter().all(|(a, b)| b > a);
    let same = counted.is_some_and(|counted| (counted - 1.0).abs() < SAME);
    let level = if same { DOUBTFUL } else { LEVEL };
    // With five pairs no test can be that sure; all one way and far off is.
    let clear = signed_rank_test(pairs).is_some_and(|p| p.value <= level)
        || (all_one_way && !same && (interval.high < 0.95 || interval.low > 1.05));
    if clear && interval.high < 1.0 - WORTH {
        return Some(Verdict::Kept);
    }
    if clear && interval.low > 1.0 {
        return Some(Verdict::Slower);
    }
    if last || pairs.len() == LOOKS[1] {
        match counted {
            Some(counted) if counted < 1.0 - COUNTED => return Some(Verdict::Kept),
            Some(counted) if counted > 1.0 + COUNTED => return Some(Verdict::Slower),
            _ => {}
        }
    }
    // Whatever the truth, it saves nothing worth having.
    let hopeless = interval.low > 1.0 - WORTH || (same && (0.97..1.03).contains(&ratio));
    (last || hopeless).then_some(Verdict::NoGain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(count: usize, ratio: f64, noise: f64) -> Vec<(f64, f64)> {
        // A fixed pattern of noise with mean zero.
        let pattern = [0.3, -1.0, 0.7, 1.0, -0.7, -0.3, 0.5, -0.5];
        (0..count)
            .map(|index| {
                let a = 1.0 + noise * pattern[index % 8];
                let b = ratio * (1.0 + noise * pattern[(index * 3 + 1) % 8]);
                (a, b)
            })
            .collect()
    }

    #[test]
    fn a_large_saving_is_seen_at_once() {
        assert_eq!(decide(&pairs(5, 0.7, 0.03), None), Some(Verdict::Kept));
        assert_eq!(decide(&pairs(5, 1.4, 0.03), None), Some(Verdict::Slower));
    }

    #[test]
    fn a_small_saving_takes_more_boots() {
        assert_eq!(decide(&pairs(5, 0.96, 0.02), None), None);
        assert_eq!(decide(&pairs(13, 0.96, 0.01), None), Some(Verdict::Kept));
    }

    #[test]
    fn noise_is_no_saving() {
        assert_eq!(decide(&pairs(20, 1.0, 0.03), None), Some(Verdict::NoGain));
    }

    #[test]
    fn a_machine_that_changes_its_speed_hides_no_saving() {
        let slow = |index: usize| if index % 3 == 0 { 2.0 } else { 1.0 };
        let pairs: Vec<_> = pairs(8, 0.93, 0.02)
            .into_iter()
            .enumerate()
            .map(|(index, (a, b))| (a * slow(index), b * slow(index)))
            .collect();
        assert_eq!(decide(&pairs, Some(0.991)), Some(Verdict::Kept));
    }

    #[test]
    fn what_changes_no_instruction_must_be_surer() {
        let few = pairs(5, 0.9, 0.01);
        assert_eq!(decide(&few, None), Some(Verdict::Kept));
        assert_eq!(decide(&few, Some(1.0)), None);
        assert_eq!(
            decide(&pairs(5, 1.2, 0.01), Some(1.0)),
            Some(Verdict::NoGain)
        );
        assert_eq!(
            decide(&pairs(13, 0.9, 0.01), Some(1.0)),
            Some(Verdict::Kept)
        );
    }

    #[test]
    fn between_looks_there_is_no_verdict() {
        assert_eq!(decide(&pairs(6, 0.5, 0.01), None), None);
    }

    #[test]
    fn instructions_decide_what_the_clock_leaves_open() {
        let close = pairs(8, 0.99, 0.03);
        assert_eq!(decide(&close, None), None);
        assert_eq!(decide(&close, Some(0.98)), Some(Verdict::Kept));
        assert_eq!(decide(&close, Some(0.9999)), Some(Verdict::NoGain));
        // Nor does noise that looks slower, or quicker.
        assert_eq!(
            decide(&pairs(8, 1.02, 0.05), Some(0.97)),
            Some(Verdict::Kept)
        );
        assert_eq!(
            decide(&pairs(8, 0.98, 0.05), Some(1.03)),
            Some(Verdict::Slower)
        );
        // Not against the clock.
        assert_eq!(
            decide(&pairs(5, 1.4, 0.03), Some(0.9)),
            Some(Verdict::Slower)
        );
    }
}

//! What runs amount to: whether two commits differ, and to which of two a third one belongs.
//!
//! Runs of commits that are compared are made in turns, in rounds, so that whatever else happens
//! to the machine happens to all of them. Rounds are added until they tell, and looking at them
//! several times gives chance several chances: each look therefore tests at an equal share of the
//! level that all of them together may have, which bounds the probability of any false alarm
//! whatever the looks have in common (Bonferroni's inequality; the simplest of the spending
//! functions of Lan and DeMets, "Discrete sequential boundaries for clinical trials", Biometrika
//! 70, 1983). The comparisons of a walk share a level in the same way (Dunn, "Multiple comparisons
//! among means", JASA 56, 1961).

use std::collections::BTreeMap;

use brisk_measure::{CompareOptions, Comparison, Sample, Series, Verdict, signed_rank_test};

/// The probability that a range in which nothing changed shows any change: twenty such ranges
/// show none 96 times of 100.
pub(super) const FALSE_ALARM: f64 = 0.002;
/// The probability that a bisection takes any middle for the wrong side.
pub(super) const WRONG_TURN: f64 = 0.05;
/// A commit of a walk whose first rounds look like chance with at least this p-value gets no more.
/// Ending early without a finding adds no false alarms.
const PLAIN: f64 = 0.2;

/// After how many rounds to look, and at which level to test then.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Schedule {
    looks: Vec<u32>,
    /// The fewest rounds that can reach the level.
    least: u32,
    level: f64,
}

impl Schedule {
    /// Looks after `runs` rounds, twice as many and so on up to `most`, with a probability of
    /// `alpha` for a false alarm at any of them. None if so few rounds can never tell: the smallest
    /// p-value of n pairs is 2¹⁻ⁿ, and looks that cannot reach their level take no share of it.
    pub(super) fn new(runs: u32, most: u32, alpha: f64) -> Option<Self> {
        let mut looks = vec![runs.max(2).min(most)];
        while let Some(&last) = looks.last().filter(|last| **last < most) {
            looks.push(last.saturating_mul(2).min(most));
        }
        let mut tests = looks.clone();
        loop {
            let level = alpha / tests.len() as f64;
            let least = pairs_for(level);
            let before = tests.len();
            tests.retain(|look| *look >= least);
            if tests.is_empty() {
                return None;
            }
            if tests.len() == before {
                return Some(Self {
                    looks,
                    least,
                    level,
                });
            }
        }
    }

    /// The numbers of rounds after which to look.
    pub(super) fn looks(&self) -> &[u32] {
        &self.looks
    }

    fn tells(&self, pairs: usize, p: f64) -> bool {
        pairs >= self.least as usize && p <= self.level
    }
}

/// The fewest pairs whose smallest p-value, 2¹⁻ⁿ, reaches a level.
pub(super) fn pairs_for(level: f64) -> u32 {
    (1.0 - level.log2()).ceil() as u32
}

/// The samples of a series from a round on.
pub(super) fn since(series: &Series, round: u32) -> Series {
    let late = |sample: &&Sample| sample.iteration >= round;
    let mut part = Series::new(series.name.clone(), series.unit);
    part.samples = series.measured().filter(late).cloned().collect();
    part
}

/// How patient a comparison is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// It ends when nothing points to a difference.
    Little,
    /// It ends when a difference, or the lack of one, is shown.
    Much,
}

/// Compares two commits by the rounds they share. The verdict is inconclusive as long as more
/// rounds are of use. A difference has to be beyond chance at the schedule's level, by Wilcoxon's
/// signed-rank test, and its median larger than `tolerance`.
pub(super) fn compare(
    before: &Series,
    after: &Series,
    schedule: &Schedule,
    tolerance: f64,
    patience: Patience,
) -> Comparison {
    let mut comparison = Comparison::of(before, after, &CompareOptions::default());
    let pairs = before.pairs(after);
    comparison.p_value = signed_rank_test(&pairs);
    let (Some(p), Some(ratio)) = (comparison.p_value, comparison.ratio) else {
        comparison.verdict = Verdict::Inconclusive;
        return comparison;
    };
    let alike = |ratio: f64| ratio <= 1.0 + tolerance && ratio >= 1.0 / (1.0 + tolerance);
    let surely_alike = comparison
        .ratio_interval
        .is_some_and(|interval| alike(interval.low) && alike(interval.high));
    comparison.verdict = if schedule.tells(pairs.len(), p.value) && !alike(ratio) {
        if ratio > 1.0 {
            Verdict::Slower
        } else {
            Verdict::Faster
        }
    } else if surely_alike || (patience == Patience::Little && p.value >= PLAIN) {
        Verdict::NoDifference
    } else {
        Verdict::Inconclusive
    };
    comparison
}

/// To which side a middle belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Side {
    /// Whether it is nearer to the high end, the newer commit.
    pub(super) high: bool,
    /// Whether that is beyond chance.
    pub(super) certain: bool,
}

/// On which side of the point halfway between the ends the middle lies, by the rounds that all
/// three share; none if there are none. Halfway in ratios: the geometric mean of a round's ends.
pub(super) fn side(
    low: &Series,
    middle: &Series,
    high: &Series,
    schedule: &Schedule,
) -> Option<Side> {
    let of = |series: &Series| -> BTreeMap<u32, f64> {
        let valued = |sample: &Sample| Some((sample.iteration, sample.value()?));
        let all = series.measured().filter_map(valued);
        all.filter(|(_, value)| *value > 0.0).collect()
    };
    let (low, middle, high) = (of(low), of(middle), of(high));
    let (mut centred, mut ends) = (Vec::new(), Vec::new());
    for (round, value) in middle {
        if let (Some(low), Some(high)) = (low.get(&round), high.get(&round)) {
            centred.push(((low * high).sqrt(), value));
            ends.push((high / low).ln());
        }
    }
    let offsets = centred.iter().map(|(centre, value)| (value / centre).ln());
    let offset = median(offsets.collect())?;
    let rising = median(ends)? >= 0.0;
    let p = signed_rank_test(&centred)?;
    Some(Side {
        high: (offset > 0.0) == rising,
        certain: schedule.tells(centred.len(), p.value),
    })
}

/// As [`side`], of single exact values.
pub(super) fn exact_side(low: f64, middle: f64, high: f64) -> bool {
    (middle - high).abs() < (middle - low).abs()
}

fn median(values: Vec<f64>) -> Option<f64> {
    brisk_measure::Statistic::Median.of(&values)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Noise;
    use super::*;
    use brisk_measure::Unit;

    #[test]
    fn looks_share_the_level_they_can_reach() {
        let schedule = Schedule::new(5, 40, 0.01).unwrap();
        assert_eq!(schedule.looks(), [5, 10, 20, 40]);
        // Five pairs reach 1/16 only.
        assert!((schedule.level - 0.01 / 3.0).abs() < 1e-12);
        assert_eq!(schedule.least, 10);
        assert_eq!(Schedule::new(10, 7, 0.01), None);
        assert_eq!(Schedule::new(10, 8, 0.01).unwrap().looks(), [8]);
        assert_eq!(pairs_for(1.0 / 1024.0), 11);
    }

    /// Compares as the engine does, and gives the verdict and the rounds it took.
    fn rounds(noise: &mut Noise, ratio: f64, alpha: f64, patience: Patience) -> (Verdict, u32) {
        let schedule = Schedule::new(10, 40, alpha).unwrap();
        let mut a = Series::new("a", Unit::Seconds);
        let mut b = Series::new("b", Unit::Seconds);
        let mut done = 0;
        for &look in schedule.looks() {
            for round in done..look {
                a.push(Sample::measured(round, noise.of(1.0)));
                b.push(Sample::measured(round, noise.of(ratio)));
            }
            done = look;
            let comparison = compare(&a, &b, &schedule, 0.02, patience);
            if comparison.verdict != Verdict::Inconclusive {
                return (comparison.verdict, done);
            }
        }
        (Verdict::NoDifference, done)
    }

    #[test]
    fn walks_without_a_change_raise_no_alarm() {
        let mut noise = Noise::new(11);
        let mut cost = 0;
        for _ in 0..20 * 64 {
            let (verdict, runs) = rounds(&mut noise, 1.0, FALSE_ALARM / 64.0, Patience::Little);
            assert_eq!(verdict, Verdict::NoDifference);
            cost += runs;
        }
        assert!(cost < 20 * 64 * 16, "{cost} rounds");
    }

    #[test]
    fn a_tenth_is_seen_in_either_direction() {
        let mut noise = Noise::new(12);
        for (ratio, verdict) in [(1.1, Verdict::Slower), (1.0 / 1.1, Verdict::Faster)] {
            let seen = |alpha: f64, patience: Patience, noise: &mut Noise| {
                let all = (0..50).map(|_| rounds(noise, ratio, alpha, patience).0);
                all.filter(|found| *found == verdict).count()
            };
            assert_eq!(seen(FALSE_ALARM, Patience::Much, &mut noise), 50);
            // A walk of 64 commits tests each at a 64th of the level.
            assert!(seen(FALSE_ALARM / 64.0, Patience::Little, &mut noise) >= 43);
        }
    }

    #[test]
    fn sides_do_not_depend_on_the_direction() {
        let schedule = Schedule::new(10, 40, 0.01).unwrap();
        let series = |value| Series::of_values("s", Unit::Seconds, [value; 20]);
        for (low, middle, high, is_high) in [
            (1.0, 1.0, 1.1, false),
            (1.0, 1.1, 1.1, true),
            (1.1, 1.1, 1.0, false),
            (1.1, 1.0, 1.0, true),
            (1.0, 1.5, 1.1, true),
            (1.0, 0.5, 1.1, false),
        ] {
            let side = side(&series(low), &series(middle), &series(high), &schedule).unwrap();
            assert_eq!((side.high, side.certain), (is_high, true));
            assert_eq!(exact_side(low, middle, high), is_high);
        }
        assert_eq!(
            side(
                &series(1.0),
                &Series::new("s", Unit::Seconds),
                &series(1.0),
                &schedule
            ),
            None
        );
    }
}

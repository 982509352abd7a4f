//! Statistics of a range: whether two commits differ, and to which of two a third one belongs.
//!
//! Runs of commits that are compared are interleaved in rounds, in a random order, so that load on
//! the host affects all of them. Rounds are added until the result is significant. Several looks
//! give chance several chances: each look therefore tests at an equal share of the level that all
//! of them together may have, which limits the probability of any false alarm however the looks
//! depend on each other (Bonferroni's inequality; the simplest of the spending functions of Lan and
//! DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 70, 1983). The
//! comparisons of a walk share a level in the same way (Dunn, "Multiple comparisons among means",
//! JASA 56, 1961).
//!
//! A bisection searches quickly and then proves its result: see [`Bisection`]. Its ends are
//! compared at [`ENDS`], middles go to the likelier side, and the two commits that remain are
//! compared at [`PROOF`] by runs of their own. A range without a change shows one only if chance
//! deceives both comparisons in one direction: the product of the levels, halved.
//!
//! [`Bisection`]: super::plan::Bisection

use std::collections::BTreeMap;

use brisk_measure::{
    CompareOptions, Comparison, Sample, Series, Verdict, paired_ratio, signed_rank_test,
};

/// The probability that a range in which nothing changed shows any change: twenty such ranges
/// show none 96 times of 100.
pub(super) const FALSE_ALARM: f64 = 0.002;
/// Probability that the ends of a quick search look different although they are not.
pub(super) const ENDS: f64 = 0.05;
/// Probability that the two commits of a quick search's result look different although they are
/// not.
pub(super) const PROOF: f64 = 0.04;
/// Probability that a careful search takes any middle for the wrong side.
pub(super) const WRONG_TURN: f64 = 0.05;
/// P-value in the first rounds from which on a commit of a walk gets no more rounds. Ending early
/// without a finding adds no false alarms.
const PLAIN: f64 = 0.2;
/// Points at which the ends of a bisection get no more rounds: after this many rounds and this
/// share of all rounds, with at least this p-value, and a difference that hardly reaches [`WORTH`].
/// They would not reach a verdict any more.
const HOPELESS: [(u32, f64, f64); 3] = [(12, 0.0, 0.4), (12, 0.5, 0.25), (12, 0.75, 0.1)];

/// Ratio of times that the search continues for as long as it is possible.
const WORTH: f64 = 1.1;

/// Numbers of rounds after which to look, with the level of the tests.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Schedule {
    looks: Vec<u32>,
    /// The fewest rounds that are tested.
    first: u32,
    level: f64,
}

impl Schedule {
    /// Plans looks with the probability `alpha` of a false alarm at any of them, the first after
    /// `runs` rounds, each half as many again as the one before, up to `most`. `None` if so few
    /// rounds can never be significant: the smallest p-value of n pairs is 2¹⁻ⁿ. A look that cannot
    /// reach its level takes no share of it.
    pub(super) fn new(runs: u32, most: u32, alpha: f64) -> Option<Self> {
        let early = runs.max(2).min(most);
        (1..=MOST_LOOKS).find_map(|shares| {
            let first = early.max(pairs_for(alpha / f64::from(shares)));
            let mut tests = vec![first];
            while let Some(&last) = tests.last().filter(|last| **last < most) {
                tests.push(last.saturating_add(last.div_ceil(2)).min(most));
            }
            let fits = first <= most && tests.len() <= shares as usize;
            fits.then(|| {
                let level = alpha / tests.len() as f64;
                let mut looks = tests;
                if early < first {
                    looks.insert(0, early);
                }
                Self {
                    looks,
                    first,
                    level,
                }
            })
        })
    }

    /// The numbers of rounds after which to look.
    pub(super) fn looks(&self) -> &[u32] {
        &self.looks
    }

    fn decides(&self, pairs: usize, p: f64) -> bool {
        pairs >= self.first as usize && p <= self.level
    }

    /// Whether ends that look like this are unlikely to reach a verdict.
    fn hopeless(&self, pairs: usize, p: f64) -> bool {
        let most = self.looks.last().copied().unwrap_or(0);
        let share = pairs as f64 / f64::from(most);
        HOPELESS
            .iter()
            .any(|&(least, from, limit)| pairs >= least as usize && share >= from && p >= limit)
    }
}

/// More looks than this are not worth their share of the level.
const MOST_LOOKS: u32 = 12;

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

/// Patience of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// End when nothing points to a difference.
    Little,
    /// End when a difference, or the lack of one, is shown, or when neither is to be expected.
    Much,
}

/// Two commits that are to be compared, by their places in the range.
pub(super) struct Trial<'a> {
    pub(super) before: usize,
    pub(super) after: usize,
    /// None in deterministic mode.
    pub(super) schedule: Option<&'a Schedule>,
    pub(super) patience: Patience,
    /// Those that may turn out not to boot.
    pub(super) suspects: &'a [usize],
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
    comparison.verdict = if schedule.decides(pairs.len(), p.value) && !alike(ratio) {
        if ratio > 1.0 {
            Verdict::Slower
        } else {
            Verdict::Faster
        }
    } else if surely_alike
        || match patience {
            Patience::Little => p.value >= PLAIN,
            Patience::Much => schedule.hopeless(pairs.len(), p.value) && !may_be_worth(&pairs),
        }
    {
        Verdict::NoDifference
    } else {
        Verdict::Inconclusive
    };
    comparison
}

/// Whether the ratio may still be at least [`WORTH`], by its 95 % interval: on a host whose
/// speed changes much, a dozen pairs say little.
fn may_be_worth(pairs: &[(f64, f64)]) -> bool {
    paired_ratio(pairs)
        .is_none_or(|ratio| ratio.interval.high >= WORTH || ratio.interval.low <= WORTH.recip())
}

/// Side of a middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Side {
    /// Whether it is nearer to the high end, the newer commit.
    pub(super) high: bool,
    /// Whether that is beyond chance.
    pub(super) certain: bool,
}

/// Side of the point halfway between the ends on which the middle lies, by the rounds that all
/// three share; `None` if there are none. Halfway in ratios: the geometric mean of a round's ends.
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
        certain: schedule.decides(centred.len(), p.value),
    })
}

/// Fewest runs of a middle: two of them may be disturbed, and the median is not.
const FEWEST: usize = 5;
/// Runs of each end that are looked at beside them: the latest, because the host changes.
const WINDOW: usize = 6;
/// The probability of a wrong turn at which a quick search takes it.
const LIKELY: f64 = 0.002;
/// Factor from the median absolute deviation of few values to the standard deviation.
const SCALE: f64 = 1.2 * 1.4826;
/// Least relative noise that is assumed.
const QUIETEST: f64 = 0.005;

/// Likely side of the point halfway between the ends on which a middle lies, by its runs and the
/// latest of the ends; `None` if there are none. The runs of the ends need not be of the same
/// rounds.
///
/// The logarithm of the odds is that of two normal distributions for the median of the middle, at
/// the one end and at the other (the sequential probability ratio test: Wald, "Sequential tests of
/// statistical hypotheses", Annals of Mathematical Statistics 16, 1945). Location and scale are
/// robust, because single runs are disturbed. Its assumptions make it quick; the result is proven
/// afterwards.
pub(super) fn likely_side(low: &Series, middle: &Series, high: &Series) -> Option<Side> {
    let logs = |series: &Series, most: usize| -> Vec<f64> {
        let values = series.values();
        let late = &values[values.len().saturating_sub(most)..];
        late.iter().filter(|v| **v > 0.0).map(|v| v.ln()).collect()
    };
    let middle = logs(middle, usize::MAX);
    let window = WINDOW.max(middle.len());
    let (low, high) = (logs(low, window), logs(high, window));
    let places = [
        median(low.clone())?,
        median(middle.clone())?,
        median(high.clone())?,
    ];
    let deviations = [&low, &middle, &high].into_iter().zip(places);
    let deviations = deviations.flat_map(|(all, place)| all.iter().map(move |v| (v - place).abs()));
    let scale = (SCALE * median(deviations.collect())?).max(QUIETEST);
    let [at_low, at, at_high] = places;
    let offset = at - (at_low + at_high) / 2.0;
    let inverse = |all: &[f64]| 1.0 / all.len() as f64;
    // The variance of a median is π/2 times that of a mean.
    let variance = std::f64::consts::FRAC_PI_2
        * scale.powi(2)
        * ((inverse(&low) + inverse(&high)) / 4.0 + inverse(&middle));
    let odds = (at_high - at_low) * offset / variance;
    Some(Side {
        high: odds > 0.0,
        certain: middle.len() >= FEWEST && odds.abs() >= ((1.0 - LIKELY) / LIKELY).ln(),
    })
}

/// Side of a middle as of [`side`], from single exact values.
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
        // Five pairs reach 1/16 only, and are no reason to find anything.
        assert_eq!(schedule.looks(), [5, 10, 15, 23, 35, 40]);
        assert_eq!((schedule.first, schedule.level), (10, 0.01 / 5.0));
        assert!(!schedule.decides(9, 0.0) && schedule.decides(10, 0.002));
        let schedule = Schedule::new(8, 40, ENDS).unwrap();
        assert_eq!(schedule.looks(), [8, 12, 18, 27, 40]);
        assert_eq!(schedule.first, 8);
        assert_eq!(Schedule::new(10, 7, 0.01), None);
        assert_eq!(Schedule::new(10, 8, 0.01).unwrap().looks(), [8]);
        assert_eq!(pairs_for(1.0 / 1024.0), 11);
    }

    proptest::proptest! {
        #[test]
        fn levels_are_never_exceeded(runs in 2..100_u32, most in 2..200_u32, alpha in 1e-6..0.2) {
            if let Some(schedule) = Schedule::new(runs, most, alpha) {
                let tests = schedule.looks.iter().filter(|look| schedule.decides(**look as usize, 0.0));
                proptest::prop_assert!(tests.count() as f64 * schedule.level <= alpha * 1.000_001);
                proptest::prop_assert!(pairs_for(schedule.level) <= schedule.first);
                proptest::prop_assert_eq!(schedule.looks.last(), Some(&most));
                proptest::prop_assert!(schedule.looks.is_sorted());
            }
        }
    }

    #[test]
    fn a_middle_goes_to_the_likelier_side() {
        let series = |values: &[f64]| Series::of_values("s", Unit::Seconds, values.to_vec());
        let quiet = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98];
        let low = series(&quiet);
        let high = series(&quiet.map(|value| value * 1.1));
        for (values, is_high, certain) in [
            (&[1.0, 1.01, 0.99, 1.0, 0.98][..], false, true),
            (&[1.1, 1.09, 1.12, 1.1, 1.11], true, true),
            // Two runs were disturbed.
            (&[1.0, 1.9, 0.99, 1.0, 1.5], false, true),
            // Too few, and between the two.
            (&[1.1, 1.09, 1.12, 1.1], true, false),
            (&[1.04, 1.06, 1.03, 1.08, 1.05], true, false),
        ] {
            let found = likely_side(&low, &series(values), &high).unwrap();
            assert_eq!(
                (found.high, found.certain),
                (is_high, certain),
                "{values:?}"
            );
            let turned = likely_side(&high, &series(values), &low).unwrap();
            assert_eq!(
                (turned.high, turned.certain),
                (!is_high, certain),
                "{values:?}"
            );
        }
        assert_eq!(likely_side(&low, &series(&[]), &high), None);
        // Ends that look alike say nothing.
        assert!(!likely_side(&low, &series(&quiet), &low).unwrap().certain);
    }

    #[test]
    fn ends_are_not_given_up_while_they_may_differ() {
        let schedule = Schedule::new(8, 80, ENDS).unwrap();
        let verdict = |spread: f64| {
            // Alike, slower and quicker by turns: nothing that decides.
            let swing = [0.0, spread, -spread];
            let before = Series::of_values("a", Unit::Seconds, vec![1.0; 15]);
            let values = (0..15).map(|at| 1.0 + swing[at % 3] + at as f64 * 1e-6);
            let after = Series::of_values("b", Unit::Seconds, values);
            let compared = compare(&before, &after, &schedule, 0.0, Patience::Much);
            assert!(compared.p_value.unwrap().value >= 0.4);
            compared.verdict
        };
        assert_eq!(verdict(0.02), Verdict::NoDifference);
        assert_eq!(verdict(0.4), Verdict::Inconclusive);
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

//! Permutation tests of the difference between two series.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bootstrap::Statistic;
use crate::random::SplitMix64;

/// Up to this number, all arrangements are tried; beyond, that number minus one is drawn.
const ARRANGEMENTS: u64 = 10_000;

/// The probability of a difference at least as large as the one found, if the two series were
/// alike.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PValue {
    /// The two-sided p-value, above 0 and at most 1.
    pub value: f64,
    /// Number of arrangements that were tried.
    pub arrangements: u64,
    /// Whether these were all arrangements.
    pub exact: bool,
}

/// Permutation test of two independent series for a difference of their statistic; none if one of
/// them is empty.
///
/// All ways to deal the values into two groups of the same sizes are tried when they are few.
/// Otherwise random ones are, and the p-value is (k+1)/(m+1): Phipson and Smyth, "Permutation
/// p-values should never be zero", Statistical Applications in Genetics and Molecular Biology
/// 9(1), 2010.
pub fn two_sample_test(a: &[f64], b: &[f64], statistic: Statistic, seed: u64) -> Option<PValue> {
    let found = statistic.of(b)? - statistic.of(a)?;
    let mut pool = sorted(a.iter().chain(b));
    let mut right = vec![0.0; b.len()];
    let mut left = vec![0.0; a.len()];
    if let Some(count) = combinations(pool.len(), b.len()) {
        let mut chosen: Vec<usize> = (0..b.len()).collect();
        let mut hits = 0;
        loop {
            deal(&pool, &chosen, &mut left, &mut right);
            hits += u64::from(as_far(difference(statistic, &mut left, &mut right), found));
            if !next_combination(&mut chosen, pool.len()) {
                return Some(exact(hits, count));
            }
        }
    }
    let mut random = SplitMix64::new(seed);
    Some(monte_carlo(|| {
        // Fisher and Yates, as far as the second group needs it.
        for place in 0..right.len() {
            let other = place + random.below(pool.len() - place);
            pool.swap(place, other);
        }
        let (dealt, rest) = pool.split_at(right.len());
        right.copy_from_slice(dealt);
        left.copy_from_slice(rest);
        as_far(difference(statistic, &mut left, &mut right), found)
    }))
}

/// Permutation test of interleaved pairs: the values of each pair are swapped or not; none if
/// there are no pairs. What moved both runs of a pair alike (heat, load) does not disturb it.
///
/// For the mean this is the sign-flip test of the differences (Fisher, "The Design of
/// Experiments", 1935, section 21). Exact and random as in [`two_sample_test`].
pub fn paired_test(pairs: &[(f64, f64)], statistic: Statistic, seed: u64) -> Option<PValue> {
    let (mut left, mut right): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let found = statistic.of(&right)? - statistic.of(&left)?;
    let mut swapped = |swap: &mut dyn FnMut(usize) -> bool| {
        for (place, &(a, b)) in pairs.iter().enumerate() {
            (left[place], right[place]) = if swap(place) { (b, a) } else { (a, b) };
        }
        as_far(difference(statistic, &mut left, &mut right), found)
    };
    if pairs.len() < 64 && 1 << pairs.len() <= ARRANGEMENTS {
        let count = 1u64 << pairs.len();
        let hits = (0..count)
            .filter(|mask| swapped(&mut |place| mask >> place & 1 == 1))
            .count();
        return Some(exact(hits as u64, count));
    }
    let mut random = SplitMix64::new(seed);
    Some(monte_carlo(|| swapped(&mut |_| random.next() >> 63 == 1)))
}

fn exact(hits: u64, count: u64) -> PValue {
    PValue {
        value: hits as f64 / count as f64,
        arrangements: count,
        exact: true,
    }
}

fn monte_carlo(mut hit: impl FnMut() -> bool) -> PValue {
    let drawn = ARRANGEMENTS - 1;
    let hits = (0..drawn).filter(|_| hit()).count() as f64;
    PValue {
        value: (hits + 1.0) / (drawn as f64 + 1.0),
        arrangements: ARRANGEMENTS,
        exact: false,
    }
}

fn difference(statistic: Statistic, left: &mut [f64], right: &mut [f64]) -> f64 {
    statistic.of_scratch(right) - statistic.of_scratch(left)
}

/// Whether `difference` is at least as far from 0 as the one found, but for rounding: the same
/// values summed in another order must count as a tie.
fn as_far(difference: f64, found: f64) -> bool {
    difference.abs() >= found.abs() * (1.0 - 1e-10)
}

fn sorted<'a>(values: impl Iterator<Item = &'a f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.copied().collect();
    values.sort_by(f64::total_cmp);
    values
}

/// C(n, k) if it is at most [`ARRANGEMENTS`].
fn combinations(n: usize, k: usize) -> Option<u64> {
    let k = k.min(n - k) as u64;
    (1..=k).try_fold(1u64, |count, i| {
        let next = count.checked_mul(n as u64 - k + i)? / i;
        (next <= ARRANGEMENTS).then_some(next)
    })
}

/// The next choice in lexicographic order, if there is one (Knuth, TAOCP 4A, 7.2.1.3).
fn next_combination(chosen: &mut [usize], n: usize) -> bool {
    let k = chosen.len();
    let Some(place) = (0..k).rev().find(|&place| chosen[place] < n - k + place) else {
        return false;
    };
    chosen[place] += 1;
    for later in place + 1..k {
        chosen[later] = chosen[later - 1] + 1;
    }
    true
}

fn deal(pool: &[f64], chosen: &[usize], left: &mut [f64], right: &mut [f64]) {
    let (mut l, mut r) = (0, 0);
    for (index, &value) in pool.iter().enumerate() {
        if chosen.get(r) == Some(&index) {
            right[r] = value;
            r += 1;
        } else {
            left[l] = value;
            l += 1;
        }
    }
}

#[cfg(test)]
mod tests;

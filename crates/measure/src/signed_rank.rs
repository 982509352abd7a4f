//! The signed-rank test of interleaved pairs, and the ratio that belongs to it.

use crate::bootstrap::Interval;
use crate::permutation::PValue;

/// Beyond so many pairs 2ⁿ is no exact number of arrangements any more, and nobody makes so many
/// boots; earlier pairs are left out.
const MOST: usize = 1000;

/// Wilcoxon's signed-rank test of whether the second value of interleaved pairs tends to differ
/// from the first: two-sided and exact, of the logarithms of the ratios where all values are above
/// 0, else of the differences. None if there are no pairs.
///
/// What moved both runs of a pair alike does not disturb it, as with
/// [`paired_test`](crate::paired_test); and since only ranks count, a run that something else on
/// the host slowed down weighs no more than any other. Equal magnitudes share their middle rank
/// and pairs without a difference keep theirs and count for neither side (Pratt, "Remarks on zeros
/// and ties in the Wilcoxon signed rank procedures", JASA 54, 1959).
///
/// The smallest p-value of n pairs is 2¹⁻ⁿ. Source: Wilcoxon, "Individual comparisons by ranking
/// methods", Biometrics Bulletin 1, 1945. The distribution is counted out over sums of ranks, one
/// pair after another, which takes n³ steps instead of 2ⁿ.
pub fn signed_rank_test(pairs: &[(f64, f64)]) -> Option<PValue> {
    let pairs = &pairs[pairs.len().saturating_sub(MOST)..];
    if pairs.is_empty() {
        return None;
    }
    let positive = pairs.iter().all(|(a, b)| *a > 0.0 && *b > 0.0);
    let mut differences: Vec<f64> = pairs
        .iter()
        .map(|(a, b)| if positive { (b / a).ln() } else { b - a })
        .collect();
    differences.sort_by(|x, y| x.abs().total_cmp(&y.abs()));
    let ranks = double_ranks(&differences);
    let sum = |wanted: fn(&f64) -> bool| -> usize {
        let chosen = differences.iter().zip(&ranks).filter(|(d, _)| wanted(d));
        chosen.map(|(_, rank)| rank).sum()
    };
    let (above, below) = (sum(|d| *d > 0.0), sum(|d| *d < 0.0));
    let counted: Vec<usize> = differences
        .iter()
        .zip(&ranks)
        .filter(|(difference, _)| **difference != 0.0)
        .map(|(_, rank)| *rank)
        .collect();
    let tail = lower_tail(&counted, above.min(below));
    Some(PValue {
        value: (2.0 * tail).min(1.0),
        arrangements: 1u64.checked_shl(counted.len() as u32).unwrap_or(u64::MAX),
        exact: true,
    })
}

/// How much larger the second value of interleaved pairs is than the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedRatio {
    /// The second over the first.
    pub ratio: f64,
    /// The interval that [`signed_rank_test`] would not reject at the level of 5 %. Five pairs
    /// allow no more than 93.75 % of confidence, fewer still less.
    pub interval: Interval,
}

/// The ratio that the signed-rank test of the pairs speaks of: of the middle of the means of any
/// two logarithms of ratios, each with itself, too. None without pairs, or if a value is not above
/// 0.
///
/// A host that is at times slower than at others changes it little, as long as both runs of a
/// pair have the same of that; ratios of medians depend on it. Source: Hodges and Lehmann,
/// "Estimates of location based on rank tests", Annals of Mathematical Statistics 34, 1963; the
/// interval is Tukey's, see Hollander and Wolfe, "Nonparametric Statistical Methods", 1973,
/// chapter 3.
pub fn paired_ratio(pairs: &[(f64, f64)]) -> Option<PairedRatio> {
    let pairs = &pairs[pairs.len().saturating_sub(MOST)..];
    if pairs.is_empty() || pairs.iter().any(|(a, b)| *a <= 0.0 || *b <= 0.0) {
        return None;
    }
    let logs: Vec<f64> = pairs.iter().map(|(a, b)| (b / a).ln()).collect();
    let mut means: Vec<f64> = logs
        .iter()
        .enumerate()
        .flat_map(|(place, x)| logs[place..].iter().map(move |y| f64::midpoint(*x, *y)))
        .collect();
    means.sort_by(f64::total_cmp);
    // How many means on either side are too far out.
    let ranks: Vec<usize> = (1..=logs.len()).collect();
    let mut tail = 0.0;
    let out = chances(&ranks, means.len() / 2)
        .into_iter()
        .take_while(|chance| {
            tail += chance;
            tail <= 0.025
        })
        .count()
        .saturating_sub(1);
    let (last, middle) = (means.len() - 1, means.len() / 2);
    Some(PairedRatio {
        ratio: f64::midpoint(means[last - middle], means[middle]).exp(),
        interval: Interval {
            low: means[out].exp(),
            high: means[last - out].exp(),
        },
    })
}

/// Twice the rank of each of the values, which are sorted by magnitude: whole even for ties.
fn double_ranks(sorted: &[f64]) -> Vec<usize> {
    let mut ranks = Vec::with_capacity(sorted.len());
    while ranks.len() < sorted.len() {
        let first = ranks.len();
        let tied = sorted[first..]
            .iter()
            // Ratios of equal numbers may differ in their last bits.
            .take_while(|value| value.abs() <= sorted[first].abs() * (1.0 + 1e-12))
            .count();
        // The middle of the ranks first+1 to first+tied.
        ranks.extend(std::iter::repeat_n(2 * first + tied + 1, tied));
    }
    ranks
}

/// The probability that the ranks that fall to one side by chance sum to at most `most`.
fn lower_tail(ranks: &[usize], most: usize) -> f64 {
    chances(ranks, most).iter().sum()
}

/// The probabilities that they sum to 0, 1 and so on up to `most`.
fn chances(ranks: &[usize], most: usize) -> Vec<f64> {
    let mut chance = vec![0.0; most + 1];
    chance[0] = 1.0;
    for &rank in ranks {
        for sum in (0..=most).rev() {
            let with = if sum >= rank { chance[sum - rank] } else { 0.0 };
            chance[sum] = (chance[sum] + with) / 2.0;
        }
    }
    chance
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    fn p(differences: &[f64]) -> f64 {
        // Values around 0 are compared by their differences.
        let pairs: Vec<(f64, f64)> = differences.iter().map(|d| (0.0, *d)).collect();
        signed_rank_test(&pairs).unwrap().value
    }

    #[track_caller]
    fn assert_close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-12, "{found} is not {wanted}");
    }

    #[test]
    fn small_cases_are_those_counted_by_hand() {
        assert_eq!(signed_rank_test(&[]), None);
        assert_close(p(&[1.0]), 1.0);
        assert_close(p(&[1.0, 2.0, 3.0, 4.0, 5.0]), 2.0 / 32.0);
        // Sums of at most 1: nothing, or the smallest.
        assert_close(p(&[-1.0, 2.0, 3.0, 4.0, 5.0]), 4.0 / 32.0);
        assert_close(p(&[0.0, 0.0]), 1.0);
    }

    /// Hollander and Wolfe, "Nonparametric Statistical Methods", 1973, page 29: the depression
    /// scale of nine patients; how much less it is after.
    #[allow(clippy::approx_constant, reason = "a measured number")]
    fn depression() -> Vec<f64> {
        let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        before.iter().zip(after).map(|(b, a)| b - a).collect()
    }

    /// R's wilcox.test gives V = 40, p = 0.03906 (two-sided), and with conf.int = TRUE 0.46, with
    /// 95 % from 0.010 to 0.786.
    #[test]
    fn known_values() {
        let differences = depression();
        assert!((p(&differences) - 0.039_062_5).abs() < 1e-9);
        let pairs: Vec<(f64, f64)> = differences.iter().map(|d| (1.0, d.exp())).collect();
        let found = paired_ratio(&pairs).unwrap();
        let Interval { low, high } = found.interval;
        for (found, wanted) in [(found.ratio, 0.46), (low, 0.010), (high, 0.786)] {
            let found = found.ln();
            assert!((found - wanted).abs() < 1e-9, "{found} is not {wanted}");
        }
    }

    #[test]
    fn few_pairs_and_none() {
        assert_eq!(paired_ratio(&[]), None);
        assert_eq!(paired_ratio(&[(1.0, 2.0), (0.0, 2.0)]), None);
        let one = paired_ratio(&[(2.0, 3.0)]).unwrap();
        assert_eq!([one.interval.low, one.interval.high], [one.ratio; 2]);
        assert_close(one.ratio, 1.5);
        let logs: [f64; 5] = [1.0, 2.0, 3.0, 4.0, 6.0];
        let five = paired_ratio(&logs.map(|log| (1.0, log.exp()))).unwrap();
        assert_close(five.ratio.ln(), 3.0);
        assert_close(five.interval.low.ln(), 1.0);
        assert_close(five.interval.high.ln(), 6.0);
    }

    #[test]
    fn a_machine_that_changes_its_speed_leaves_the_ratio() {
        let mut random = SplitMix64::new(5);
        let (mut covered, mut widest) = (0, 0.0_f64);
        for _ in 0..1000 {
            let pairs: Vec<(f64, f64)> = (0..14)
                .map(|_| {
                    let speed = 1.0 + random.unit();
                    let mut boot = |ratio: f64| speed * ratio * (1.0 + 0.05 * random.unit());
                    (boot(1.0), boot(0.9))
                })
                .collect();
            let found = paired_ratio(&pairs).unwrap();
            covered += u32::from(found.interval.contains(0.9));
            widest = widest.max(found.interval.high - found.interval.low);
        }
        assert!((935..=970).contains(&covered), "{covered}");
        assert!(widest < 0.05, "{widest}");
    }

    #[test]
    fn many_pairs_are_counted_out() {
        let all: Vec<f64> = (1..=40).map(f64::from).collect();
        assert_close(p(&all) / 2f64.powi(-39), 1.0);
    }

    #[test]
    fn alike_series_are_rarely_told_apart() {
        let mut random = SplitMix64::new(3);
        let mut alarms = 0;
        for _ in 0..2000 {
            let pairs: Vec<(f64, f64)> = (0..12)
                .map(|_| {
                    let place = 1.0 + random.unit();
                    let stray = if random.below(10) == 0 { 2.0 } else { 1.0 };
                    (
                        place * (1.0 + 0.1 * random.unit()),
                        place * (1.0 + 0.1 * random.unit()) * stray,
                    )
                })
                .collect();
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
            let mixed: Vec<(f64, f64)> = a
                .into_iter()
                .zip(b)
                .map(|(a, b)| if random.below(2) == 0 { (a, b) } else { (b, a) })
                .collect();
            alarms += u32::from(signed_rank_test(&mixed).unwrap().value <= 0.05);
        }
        assert!((60..=110).contains(&alarms), "{alarms}");
    }
}

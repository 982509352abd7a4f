use super::*;
use crate::{Phase, Sample};

/// `n` times around `level` with noise of ± 1 %, drifting alike in every series.
fn times(name: &str, level: f64, n: u32, seed: u64) -> Series {
    let mut random = SplitMix64::new(seed);
    let values = (0..n).map(|run| {
        let drift = 1.0 + f64::from(run % 5) / 10.0;
        level * drift * (0.99 + 0.02 * random.unit())
    });
    Series::of_values(name, Unit::Seconds, values)
}

fn compare(a: &Series, b: &Series, pairing: Pairing, noise_floor: Option<f64>) -> Comparison {
    let options = CompareOptions {
        statistic: Statistic::Mean,
        pairing,
        test: Test::Permutation,
        noise_floor,
    };
    Comparison::of(a, b, &options)
}

#[test]
fn pairs_see_through_drift() {
    let (a, b) = (times("a", 1.0, 12, 1), times("b", 0.95, 12, 2));
    let paired = compare(&a, &b, Pairing::Interleaved, None);
    assert_eq!(paired.verdict, Verdict::Faster);
    assert!(paired.ratio_interval.unwrap().contains(0.95));
    let apart = compare(&a, &b, Pairing::Independent, None);
    assert_eq!(apart.verdict, Verdict::Inconclusive);
}

#[test]
fn the_direction_of_the_series_decides() {
    let (mut a, mut b) = (times("a", 1.0, 12, 1), times("b", 2.0, 12, 2));
    assert_eq!(
        compare(&a, &b, Pairing::Interleaved, None).verdict,
        Verdict::Slower
    );
    assert_eq!(
        compare(&b, &a, Pairing::Interleaved, None).verdict,
        Verdict::Faster
    );
    (a.better, b.better) = (Better::Higher, Better::Higher);
    assert_eq!(
        compare(&a, &b, Pairing::Interleaved, None).verdict,
        Verdict::Faster
    );
}

#[test]
fn the_noise_floor_outranks_significance() {
    let (a, again) = (times("a", 1.0, 20, 1), times("a", 1.0, 20, 3));
    let b = times("b", 0.985, 20, 2);
    let options = CompareOptions {
        statistic: Statistic::Mean,
        ..CompareOptions::default()
    };
    let floor = noise_floor(&a, &again, &options).unwrap();
    assert!((0.001..0.02).contains(&floor), "{floor}");
    assert_eq!(
        compare(&a, &b, Pairing::Interleaved, None).verdict,
        Verdict::Faster
    );
    assert_eq!(
        compare(&a, &b, Pairing::Interleaved, Some(0.05)).verdict,
        Verdict::NoDifference
    );
    let plain = compare(&a, &b, Pairing::Interleaved, None);
    let just_above = 1.0 / plain.ratio.unwrap() - 1.0 + 1e-6;
    let barely = compare(&a, &b, Pairing::Interleaved, Some(just_above));
    assert_eq!(
        (barely.verdict, barely.within_noise()),
        (Verdict::Inconclusive, true)
    );
}

#[test]
fn noise_that_hides_much_is_no_proof_of_no_difference() {
    let (a, b) = (times("a", 1.0, 20, 1), times("b", 1.2, 20, 2));
    let found = compare(&a, &b, Pairing::Interleaved, Some(0.5));
    // It lies within the noise, which is five times as large as what matters.
    let expected = (Verdict::Inconclusive, true);
    assert_eq!((found.verdict, found.within_noise()), expected);
    let alike = times("b", 1.0, 20, 2);
    let found = compare(&a, &alike, Pairing::Interleaved, Some(0.5));
    assert_eq!(found.verdict, Verdict::NoDifference);
}

#[test]
fn like_series_show_no_difference() {
    let a = Series::of_values("a", Unit::Seconds, [500.0; 10]);
    let same = compare(&a, &a, Pairing::Interleaved, None);
    assert_eq!(same.verdict, Verdict::NoDifference);
    assert_eq!((same.ratio, same.p_value.unwrap().value), (Some(1.0), 1.0));
}

#[test]
fn five_pairs_have_no_verdict_by_ranks() {
    let of = |name: &str, value: f64| {
        let values = [1.0, 1.01, 0.99, 1.02, 1.0].map(|one| one * value);
        Series::of_values(name, Unit::PerSecond, values)
    };
    let options = CompareOptions {
        test: Test::SignedRank,
        ..CompareOptions::default()
    };
    for value in [1.0, 30.0] {
        let found = Comparison::of(&of("a", 1.0), &of("b", value), &options);
        let known = (found.verdict, found.ratio_interval, found.p_value);
        assert_eq!(known, (Verdict::Inconclusive, None, None));
        assert!(found.ratio.is_some());
    }
}

#[test]
fn six_pairs_without_overlap_are_decided_by_their_ranks() {
    // Wakeups of a guest with and without a kernel that ticks.
    let before = [998.7, 984.8, 934.4, 916.0, 992.3, 944.6];
    let fixed = [30.3, 31.6, 33.0, 32.3, 32.3, 37.3];
    let a = Series::of_values("a", Unit::PerSecond, before);
    let b = Series::of_values("b", Unit::PerSecond, fixed);
    let by = |test| {
        let options = CompareOptions {
            test,
            ..CompareOptions::default()
        };
        let found = Comparison::of(&a, &b, &options);
        (found.p_value.unwrap().value, found.verdict)
    };
    assert_eq!(by(Test::Permutation), (0.0625, Verdict::Inconclusive));
    assert_eq!(by(Test::SignedRank), (0.03125, Verdict::Faster));
}

#[test]
fn few_or_no_runs_decide_nothing() {
    let (a, b) = (times("a", 1.0, 3, 1), times("b", 2.0, 3, 2));
    assert_eq!(
        compare(&a, &b, Pairing::Independent, None).verdict,
        Verdict::Inconclusive
    );
    let empty = Series::new("none", Unit::Seconds);
    let none = compare(&a, &empty, Pairing::Independent, None);
    assert_eq!(
        (none.verdict, none.ratio, none.p_value),
        (Verdict::Inconclusive, None, None)
    );
    let zero = Series::of_values("zero", Unit::Seconds, [0.0; 5]);
    assert_eq!(compare(&zero, &a, Pairing::Independent, None).ratio, None);
}

#[test]
fn failed_runs_take_their_partner_out() {
    let (mut a, b) = (times("a", 1.0, 12, 1), times("b", 1.0, 12, 2));
    a.samples[3] = Sample::failed(3, Phase::Measured, "panic");
    let found = compare(&a, &b, Pairing::Interleaved, None);
    assert_eq!((found.n_a, found.n_b), (11, 11));
}

#[test]
fn different_units_are_not_compared() {
    let a = Series::of_values("a", Unit::Seconds, [1.0; 10]);
    let b = Series::of_values("b", Unit::Bytes, [2.0; 10]);
    let found = compare(&a, &b, Pairing::Interleaved, None);
    assert_eq!((found.ratio, found.verdict), (None, Verdict::Inconclusive));
}

/// 500 simulated pairs of skewed series whose true ratio of medians is 0.9.
#[test]
fn intervals_of_ratios_cover() {
    let mut random = SplitMix64::new(7);
    let held = (0..500)
        .filter(|_| {
            let a: Vec<f64> = (0..12).map(|_| 1.0 + random.unit().powi(2)).collect();
            let b: Vec<f64> = (0..12)
                .map(|_| 0.9 * (1.0 + random.unit().powi(2)))
                .collect();
            let draw = Draw::Independent(a, b);
            let interval = draw.ratio_interval(Statistic::Median, 400);
            interval.unwrap().contains(0.9)
        })
        .count();
    assert!((465..=495).contains(&held), "{held} of 500");
}

#[test]
fn exact_values_need_no_test() {
    let of = |value| Series::of_values("s", Unit::Instructions, [value]);
    for (b, verdict) in [
        (1000.0, Verdict::NoDifference),
        (1009.0, Verdict::NoDifference),
        (1011.0, Verdict::Slower),
        (989.0, Verdict::Faster),
    ] {
        let found = Comparison::exact(&of(1000.0), &of(b), 0.01);
        assert_eq!((found.verdict, found.p_value), (verdict, None), "{b}");
    }
    let none = Series::new("none", Unit::Instructions);
    let found = Comparison::exact(&of(1000.0), &none, 0.01);
    assert_eq!(found.verdict, Verdict::Inconclusive);
}

#[test]
fn one_instruction_is_a_difference_where_each_run_has_the_same_count() {
    let of = |values: &[f64]| Series::of_values("s", Unit::Instructions, values.iter().copied());
    let options = CompareOptions {
        noise_floor: Some(0.01),
        ..CompareOptions::default()
    };
    let compared = |b: &[f64]| Comparison::of(&of(&[1e6, 1e6]), &of(b), &options);
    for (b, verdict) in [
        (1e6, Verdict::NoDifference),
        (1e6 + 1.0, Verdict::Slower),
        (1e6 - 1.0, Verdict::Faster),
    ] {
        for values in [&[b][..], &[b, b]] {
            let found = compared(values);
            assert_eq!((found.verdict, found.p_value), (verdict, None), "{b}");
            assert!(!found.within_noise(), "{b}");
        }
    }
    // Interrupts moved one of the counts.
    let found = compared(&[1e6 + 1.0, 1e6]);
    assert_ne!(found.verdict, Verdict::Slower);
    assert_eq!(compared(&[]).verdict, Verdict::Inconclusive);
    let seconds = |value| Series::of_values("s", Unit::Seconds, [value, value]);
    let found = Comparison::of(&seconds(1.0), &seconds(1.001), &CompareOptions::default());
    assert_eq!(found.verdict, Verdict::NoDifference);
}

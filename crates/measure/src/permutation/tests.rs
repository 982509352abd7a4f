use super::*;

#[track_caller]
fn assert_close(found: f64, wanted: f64, tolerance: f64) {
    assert!(
        (found - wanted).abs() <= tolerance,
        "{found} is not {wanted}"
    );
}

#[test]
fn exact_two_sample_values_are_those_of_scipy() {
    let a = [1.21, 1.25, 1.19, 1.30, 1.27, 1.22];
    let b = [1.12, 1.18, 1.23, 1.10, 1.15];
    // scipy.stats.permutation_test((a, b), |f(y) − f(x)|, permutation_type="independent",
    // alternative="greater", n_resamples=inf), SciPy 1.17.1.
    for (statistic, value) in [
        (Statistic::Mean, 0.021_645_021_645_021_644),
        (Statistic::Median, 0.032_467_532_467_532_464),
    ] {
        let found = two_sample_test(&a, &b, statistic, 1).unwrap();
        assert_close(found.value, value, 1e-15);
        assert_eq!((found.arrangements, found.exact), (462, true));
        let swapped = two_sample_test(&b, &a, statistic, 1).unwrap();
        assert_close(swapped.value, value, 1e-15);
    }
}

#[test]
fn exact_paired_values_are_those_of_scipy() {
    let a = [1.21, 1.25, 1.19, 1.30, 1.27, 1.22, 1.24, 1.26];
    let b = [1.18, 1.24, 1.20, 1.22, 1.25, 1.15, 1.21, 1.27];
    let pairs: Vec<(f64, f64)> = a.into_iter().zip(b).collect();
    // As above with permutation_type="samples".
    for (statistic, value) in [(Statistic::Mean, 0.0625), (Statistic::Median, 0.125)] {
        let found = paired_test(&pairs, statistic, 1).unwrap();
        assert_close(found.value, value, 1e-15);
        assert_eq!((found.arrangements, found.exact), (256, true));
    }
}

const LONG_A: [f64; 20] = [
    1.102, 0.8722, 1.0209, 0.9716, 0.9774, 0.9892, 0.899, 0.9884, 0.9567, 1.1661, 1.0113, 0.9824,
    0.9859, 0.9666, 0.9472, 0.9805, 1.0241, 0.9881, 1.0479, 0.99,
];
const LONG_B: [f64; 20] = [
    1.0312, 1.1073, 1.0573, 1.0047, 1.0209, 1.057, 1.1268, 1.0165, 1.0178, 1.0801, 0.9857, 1.0154,
    1.0741, 1.059, 1.0346, 1.0635, 0.8886, 1.0811, 0.982, 0.9466,
];

#[test]
fn drawn_arrangements_come_near_the_exact_value() {
    let found = two_sample_test(&LONG_A, &LONG_B, Statistic::Mean, 1).unwrap();
    // scipy.stats.permutation_test with two million resamples; the standard error of ours is
    // √(p(1−p)/9999) = 0.002.
    assert_close(found.value, 0.043_744, 0.007);
    assert!(!found.exact);
}

#[test]
fn a_drawn_value_is_never_zero() {
    let low: Vec<f64> = (0..40).map(f64::from).collect();
    let high: Vec<f64> = low.iter().map(|value| value + 1000.0).collect();
    let pairs: Vec<(f64, f64)> = low.iter().copied().zip(high.iter().copied()).collect();
    let independent = two_sample_test(&low, &high, Statistic::Mean, 1).unwrap();
    let paired = paired_test(&pairs, Statistic::Median, 1).unwrap();
    assert_eq!(independent.value, 1e-4);
    assert_eq!(paired.value, 1e-4);
}

#[test]
fn alike_series_do_not_differ() {
    let same = two_sample_test(&[0.1; 5], &[0.1; 6], Statistic::Mean, 1).unwrap();
    assert_eq!(same.value, 1.0);
    assert_eq!(
        paired_test(&[(0.3, 0.3); 20], Statistic::Mean, 1)
            .unwrap()
            .value,
        1.0
    );
    assert_eq!(two_sample_test(&[], &[1.0], Statistic::Mean, 1), None);
    assert_eq!(paired_test(&[], Statistic::Mean, 1), None);
}

/// Under no difference a p-value of at most 5 % must come up in at most 5 % of the trials.
#[test]
fn the_test_keeps_its_level() {
    let mut random = SplitMix64::new(42);
    let mut draw = || -(1.0 - random.unit()).ln();
    let mut rejected = [0; 2];
    for round in 0..600 {
        let pairs: Vec<(f64, f64)> = (0..6).map(|_| (draw(), draw())).collect();
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let independent = two_sample_test(&a, &b, Statistic::Mean, round).unwrap();
        let paired = paired_test(&pairs, Statistic::Mean, round).unwrap();
        rejected[0] += i32::from(independent.value <= 0.05);
        rejected[1] += i32::from(paired.value <= 0.05);
    }
    // 5 % of 600 is 30, with a standard deviation of 5.3.
    assert!((14..=46).contains(&rejected[0]), "{rejected:?}");
    assert!((6..=46).contains(&rejected[1]), "{rejected:?}");
}

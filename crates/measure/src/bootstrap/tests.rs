use super::*;

/// A standard normal variable (Box and Muller, Annals of Mathematical Statistics 29, 1958).
fn normal(random: &mut SplitMix64) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// The share of 1000 simulated series of `n` values whose interval holds `truth`.
fn coverage(n: usize, statistic: Statistic, truth: f64, draw: fn(f64) -> f64) -> f64 {
    let mut random = SplitMix64::new(20_250_101);
    let held = (0..1000)
        .filter(|&round| {
            let values: Vec<f64> = (0..n).map(|_| draw(normal(&mut random))).collect();
            interval_with(&values, statistic, round, 500)
                .unwrap()
                .contains(truth)
        })
        .count();
    held as f64 / 1000.0
}

/// The documented bounds. The standard error of a simulated coverage of 95 % is 0.7 %.
#[track_caller]
fn assert_covers(found: f64, bounds: std::ops::RangeInclusive<f64>) {
    assert!(bounds.contains(&found), "{found}");
}

#[test]
fn intervals_of_normal_means_cover() {
    assert_covers(coverage(10, Statistic::Mean, 5.0, |z| 5.0 + z), 0.93..=0.97);
    assert_covers(coverage(30, Statistic::Mean, 5.0, |z| 5.0 + z), 0.93..=0.97);
}

#[test]
fn intervals_of_medians_cover() {
    assert_covers(coverage(10, Statistic::Median, 0.0, |z| z), 0.93..=0.98);
    assert_covers(coverage(11, Statistic::Median, 1.0, f64::exp), 0.93..=0.98);
    assert_covers(coverage(30, Statistic::Median, 1.0, f64::exp), 0.93..=0.97);
}

#[test]
fn intervals_of_skewed_means_cover_nearly() {
    // The mean of exp(N(0,1)) is √e.
    let mean = 0.5_f64.exp();
    assert_covers(coverage(10, Statistic::Mean, mean, f64::exp), 0.83..=0.90);
    assert_covers(coverage(30, Statistic::Mean, mean, f64::exp), 0.87..=0.94);
}

#[test]
fn equal_values_have_a_point_for_an_interval() {
    for statistic in [Statistic::Mean, Statistic::Median] {
        let found = interval(&[0.1; 7], statistic, 1).unwrap();
        assert_eq!((found.low, found.high), (0.1, 0.1));
    }
}

#[test]
fn one_value_has_no_interval() {
    assert_eq!(interval(&[1.0], Statistic::Mean, 1), None);
    assert_eq!(interval(&[], Statistic::Median, 1), None);
}

#[test]
fn the_interval_does_not_depend_on_the_order_of_the_runs() {
    let up = interval(&[1.0, 2.0, 3.0, 5.0, 8.0], Statistic::Mean, 7);
    let mixed = interval(&[5.0, 1.0, 8.0, 3.0, 2.0], Statistic::Mean, 7);
    assert_eq!(up, mixed);
}

#[test]
fn quantiles_are_those_of_definition_seven() {
    // numpy.quantile([1, 2, 4, 8], [0, .25, .5, .9, 1]).
    let sorted = [1.0, 2.0, 4.0, 8.0];
    for (p, value) in [(0.0, 1.0), (0.25, 1.75), (0.5, 3.0), (0.9, 6.8), (1.0, 8.0)] {
        assert!((quantile(&sorted, p) - value).abs() < 1e-12, "{p}");
    }
}

use super::*;
use crate::{CompareOptions, Phase, Report, Sample, Unit};

fn of(series: &Series) -> Vec<String> {
    Warning::of_series(series, &Summary::of(series))
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn calm(n: u32) -> Vec<f64> {
    (0..n).map(|run| 1.0 + f64::from(run % 4) / 100.0).collect()
}

#[test]
fn calm_runs_need_no_warning() {
    assert!(of(&Series::of_values("calm", Unit::Seconds, calm(12))).is_empty());
}

#[test]
fn a_slow_first_run_is_no_mere_outlier() {
    let mut values = calm(12);
    values[0] = 4.0;
    let series = Series::of_values("cold", Unit::Seconds, values.clone());
    insta::assert_snapshot!(of(&series).join("\n"), @"cold: the first run took 3.9 times the median, so caches were cold. Add a warm-up run, or measure cold starts only.");
    values[5] = 9.0;
    assert_eq!(
        of(&Series::of_values("cold", Unit::Seconds, values)).len(),
        2
    );
}

#[test]
fn a_median_that_is_not_known_well_is_shown() {
    let noisy = |n: u32| (0..n).map(|run| 1.0 + f64::from(run % 4) / 5.0);
    let series = |name: &str, n| Series::of_values(name, Unit::Seconds, noisy(n));
    insta::assert_snapshot!(of(&series("noisy", 12)).join("\n"), @"noisy: the median is known to 23 % only, so smaller differences are lost in noise. Take more runs, quieten the host, or count instructions.");
    let few = of(&series("few", 6));
    assert!(few.len() == 1 && few[0].contains("are few"), "{few:?}");
    let of_many = |names: &[&str]| {
        let all = names.iter().map(|name| series(name, 12));
        let all: Vec<_> = all
            .flat_map(|s| Warning::of_series(&s, &Summary::of(&s)))
            .collect();
        Warning::lines(&all)
    };
    assert_eq!(of_many(&["a", "b"]).len(), 2);
    insta::assert_snapshot!(of_many(&["a", "b", "c"]).join("\n"), @"the medians of 3 series are known to 23 % only, or a little better, so smaller differences are lost in noise. Take more runs, or quieten the host.");
}

#[test]
fn failures_outliers_and_few_runs_are_shown() {
    let mut series = Series::of_values("s", Unit::Seconds, [1.0, 1.01, 1.02, 0.99, 5.0]);
    series.push(Sample::failed(5, Phase::Measured, "panic"));
    series.push(Sample::timed_out(6, Phase::Measured));
    insta::assert_snapshot!(of(&series).join("\n"), @r"
    s: 2 of 7 runs failed (panic). Numbers are of the others only; find out why before trusting them.
    s: 5 successful runs are few. Take at least 10.
    ");
    let mut values = calm(12);
    values[5] = 5.0;
    insta::assert_snapshot!(of(&Series::of_values("s", Unit::Seconds, values)).join("\n"), @"s: 1 of 12 runs are far from the others. Close other programs, or look at the raw samples for what those runs have in common.");
}

#[test]
fn outliers_of_fewer_than_ten_runs_are_not_shown() {
    for n in 1..RUNS_WANTED as u32 {
        let mut values = calm(n);
        // Not the first one, which may have been slow because caches were cold.
        values.push(50.0);
        values.swap_remove(values.len() / 2);
        let warnings = of(&Series::of_values("s", Unit::Seconds, values));
        assert!(
            warnings.iter().all(|warnings| !warnings.contains("far")),
            "{warnings:?}"
        );
    }
}

#[test]
fn a_difference_within_the_noise_is_shown() {
    let a = Series::of_values("a", Unit::Seconds, calm(12));
    let b = Series::of_values("b", Unit::Seconds, calm(12).iter().map(|v| v * 1.01));
    let options = CompareOptions {
        noise_floor: Some(0.02),
        ..CompareOptions::default()
    };
    let warning = Warning::of_comparison(&Comparison::of(&a, &b, &options)).unwrap();
    insta::assert_snapshot!(warning, @"a and b differ by 1.0 %, but a thing measured twice differs by up to 2.0 % here. Take more runs, quieten the host, or count instructions.");
    let quiet = CompareOptions {
        noise_floor: Some(0.001),
        ..options
    };
    assert_eq!(
        Warning::of_comparison(&Comparison::of(&a, &b, &quiet)),
        None
    );
}

#[test]
fn a_restless_host_is_shown() {
    let environment = Environment {
        load: Some(1.5),
        logical_cpus: Some(2),
        governor: Some("schedutil".to_owned()),
        ..crate::Environment::default()
    };
    assert_eq!(Warning::of_environment(&environment).len(), 2);
    assert!(Warning::of_environment(&crate::Environment::default()).is_empty());
}

#[test]
fn a_warning_of_a_later_version_can_be_read() {
    let read: Warning = serde_json::from_str(r#"{"warning":"moon-phase","full":true}"#).unwrap();
    assert_eq!(read, Warning::Unknown);
}

#[test]
fn what_is_the_same_of_many_series_is_told_once() {
    let few = |series: &str, n| Warning::FewRuns {
        series: series.to_owned(),
        n,
        wanted: 10,
    };
    let all = [few("a", 6), few("b", 3), few("c", 6), few("d", 6)];
    assert_eq!(
        Warning::lines(&all),
        [
            "6 successful runs, as 3 series have, are few. Take at least 10.".to_owned(),
            all[1].to_string(),
        ]
    );
    assert_eq!(Warning::lines(&all[..2]).len(), 2);
}

#[test]
fn outliers_of_all_series_are_told_once() {
    let mut values = calm(12);
    values[5] = 5.0;
    let cold = [&[4.0], &values[1..]].concat();
    let series = |name: &str, values: &[f64]| {
        let series = Series::of_values(name, Unit::Seconds, values.to_vec());
        Warning::of_series(&series, &Summary::of(&series))
    };
    let of_all = |names: &[&str]| {
        let found = names.iter().flat_map(|name| series(name, &cold));
        Warning::lines(&found.collect::<Vec<_>>()).join("\n")
    };
    insta::assert_snapshot!(of_all(&["a", "b"]), @r"
    first runs took longer than the median (a: 3.9 times; b: 3.9 times), so caches were cold. Add a warm-up run, or measure cold starts only.
    some runs are far from the others (a: 2 of 12; b: 2 of 12). Close other programs, or look at the raw samples for what those runs have in common.
    ");
    let many = of_all(&["a", "b", "c", "d", "e", "f", "g", "h"]);
    let named = "(a: 2 of 12; b: 2 of 12; c: 2 of 12; d: 2 of 12; e: 2 of 12; f: 2 of 12; and 2 more series)";
    assert!(many.lines().count() == 2 && many.contains(named), "{many}");
}

#[test]
fn warnings_have_numbers_that_json_has() {
    for values in [
        // A run that took no time that could be told, and one of the smallest numbers.
        vec![330_981.8, f64::MIN_POSITIVE / 4.0, 0.0],
        [vec![0.0; 7], vec![1.0; 6]].concat(),
    ] {
        let series = Series::of_values("a", Unit::Seconds, values);
        let mut report = Report::new("kind", "", crate::Environment::default());
        report.series.push(series);
        report.warn();
        let read: Report = serde_json::from_str(&crate::render::json(&report)).unwrap();
        assert_eq!(read, report);
    }
}

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use brisk_measure::{
    CompareOptions, Environment, Outcome, Phase, Report, ReportError, Sample, Series, Unit, Verdict,
};

use super::*;
use brisk_host::interrupt::Interrupt;

const OPTIONS: CompareOptions = CompareOptions {
    statistic: brisk_measure::Statistic::Median,
    pairing: brisk_measure::Pairing::Interleaved,
    test: brisk_measure::Test::Permutation,
    noise_floor: None,
};

type Failure = Stopped<String>;

/// Values without noise worth mentioning.
fn steady(turn: Turn) -> f64 {
    1.0 + turn.side as f64 + f64::from(turn.iteration) * 1e-4
}

fn report() -> Report {
    Report::new("test", "2026-11-25T00:00:00Z", Environment::default())
}

fn load(file: &Path) -> Vec<usize> {
    let report = Report::load(file).unwrap();
    report.series.iter().map(|s| s.samples.len()).collect()
}

#[test]
fn each_side_runs_once_in_a_round_and_is_first_as_often_as_the_others() {
    let plan = Plan::new(["a", "b", "c"], 3000).seed(7);
    let mut places = HashMap::new();
    for round in 0..3000 {
        let turns = plan.turns(round);
        let mut sides: Vec<_> = turns.iter().map(|turn| turn.side).collect();
        for (place, side) in sides.iter().enumerate() {
            *places.entry((place, *side)).or_insert(0) += 1;
        }
        sides.sort_unstable();
        assert_eq!(sides, [0, 1, 2]);
    }
    assert_eq!(places.len(), 9);
    assert!(
        places.values().all(|count| (900..1100).contains(count)),
        "{places:?}"
    );
}

#[test]
fn orders_are_those_of_the_seed_and_of_the_number_of_the_round() {
    let order = |plan: &Plan| -> Vec<Vec<usize>> {
        let round = |round| plan.turns(round).iter().map(|turn| turn.side).collect();
        (0..20).map(round).collect()
    };
    let plan = |seed| Plan::new(["a", "b", "c"], 20).seed(seed);
    assert_eq!(order(&plan(1)), order(&plan(1)));
    assert_ne!(order(&plan(1)), order(&plan(2)));
    // What goes on from earlier rounds has the orders that they would have gone on with.
    let later = plan(1).beginning_at(5);
    assert_eq!(order(&later)[..15], order(&plan(1))[5..]);
    assert_eq!(later.turns(0)[0].iteration, 5);
    let fixed = plan(1).order(Order::Fixed);
    assert!(order(&fixed).iter().all(|order| *order == [0, 1, 2]));
}

#[test]
fn a_seed_is_noted_in_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.json");
    let noted = |plan: Plan| {
        let mut report = report();
        let interrupt = Interrupt::new().unwrap();
        let experiment = Experiment::new(&plan, &interrupt);
        let none = |_: Turn, _: &mut Readings| Ok::<_, String>(());
        let ended = experiment.run(&mut Saved::new(&mut report, &file), none);
        assert_eq!(ended.unwrap(), End::AllRounds);
        report.environment.extra.get("seed of the order").cloned()
    };
    assert_eq!(noted(Plan::new(["a"], 1).seed(9)).as_deref(), Some("9"));
    assert_eq!(noted(Plan::new(["a"], 1)), None);
    assert_eq!(noted(Plan::new(["a"], 1).order(Order::Fixed)), None);
}

#[test]
fn warm_ups_do_not_count_and_failures_are_kept() {
    let plan = Plan::new(["a", "b"], 3).warmups(2);
    let interrupt = Interrupt::new().unwrap();
    let mut series: Vec<Series> = Vec::new();
    let ended = Experiment::new(&plan, &interrupt).run(&mut series, |turn, readings| {
        readings.put("time", Unit::Seconds, steady(turn));
        let bytes: Outcome = match (turn.side, turn.iteration) {
            (1, 0) => Outcome::TimedOut,
            (1, 1) => Err("no such file".to_owned()).into(),
            (1, _) => f64::NAN.into(),
            _ => 5.0.into(),
        };
        readings.put("memory", Unit::Bytes, bytes);
        Ok::<_, String>(())
    });
    assert_eq!(ended.unwrap(), End::AllRounds);
    let record = Record::new(&plan, &series, 5);
    let time = record.series(0, "time").unwrap();
    assert_eq!((time.name.as_str(), time.unit), ("a: time", Unit::Seconds));
    let numbers: Vec<_> = time
        .samples
        .iter()
        .map(|s| (s.phase, s.iteration))
        .collect();
    let (warm, counts) = (Phase::Warmup, Phase::Measured);
    assert_eq!(
        numbers,
        [(warm, 0), (warm, 1), (counts, 0), (counts, 1), (counts, 2)]
    );
    assert_eq!(record.pairs(0, 1, "time").len(), 3);
    let memory = record.series(1, "memory").unwrap();
    assert_eq!(memory.samples.len(), 5);
    assert!(memory.values().is_empty());
    assert_eq!(memory.samples[2], Sample::timed_out(0, counts));
    assert_eq!(memory.samples[3], Sample::failed(1, counts, "no such file"));
    assert!(record.pairs(0, 1, "memory").is_empty());
    assert!(record.series(0, "speed").is_none());
}

#[test]
fn an_interrupted_experiment_has_saved_what_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.json");
    let plan = Plan::new(["a", "b"], 10).order(Order::Fixed);
    let interrupt = Interrupt::new().unwrap();
    let mut report = report();
    let mut reported = Vec::new();
    let ended: Result<End, Failure> = Experiment::new(&plan, &interrupt)
        .on_round(|progress| reported.push((progress.done, load(&file))))
        .run(&mut Saved::new(&mut report, &file), |turn, readings| {
            readings.put("", Unit::Seconds, steady(turn));
            if (turn.round, turn.side) == (2, 1) {
                interrupt.trigger().unwrap().pull();
            }
            Ok(())
        });
    let Err(Stopped::Interrupted(signal)) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(signal, signal_hook::consts::SIGTERM);
    // Each round was saved before it was reported.
    assert_eq!(reported, [(1, vec![1, 1]), (2, vec![2, 2])]);
    // What ran while the signal came may have been disturbed.
    assert_eq!(load(&file), [3, 2]);
    assert_eq!(Report::load(&file).unwrap(), report);
}

#[test]
fn a_side_that_cannot_be_run_ends_it_and_what_was_measured_is_saved() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.json");
    let plan = Plan::new(["a", "b"], 10).order(Order::Fixed);
    let interrupt = Interrupt::new().unwrap();
    let mut report = report();
    let mut saved = Saved::new(&mut report, &file);
    let ended: Result<End, Failure> =
        Experiment::new(&plan, &interrupt).run(&mut saved, |turn, readings| {
            readings.put("", Unit::Seconds, steady(turn));
            match (turn.round, turn.side) {
                (1, 0) => Err("no such program".to_owned()),
                _ => Ok(()),
            }
        });
    assert!(matches!(ended, Err(Stopped::Run(reason)) if reason == "no such program"));
    assert_eq!(load(&file), [2, 1]);
}

#[test]
fn a_report_that_cannot_be_saved_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gone/report.json");
    let interrupt = Interrupt::new().unwrap();
    let mut report = report();
    let mut runs = 0;
    let plan = Plan::new(["a"], 10);
    let ended: Result<End, Failure> =
        Experiment::new(&plan, &interrupt).run(&mut Saved::new(&mut report, &file), |_, _| {
            runs += 1;
            Ok(())
        });
    assert!(matches!(
        ended,
        Err(Stopped::Save(ReportError::Save { .. }))
    ));
    assert_eq!(runs, 1);
}

#[test]
fn it_ends_when_the_rule_says_so_or_the_time_is_used_up() {
    let interrupt = Interrupt::new().unwrap();
    let run = |plan: &Plan, rule: &mut dyn FnMut(&Record<'_>) -> bool| {
        let mut series: Vec<Series> = Vec::new();
        let ended =
            Experiment::new(plan, &interrupt)
                .until(rule)
                .run(&mut series, |turn, readings| {
                    readings.put("", Unit::Seconds, steady(turn));
                    Ok::<_, String>(())
                });
        (ended.unwrap(), series[0].values().len())
    };
    let plan = Plan::new(["a", "b"], 20).warmups(1);
    let mut asked = Vec::new();
    let ended = run(&plan, &mut |record| {
        asked.push((record.rounds(), record.pairs(0, 1, "").len()));
        record.rounds() == 4
    });
    assert_eq!(ended, (End::Settled, 3));
    assert_eq!(asked, [(1, 0), (2, 1), (3, 2), (4, 3)]);
    let ended = run(&plan.clone().within(Duration::ZERO), &mut |_| false);
    assert_eq!(ended, (End::OutOfTime, 0));
    let ended = run(&plan.within(Duration::MAX), &mut |_| false);
    assert_eq!(ended, (End::AllRounds, 20));
}

#[test]
fn three_rounds_without_a_value_are_hopeless() {
    let plan = Plan::new(["a"], 20);
    let mut series: Vec<Series> = Vec::new();
    let failed = |round| Sample::failed(round, Phase::Warmup, "no");
    let hopeless =
        |series: &[Series], rounds| Record::new(&plan, series, rounds).is_hopeless(0, "");
    assert!(hopeless(&series, 3));
    for round in 0..3 {
        Store::push(&mut series, "a", Unit::Seconds, failed(round));
    }
    assert!(!hopeless(&series, 2));
    assert!(hopeless(&series, 3));
    Store::push(&mut series, "a", Unit::Seconds, Sample::warmup(3, 1.0));
    assert!(!hopeless(&series, 3));
}

/// Series of a side, its repetition and another side.
fn sides(noise: f64, ratio: f64, count: u32) -> Vec<Series> {
    let swing = [0.3, -1.0, 0.7, 1.0, -0.7, -0.3, 0.5, -0.5];
    let of = |name: &str, factor: f64, shift: usize| {
        let value = |round: u32| factor * (1.0 + noise * swing[(round as usize * 3 + shift) % 8]);
        Series::of_values(name, Unit::Seconds, (0..count).map(value))
    };
    vec![of("a", 1.0, 0), of("again", 1.0, 1), of("b", ratio, 2)]
}

fn plan() -> Plan {
    Plan::new(["a", "again", "b"], 20).repeats(1, 0)
}

#[test]
fn rounds_are_made_until_the_ratio_is_known() {
    let plan = plan();
    let reached = |series: &[Series], repeat, half_width| {
        let narrow = Narrow {
            metric: String::new(),
            base: 0,
            subject: 2,
            repeat,
            half_width,
        };
        narrow.is_reached(&Record::new(&plan, series, 0))
    };
    let quiet = sides(0.001, 1.1, 8);
    assert!(reached(&quiet, None, 0.01));
    // A difference that is plain to see is no reason to stop.
    let loud = sides(0.05, 2.0, 8);
    assert!(!reached(&loud, None, 0.01));
    // More precision than half of the noise floor is not to be had.
    let quiet = sides(0.02, 1.1, 8);
    let restless = sides(0.2, 1.1, 8).remove(1);
    let series = [quiet[0].clone(), restless, quiet[2].clone()];
    assert!(!reached(&series, None, 0.001));
    assert!(reached(&series, Some(1), 0.001));
    // Five pairs have no interval of 95 %.
    assert!(!reached(&sides(0.0, 1.1, 5), None, 0.01));
    assert!(reached(&sides(0.0, 1.1, 6), None, 0.01));
    assert!(!reached(&[], None, 0.01));
}

#[test]
fn a_repetition_gives_the_noise_floor_and_is_no_subject() {
    let compare = |series: &[Series]| plan().comparisons(series, "", 0, &OPTIONS);
    let quiet = compare(&sides(0.001, 1.1, 12));
    assert_eq!(quiet.len(), 1);
    assert_eq!((quiet[0].a.as_str(), quiet[0].b.as_str()), ("a", "b"));
    assert!(quiet[0].noise_floor.unwrap() < 0.01);
    assert_eq!(quiet[0].verdict, Verdict::Slower);
    let loud = compare(&sides(0.2, 1.05, 12));
    assert!(loud[0].noise_floor.unwrap() > 0.05);
    assert_ne!(loud[0].verdict, Verdict::Slower);
    // Sides that were not measured are left out.
    assert!(compare(&sides(0.1, 1.1, 12)[..2]).is_empty());
    assert!(compare(&[]).is_empty());
    let only = [sides(0.1, 1.1, 12).remove(0), sides(0.1, 1.1, 12).remove(2)];
    assert_eq!(compare(&only)[0].noise_floor, None);
}

#[test]
fn series_have_the_names_of_side_and_metric() {
    let plan = Plan::new(["a", ""], 1);
    assert_eq!(plan.series_name(0, "time"), "a: time");
    assert_eq!(plan.series_name(0, ""), "a");
    assert_eq!(plan.series_name(1, "time"), "time");
    let plan = plan.naming(Naming::MetricFirst);
    assert_eq!(plan.series_name(0, "time"), "time: a");
}

#[test]
fn the_rest_is_estimated_from_the_rounds_that_were_made() {
    let progress = |done, rounds, seconds| Progress {
        done,
        rounds,
        elapsed: Duration::from_secs(seconds),
    };
    assert_eq!(progress(4, 10, 20).rest(), Duration::from_secs(30));
    assert_eq!(progress(10, 10, 20).rest(), Duration::ZERO);
    assert_eq!(progress(0, 10, 0).rest(), Duration::ZERO);
}

#[test]
fn reports_are_compared_by_a_series_that_both_have() {
    let with = |names: &[&str]| {
        let mut report = report();
        let series = |name: &&str| Series::of_values(*name, Unit::Seconds, [1.0, 1.1]);
        report.series = names.iter().map(series).collect();
        report
    };
    let names = |a: &[&str], b: &[&str]| {
        let compared = compare_reports("comparison", String::new(), &with(a), &with(b))?;
        assert_eq!(compared.comparisons.len(), 1);
        Some(
            compared
                .series
                .into_iter()
                .map(|s| s.name)
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(
        names(&["x", "y"], &["y"]).unwrap(),
        ["A: y".to_owned(), "B: y".to_owned()]
    );
    assert_eq!(names(&["x"], &["y"]).unwrap(), ["x", "y"]);
    assert_eq!(names(&[], &["y"]), None);
}

mod published;

use brisk_measure::SplitMix64;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::crypto::{Curve, Point};

const SIX: &[u64] = &[16, 64, 256, 1024, 8192, 16384];

/// Times in microseconds of an operation: a fixed part, and a part for each byte.
fn linear(name: &str, fixed: f64, per_byte: f64) -> Curve {
    let times = SIX.iter().map(|bytes| fixed + per_byte * *bytes as f64);
    of_times(name, &times.collect::<Vec<_>>())
}

/// Three runs without any noise.
fn of_times(name: &str, microseconds: &[f64]) -> Curve {
    let points = SIX.iter().zip(microseconds).map(|(bytes, time)| Point {
        bytes: *bytes,
        seconds: vec![time * 1e-6; 3],
    });
    Curve {
        name: name.into(),
        points: points.collect(),
        ..Curve::default()
    }
}

#[test]
fn each_verdict_has_its_sentence() {
    let software = |fixed, per_byte| linear("sw", fixed, per_byte);
    let offload = |fixed, per_byte| linear("hw", fixed, per_byte);
    let flat = of_times("sw", &[10.0; 6]);
    let cases = [
        (
            software(1.0, 1.0),
            offload(101.0, 0.5),
            "hw is faster than sw from 200 bytes on (95 % interval 200 to 200; measured between 64 \
             and 256 bytes).",
        ),
        (
            software(101.0, 0.5),
            offload(1.0, 1.0),
            "hw is faster than sw up to 200 bytes only (95 % interval 200 to 200; measured between \
             64 and 256 bytes).",
        ),
        (
            software(1.0, 1.0),
            offload(0.5, 0.5),
            "hw is faster than sw at every size measured, from 16 bytes on.",
        ),
        (
            software(1.0, 1.0),
            offload(10.0, 0.1),
            "hw is faster than sw at every size measured, from 16 bytes on. The lines cross at 10 \
             bytes, 95 % interval 10 to 10; that is an extrapolation: measure sizes there.",
        ),
        (
            software(0.1, 0.001),
            offload(100.1, 0.0005),
            "hw is faster than sw at none of the sizes measured, up to 16384 bytes. The lines cross \
             at 200000 bytes, 95 % interval 200000 to 200000; that is an extrapolation: measure \
             sizes there.",
        ),
        (
            software(1.0, 1.0),
            offload(2.0, 1.0),
            "hw is faster than sw at none of the sizes measured, up to 16384 bytes. Larger ones \
             will not change that: a byte costs the offload no less.",
        ),
        (
            flat.clone(),
            of_times("hw", &[20.0, 40.0, 20.0, 20.0, 20.0, 20.0]),
            "hw is faster than sw at none of the sizes measured, up to 16384 bytes. Of larger ones \
             nothing can be said: the times are not on lines.",
        ),
        (
            flat.clone(),
            of_times("hw", &[10.0; 6]),
            "hw and sw are alike at each of 6 common sizes: they differ by less than 5 %.",
        ),
        (
            flat.clone(),
            of_times("hw", &[9.0, 10.0, 9.0, 9.0, 9.0, 9.0]),
            "hw against sw: faster at 16, alike at 64, faster from 256 to 16384 bytes.",
        ),
        (
            flat.clone(),
            of_times("hw", &[20.0, 12.0, 9.0, 9.0, 9.0, 9.0]),
            "The times are not on lines, so that no crossover is computed: at 16 bytes hw differs \
             by 48 % from its line, and takes more; up to 15 % are accepted. The order changes \
             between 64 and 256 bytes.",
        ),
        (
            flat.clone(),
            of_times("hw", &[11.0, 9.0, 9.0, 11.0, 11.0, 11.0]),
            "There is not one crossover: which one is faster changes 2 times, between 16 and 64 \
             bytes, between 256 and 1024 bytes.",
        ),
        (
            flat,
            of_times("hw", &[9.9, 10.4, 10.3, 10.2, 10.1, 10.05]),
            "The lines contradict the measured order, so that no crossover is computed: they do \
             not cross that way, and the order changes between 16 and 64 bytes.",
        ),
        (
            software(1.0, 1.0),
            of_times("hw", &[17.0, 65.0, 257.0, 500.0, 900.0, 1400.0]),
            "hw leaves small data to software: up to 256 bytes the two are alike; faster than sw \
             from 1024 bytes on. The threshold is between these sizes.",
        ),
    ];
    for (software, offload, sentence) in cases {
        let crossover = Crossover::of(&software, &offload);
        assert_eq!(crossover.sentence(Metric::Time), sentence);
    }
    let mut short = linear("hw", 1.0, 1.0);
    short.points.truncate(2);
    let crossover = Crossover::of(&linear("sw", 1.0, 1.0), &short);
    assert_eq!(crossover.left_out, [256, 1024, 8192, 16384]);
    assert_eq!(
        crossover.sentence(Metric::ProcessCpu),
        "hw and sw have 2 sizes in common, which are too few for a crossover: measure 3 at least."
    );
}

/// About normal, of deviation 1: a sum of twelve uniform numbers.
fn noise(random: &mut SplitMix64) -> f64 {
    let sum: usize = (0..12).map(|_| random.below(1_000_001)).sum();
    sum as f64 / 1e6 - 6.0
}

fn noisy(curve: &Curve, runs: usize, deviation: f64, random: &mut SplitMix64) -> Curve {
    let mut curve = curve.clone();
    for point in &mut curve.points {
        let usual = point.seconds[0];
        let seconds = (0..runs).map(|_| usual * (1.0 + deviation * noise(random)));
        point.seconds = seconds.collect();
    }
    curve
}

#[test]
fn intervals_contain_the_truth() {
    let mut random = SplitMix64::new(1);
    for runs in [1, 5] {
        let mut hits = 0;
        for _ in 0..30 {
            let software = noisy(&linear("sw", 1.0, 1.0), runs, 0.02, &mut random);
            let offload = noisy(&linear("hw", 501.0, 0.5), runs, 0.02, &mut random);
            let crossover = Crossover::of(&software, &offload);
            let estimate = crossover.estimate().unwrap();
            assert!((estimate.bytes / 1000.0 - 1.0).abs() < 0.2, "{estimate:?}");
            let bounds = estimate.interval.unwrap();
            let high = bounds.high.unwrap();
            assert!(high < 1500.0, "{bounds:?}");
            hits += u32::from((bounds.low..=high).contains(&1000.0));
        }
        assert!(hits >= 27, "{hits} of 30 with {runs} runs");
    }
}

#[test]
fn sizes_that_are_not_told_apart_decide_nothing() {
    let point = |bytes, seconds: &[f64]| Point {
        bytes,
        seconds: seconds.to_vec(),
    };
    let around = |middle: f64| -> Vec<f64> {
        (0..9)
            .map(|step| middle + 0.1 * f64::from(step - 4))
            .collect()
    };
    let software = Curve {
        name: "sw".into(),
        points: vec![
            point(16, &around(2.0)),
            point(64, &around(8.0)),
            point(256, &around(32.0)),
            point(1024, &around(128.0)),
        ],
        ..Curve::default()
    };
    let offload = Curve {
        name: "hw".into(),
        points: vec![
            point(16, &around(6.0)),
            // Less by the median, and within what runs differ by.
            point(64, &around(7.95)),
            point(256, &around(18.0)),
            point(1024, &around(66.0)),
        ],
        ..Curve::default()
    };
    let crossover = Crossover::of(&software, &offload);
    let orders: Vec<_> = crossover.sizes.iter().map(|size| size.order).collect();
    assert_eq!(
        orders,
        [
            Order::Software,
            Order::Undecided,
            Order::Offload,
            Order::Offload
        ]
    );
    assert_eq!(crossover.bracket, Some(Bracket { low: 16, high: 256 }));
}

#[test]
fn hostile_curves_are_survived() {
    let numbers = [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e300, 1e-300];
    let hostile = of_times("hostile", &numbers);
    let good = linear("good", 1.0, 1.0);
    let crossover = Crossover::of(&hostile, &good);
    assert_eq!(crossover.verdict, Verdict::TooFew { sizes: 0 });
    assert_eq!(crossover.left_out, SIX);
    let sizes = |sizes: &[u64]| Curve {
        name: "sizes".into(),
        points: sizes
            .iter()
            .map(|bytes| Point {
                bytes: *bytes,
                seconds: vec![1.0],
            })
            .collect(),
        ..Curve::default()
    };
    // Twice, in any order, and as large as can be.
    let odd = sizes(&[u64::MAX, 0, 16, 16, 1]);
    let crossover = Crossover::of(&odd, &odd);
    let found: Vec<_> = crossover.sizes.iter().map(|size| size.bytes).collect();
    assert_eq!(found, [1, 16, u64::MAX]);
    assert_eq!(crossover.sizes[1].samples.software.len(), 2);
    assert_eq!(crossover.verdict, Verdict::Alike);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_curves_have_a_verdict(
        software in vec((any::<u64>(), any::<f64>()), 0..8),
        offload in vec((any::<u64>(), any::<f64>()), 0..8),
    ) {
        let curve = |points: &[(u64, f64)]| Curve {
            name: String::new(),
            points: points
                .iter()
                // Some sizes in common, and some times that are of this world.
                .map(|(bytes, seconds)| Point {
                    bytes: bytes % 9,
                    seconds: vec![*seconds, (seconds % 1.0).abs()],
                })
                .collect(),
            ..Curve::default()
        };
        let crossover = Crossover::of(&curve(&software), &curve(&offload));
        prop_assert!(!crossover.sentence(Metric::Time).is_empty());
        prop_assert!(crossover.sizes.windows(2).all(|pair| pair[0].bytes < pair[1].bytes));
        if let Some(estimate) = crossover.estimate() {
            prop_assert!(estimate.bytes.is_finite() && estimate.bytes >= 0.0);
        }
    }

    #[test]
    fn lines_are_recovered(
        fixed in 1e-9_f64..1e-2,
        per_byte in 1e-12_f64..1e-6,
        more in 1.0_f64..1e4,
        share in 0.01_f64..0.95,
    ) {
        let software = Curve { name: "sw".into(), points: points(fixed, per_byte), ..Curve::default() };
        let offload = Curve { name: "hw".into(), points: points(fixed + more * per_byte, per_byte * share), ..Curve::default() };
        let crossover = Crossover::of(&software, &offload);
        let line = crossover.software_line.clone().unwrap();
        prop_assert!((line.fixed / fixed - 1.0).abs() < 1e-3, "{line:?}");
        prop_assert!((line.per_byte / per_byte - 1.0).abs() < 1e-3, "{line:?}");
        let expected = more / (1.0 - share);
        let found = match &crossover.verdict {
            Verdict::From(estimate)
            | Verdict::Never { beyond: Beyond::Crosses(estimate), .. }
            | Verdict::Partly { crossing: Some(estimate) } => estimate.bytes,
            Verdict::Always { below: Some(below), .. } => below.bytes,
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        };
        prop_assert!((found / expected - 1.0).abs() < 0.01, "{found} for {expected}");
    }
}

/// AES-NI against virtio-crypto in a guest on a busy host, microseconds: at 64 KiB one round of six
/// says otherwise than the others.
#[test]
fn a_crossing_among_sizes_that_are_not_told_apart_is_not_denied() {
    let curve = |name: &str, rows: [(u64, [f64; 6]); 3]| Curve {
        name: name.to_owned(),
        points: rows
            .iter()
            .map(|(bytes, times)| Point {
                bytes: *bytes,
                seconds: times.iter().map(|time| time * 1e-6).collect(),
            })
            .collect(),
        ..Curve::default()
    };
    let software = curve(
        "aesni",
        [
            (1024, [66.0, 67.0, 66.5, 66.8, 67.1, 66.9]),
            (16384, [270.0, 271.0, 268.0, 272.0, 269.0, 270.5]),
            (65536, [731.3, 1029.2, 961.9, 756.1, 982.2, 916.2]),
        ],
    );
    let offload = curve(
        "virtio",
        [
            (1024, [320.0, 322.0, 321.0, 323.0, 319.0, 320.5]),
            (16384, [413.0, 414.0, 412.0, 415.0, 411.0, 413.5]),
            (65536, [765.4, 585.8, 655.1, 692.1, 726.5, 707.2]),
        ],
    );
    let crossover = Crossover::of(&software, &offload);
    let Verdict::Partly {
        crossing: Some(estimate),
    } = &crossover.verdict
    else {
        panic!("{crossover:?}")
    };
    assert!((16384.0..65536.0).contains(&estimate.bytes), "{estimate:?}");
    let sentence = crossover.sentence(Metric::Time);
    assert!(
        sentence.starts_with(
            "virtio against aesni: slower from 1024 to 16384, not decided at 65536 bytes. More rounds"
        ),
        "{sentence}"
    );
}

fn points(fixed: f64, per_byte: f64) -> Vec<Point> {
    let point = |bytes: u64| Point {
        bytes,
        seconds: vec![fixed + per_byte * bytes as f64],
    };
    (0..9).map(|power| point(16 << (2 * power))).collect()
}

fn runs(name: &str, times: &[[f64; 3]]) -> Curve {
    let points = SIX.iter().zip(times).map(|(bytes, times)| Point {
        bytes: *bytes,
        seconds: times.map(|time| time * 1e-6).to_vec(),
    });
    Curve {
        name: name.to_owned(),
        points: points.collect(),
        ..Curve::default()
    }
}

/// Five times as fast at 16 KiB by the medians, with runs that differ as much.
#[test]
fn noisy_runs_are_not_an_answer_for_every_size() {
    let steady = |time: f64| [time * 0.99, time, time * 1.01];
    let software = [1.0, 2.0, 6.0, 22.0, 170.0].map(steady);
    let offload = [30.0, 31.0, 32.0, 40.0, 260.0].map(steady);
    let software = runs("sw", &[&software[..], &[[100.0, 340.0, 900.0]]].concat());
    let offload = runs("hw", &[&offload[..], &[[20.0, 68.0, 350.0]]].concat());
    let crossover = Crossover::of(&software, &offload);
    assert!(
        matches!(crossover.verdict, Verdict::Partly { .. }),
        "{crossover:?}"
    );
    let sentence = crossover.sentence(Metric::Time);
    assert!(
        sentence.starts_with(
            "hw against sw: slower from 16 to 256, not decided from 1024 to 16384 bytes."
        ),
        "{sentence}"
    );
}

/// One run each of one program, in steps of 10 ms, is alike or not decided.
#[test]
fn one_program_twice_is_not_a_difference() {
    let mut random = SplitMix64::new(7);
    for deviation in [0.002, 0.01, 0.05] {
        let differ = (0..60).filter(|_| {
            let curve = linear("a", 0.5, 0.01);
            let (a, b) = (
                noisy(&curve, 1, deviation, &mut random),
                noisy(&curve, 1, deviation, &mut random),
            );
            let verdict = Crossover::of(&a, &b).verdict;
            !matches!(verdict, Verdict::Alike)
                && !matches!(verdict, Verdict::Partly { crossing: None })
        });
        let differ = differ.count();
        assert!(differ <= 2, "{differ} of 60 at {deviation}");
    }
}

//! How often verdicts are right, over shapes, numbers of sizes, noise and runs.
//!
//! `cargo test -p brisk-tools --lib coverage -- --nocapture` prints the table of the book; with
//! `BRISK_SOAK` in the environment it is drawn more often.

use std::fmt::Write;

use brisk_measure::SplitMix64;

use super::*;
use crate::crypto::{Curve, Point};

/// Repetitions of a cell without `BRISK_SOAK`, and with it, for each of its units.
const USUAL: usize = 25;
const LONG: usize = 1000;
const SIZES: [&[u64]; 4] = [
    &[16, 256, 16384],
    &[16, 256, 1024, 16384],
    &[16, 64, 256, 1024, 8192, 16384],
    &[16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384],
];
/// Standard deviations of a run, as shares of its time.
const NOISE: [f64; 4] = [0.003, 0.01, 0.03, 0.1];
/// Most of the verdicts that may be wrong, in percent.
const WRONG: f64 = 2.0;
const RUNS: [usize; 3] = [1, 3, 7];

/// Kind of the truth that a measurement is drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Two lines that cross once among the sizes.
    Line,
    /// Likewise, and the offload's bytes cost more from a size on.
    Knee,
    /// The driver leaves small data to software.
    Step,
    Never,
    Always,
    /// The order changes twice: the offload is faster for sizes in the middle.
    Twice,
    /// One implementation, measured twice.
    Same,
}

const SHAPES: [Shape; 7] = [
    Shape::Line,
    Shape::Knee,
    Shape::Step,
    Shape::Never,
    Shape::Always,
    Shape::Twice,
    Shape::Same,
];

impl Shape {
    const fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Knee => "knee",
            Self::Step => "step",
            Self::Never => "never",
            Self::Always => "always",
            Self::Twice => "twice",
            Self::Same => "A/A",
        }
    }
}

/// What runs differ by.
#[derive(Debug, Clone, Copy)]
struct Noise {
    /// Standard deviation of a run, as a share of its time.
    deviation: f64,
    /// Runs of each size.
    runs: usize,
}

/// Two implementations without noise.
struct Truth {
    software: Vec<f64>,
    offload: Vec<f64>,
    /// Where the order changes upwards, if it does so once.
    crossing: Option<f64>,
}

fn between(random: &mut SplitMix64, low: f64, high: f64) -> f64 {
    let share = random.below(1_000_001) as f64 / 1e6;
    low * (high / low).powf(share)
}

/// Microseconds at each size: what things cost differs from one to the next.
fn truth(shape: Shape, sizes: &[u64], random: &mut SplitMix64) -> Truth {
    let (first, last) = (sizes[0] as f64, sizes[sizes.len() - 1] as f64);
    let fixed = between(random, 0.1, 3.0);
    let per_byte = between(random, 0.005, 0.1);
    let software = move |n: f64| fixed + per_byte * n;
    let gain = between(random, 2.0, 12.0);
    let crossing = between(random, first * 3.0, last / 3.0);
    let line = move |n: f64| software(crossing) + per_byte / gain * (n - crossing);
    let (offload, crossing): (Box<dyn Fn(f64) -> f64>, _) = match shape {
        Shape::Line => (Box::new(line), Some(crossing)),
        Shape::Knee => {
            let knee = between(random, crossing, last);
            let more = per_byte * 0.5 * (1.0 - 1.0 / gain);
            let bent = move |n: f64| line(n) + more * (n - knee).max(0.0);
            (Box::new(bent), Some(crossing))
        }
        Shape::Step => {
            let threshold = crossing;
            let way = between(random, 0.01, 0.2);
            let at = software(threshold) / between(random, 1.5, 4.0);
            let device = move |n: f64| at + per_byte / gain * (n - threshold);
            let step = move |n: f64| match n < threshold {
                true => software(n) + way,
                false => device(n),
            };
            (Box::new(step), Some(threshold))
        }
        Shape::Never => {
            let (way, share) = (between(random, 1.0, 50.0), between(random, 1.05, 3.0));
            (Box::new(move |n| software(n) * share + way), None)
        }
        Shape::Always => {
            let share = between(random, 1.05, 5.0);
            (Box::new(move |n| software(n) / share), None)
        }
        Shape::Twice => {
            let way = fixed * between(random, 2.0, 20.0);
            let (from, to) = (first * 8.0, last / 4.0);
            let twice = move |n: f64| match n {
                n if n < from => software(n) + way,
                n if n < to => software(n) / gain,
                n => software(n) * gain,
            };
            (Box::new(twice), None)
        }
        Shape::Same => (Box::new(software), None),
    };
    let at = |of: &dyn Fn(f64) -> f64| sizes.iter().map(|n| of(*n as f64)).collect::<Vec<_>>();
    Truth {
        software: at(&software),
        offload: at(&*offload),
        crossing,
    }
}

/// About normal, of deviation 1: a sum of twelve uniform numbers.
fn normal(random: &mut SplitMix64) -> f64 {
    let sum: usize = (0..12).map(|_| random.below(1_000_001)).sum();
    sum as f64 / 1e6 - 6.0
}

/// As `openssl speed -elapsed` writes it: counts in times that are rounded to 10 ms.
fn measured(
    name: &str,
    sizes: &[u64],
    times: &[f64],
    noise: Noise,
    random: &mut SplitMix64,
) -> Curve {
    let points = sizes.iter().zip(times).map(|(bytes, time)| {
        let seconds = (0..noise.runs).map(|_| {
            let clock = 1.0 + 0.01 / 3.0 * (random.below(1001) as f64 / 1000.0 - 0.5);
            time * 1e-6 * (noise.deviation * normal(random)).exp() * clock
        });
        Point {
            bytes: *bytes,
            seconds: seconds.collect(),
        }
    });
    Curve {
        name: name.into(),
        points: points.collect(),
        resolution: 0.01 / 3.0,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Score {
    Right,
    /// A part of the truth, with what is missing said.
    Withheld,
    Wrong,
}

/// Whether an order that is claimed is true: `Alike` where the two differ by less than it says.
fn holds(order: Order, software: f64, offload: f64) -> bool {
    match order {
        Order::Software => software < offload,
        Order::Offload => offload < software,
        Order::Alike => (software / offload).ln().abs() < (1.0 + ALIKE).ln(),
        Order::Undecided => true,
    }
}

fn score(shape: Shape, truth: &Truth, found: &Crossover) -> Score {
    let is_true = found
        .sizes
        .iter()
        .enumerate()
        .all(|(place, size)| holds(size.order, truth.software[place], truth.offload[place]));
    let has = |bracket: &Bracket| {
        let inside = |at: f64| bracket.low as f64 <= at && at <= bracket.high as f64;
        truth.crossing.is_some_and(inside)
    };
    let is_bracketed = found.bracket.as_ref().is_none_or(has);
    let one = matches!(shape, Shape::Line | Shape::Knee | Shape::Step);
    let right = match &found.verdict {
        Verdict::From(_) => match one && is_bracketed {
            true => Score::Right,
            false => Score::Wrong,
        },
        Verdict::UpTo(_) => Score::Wrong,
        Verdict::Always { .. } => match shape {
            Shape::Always => Score::Right,
            _ => Score::Wrong,
        },
        Verdict::Never { .. } => match shape {
            Shape::Never => Score::Right,
            _ => Score::Wrong,
        },
        Verdict::Alike => match shape {
            Shape::Same => Score::Right,
            _ => Score::Wrong,
        },
        Verdict::Step { up_to, from } => {
            let bracket = Bracket {
                low: *up_to,
                high: *from,
            };
            match shape == Shape::Step && has(&bracket) {
                true => Score::Right,
                false => Score::Wrong,
            }
        }
        Verdict::Rejected(Rejection::Changes(_)) => match shape {
            Shape::Twice => Score::Right,
            _ => Score::Wrong,
        },
        // The measured order without a line: with a bracket that is the answer.
        Verdict::Rejected(_) | Verdict::Partly { .. } | Verdict::TooFew { .. } => {
            let is_answer = found.bracket.is_some() && one;
            match is_bracketed || shape == Shape::Twice {
                false => Score::Wrong,
                true if is_answer => Score::Right,
                true => Score::Withheld,
            }
        }
    };
    match is_true {
        true => right,
        false => Score::Wrong,
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    right: usize,
    withheld: usize,
    wrong: usize,
    /// Intervals of a crossover, and those with the true one.
    intervals: usize,
    hits: usize,
    /// Measurements in which at least one size is called a difference.
    differences: usize,
}

impl Cell {
    fn all(&self) -> usize {
        self.right + self.withheld + self.wrong
    }

    fn share(&self, number: usize) -> f64 {
        100.0 * number as f64 / self.all() as f64
    }

    fn add(&mut self, other: &Self) {
        self.right += other.right;
        self.withheld += other.withheld;
        self.wrong += other.wrong;
        self.intervals += other.intervals;
        self.hits += other.hits;
        self.differences += other.differences;
    }
}

fn cell(shape: Shape, sizes: &[u64], noise: Noise, times: usize) -> Cell {
    let seed = sizes.len() as u64 * 1000 + noise.runs as u64 * 100 + shape as u64;
    let mut random = SplitMix64::new(seed ^ noise.deviation.to_bits());
    let mut cell = Cell::default();
    for _ in 0..times {
        let truth = truth(shape, sizes, &mut random);
        let software = measured("sw", sizes, &truth.software, noise, &mut random);
        let offload = measured("hw", sizes, &truth.offload, noise, &mut random);
        let found = Crossover::of(&software, &offload);
        match score(shape, &truth, &found) {
            Score::Right => cell.right += 1,
            Score::Withheld => cell.withheld += 1,
            Score::Wrong => cell.wrong += 1,
        }
        let is_line = shape == Shape::Line;
        let bounds = found.estimate().and_then(|one| one.interval);
        if let (true, Some(bounds), Some(at)) = (is_line, bounds, truth.crossing) {
            cell.intervals += 1;
            let is_hit = bounds.low <= at && bounds.high.is_none_or(|high| at <= high);
            cell.hits += usize::from(is_hit);
        }
        let is_difference = |size: &Size| matches!(size.order, Order::Software | Order::Offload);
        cell.differences += usize::from(found.sizes.iter().any(is_difference));
    }
    cell
}

fn times() -> usize {
    match std::env::var("BRISK_SOAK") {
        Ok(factor) => LONG * factor.parse::<usize>().unwrap(),
        Err(_) => USUAL,
    }
}

#[test]
fn verdicts_are_right_or_withheld() {
    let times = times();
    let mut table = String::new();
    let mut failures = Vec::new();
    let mut write = |text: &str| {
        let _ = writeln!(table, "{text}");
    };
    write(
        "| Shape | Sizes | Runs | Noise 0.3 % | 1 % | 3 % | 10 % |\n|---|---|---|---|---|---|---|",
    );
    let mut same = Cell::default();
    let mut coverage = std::collections::BTreeMap::<usize, Cell>::new();
    for shape in SHAPES {
        for sizes in SIZES {
            let mut of_shape = Cell::default();
            for runs in RUNS {
                let cells =
                    NOISE.map(|deviation| cell(shape, sizes, Noise { deviation, runs }, times));
                let shown = cells.iter().map(|cell| {
                    let share = |number| format!("{:.0}", cell.share(number));
                    let wrong = format!("{:.1}", cell.share(cell.wrong));
                    format!("{} / {} / {wrong}", share(cell.right), share(cell.withheld))
                });
                let shown = shown.collect::<Vec<_>>().join(" | ");
                write(&format!(
                    "| {} | {} | {runs} | {shown} |",
                    shape.name(),
                    sizes.len()
                ));
                for (noise, cell) in NOISE.iter().zip(&cells) {
                    // Of few repetitions one is more than a share.
                    if times >= LONG && cell.share(cell.wrong) > WRONG {
                        let what = format!("{shape:?} {} {runs} {noise}: {cell:?}", sizes.len());
                        failures.push(what);
                    }
                    of_shape.add(cell);
                    if shape == Shape::Same {
                        same.add(cell);
                    }
                    coverage.entry(sizes.len()).or_default().add(cell);
                }
            }
            if of_shape.share(of_shape.wrong) > WRONG {
                failures.push(format!("{shape:?} {}: {of_shape:?}", sizes.len()));
            }
        }
    }
    println!("{table}");
    for (sizes, cell) in &coverage {
        println!(
            "{sizes} sizes: the interval has the crossover in {} of {}",
            cell.hits, cell.intervals
        );
        let share = cell.hits as f64 / cell.intervals.max(1) as f64;
        if share < 0.94 {
            failures.push(format!("{sizes} sizes: coverage {share}"));
        }
    }
    println!(
        "A/A called a difference: {} of {}",
        same.differences,
        same.all()
    );
    assert!(same.share(same.differences) <= 5.0, "{same:?}");
    assert!(failures.is_empty(), "{failures:#?}");
}

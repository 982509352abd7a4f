//! From runs of `openssl speed` to seconds of an operation by implementation. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::runs::{Count, Run};
use super::{Clock, Measured, Remark, Speed};
use crate::crypto::{Algorithm, Curve, Point, is_same};

/// How much shorter than the time until the alarm a time has to be for a remark.
const MUCH: f64 = 1.05;
/// Resolution of times(3), by which openssl measures, in seconds.
const TICK: f64 = 0.01;
/// How far sizes have to be apart, and how much longer the larger one then takes at least: less is a
/// time that does not depend on the size.
const APART: u64 = 16;
const LONGER: f64 = 1.01;
/// More bytes a second than a process can encrypt: several times what its memory delivers. Time that
/// grows by less with the size does not grow with it.
const IMPOSSIBLE: f64 = 2e11;
/// How far a table may be from counts, besides what rounded times make.
const ROUNDED: f64 = 0.005;

/// All runs by algorithm and implementation.
pub(super) fn collect(runs: &[Run]) -> Speed {
    let mut all: Vec<Collected> = Vec::new();
    let mut places: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut speed = Speed {
        measured: Vec::new(),
        remarks: Vec::new(),
    };
    let evps = evps(runs);
    for run in runs {
        if let Some(engine) = &run.engine_failed {
            speed.remarks.push(Remark::EngineFailed {
                engine: engine.clone(),
            });
        }
        let mut by = by(run);
        if let Some(evp) = differing_evp(run, &evps) {
            by = [by, evp].join(", ").trim_start_matches(", ").to_owned();
        }
        if let Some(text) = &run.trouble {
            let name = run.names.first().cloned().unwrap_or_default();
            let text = text.clone();
            speed.remarks.push(Remark::Trouble { name, text });
            continue;
        }
        let counts = by_name(run);
        for name in &run.names {
            let place = *places.entry((name.clone(), by.clone())).or_insert_with(|| {
                all.push(Collected::new(name, algorithm_of(run, name), &by));
                all.len() - 1
            });
            let counts = counts.get(&**name).map_or(&[][..], |counts| counts);
            all[place].add(run, counts);
        }
    }
    for one in all {
        one.finish(&mut speed);
    }
    speed
}

/// What the text says of the implementation.
fn by(run: &Run) -> String {
    let command = run.command.as_ref();
    let mut parts = Vec::new();
    let failed = run.engine_failed.as_ref();
    // A table alone does not have the line that openssl prints of an engine.
    let is_told = run.is_verbose && command.is_some_and(|it| it.is_engine_told);
    let asked = command.filter(|_| failed.is_none() && !is_told);
    let engine = run.engine.as_ref();
    let engine = engine.or_else(|| asked?.engine.as_ref());
    parts.extend(engine.map(|engine| format!("engine {engine}")));
    parts.extend(failed.map(|engine| format!("without engine {engine}")));
    parts.extend(command.into_iter().flat_map(|it| it.manner.clone()));
    let mask = command.and_then(|it| it.processor.as_ref());
    let mask = mask.or(run.processor.as_ref());
    parts.extend(mask.map(|mask| format!("OPENSSL_ia32cap {mask}")));
    if !run.label.is_empty() {
        parts.push(run.label.clone());
    }
    let processes = run.processes();
    if processes > 1 {
        parts.push(format!("{processes} processes"));
    }
    parts.join(", ")
}

/// The algorithm of rows with a name: that of `-evp` if the name is none, since people write there
/// what they compare, such as the version of an engine.
fn algorithm_of<'a>(run: &'a Run, name: &'a str) -> &'a str {
    let evp = run.command.as_ref().and_then(|it| it.evp.as_deref());
    let evp = evp.filter(|evp| Algorithm::find(evp).is_some());
    // `aes-128-cbc on the board` is not that of `-evp aes-256-cbc`.
    let has_other = |evp: &&str| {
        let mut parts = std::iter::once(name).chain(name.split_whitespace());
        parts.any(|part| Algorithm::find(part).is_some() && !is_same(part, evp))
    };
    let is_one = Algorithm::find(name).is_some();
    evp.filter(|evp| !is_one && !has_other(evp)).unwrap_or(name)
}

/// What commands say of `-evp`, by name of a row: the algorithm in lower case, or none.
type Evps<'a> = BTreeMap<&'a str, BTreeSet<Option<String>>>;

fn evps(runs: &[Run]) -> Evps<'_> {
    let mut evps = Evps::new();
    for run in runs {
        let Some(command) = &run.command else {
            continue;
        };
        let evp = command.evp.as_ref().map(|name| name.to_ascii_lowercase());
        for name in &run.names {
            evps.entry(name).or_default().insert(evp.clone());
        }
    }
    evps
}

/// What the command of a run says of `-evp`, where that of another run says something else of the
/// same name: people give rows names of their own, and without `-evp` it may be other code.
fn differing_evp(run: &Run, evps: &Evps<'_>) -> Option<String> {
    let command = run.command.as_ref()?;
    let differs = |name: &String| evps.get(&**name).is_some_and(|known| known.len() > 1);
    run.names.iter().find(|name| differs(name))?;
    let evp = command.evp.as_ref();
    Some(evp.map_or_else(|| "without -evp".to_owned(), |name| format!("-evp {name}")))
}

fn by_name(run: &Run) -> BTreeMap<&str, Vec<&Count>> {
    let mut counts: BTreeMap<&str, Vec<&Count>> = BTreeMap::new();
    for count in &run.counts {
        counts.entry(&count.name).or_default().push(count);
    }
    counts
}

/// Says once of all rows of a table that they are by CPU time.
fn only_rates(speed: &mut Speed, name: &str, clock: Clock) {
    for remark in &mut speed.remarks {
        match remark {
            Remark::OnlyRates { names, clock: by } if *by == clock => {
                names.push(name.to_owned());
                return;
            }
            _ => {}
        }
    }
    speed.remarks.push(Remark::OnlyRates {
        names: vec![name.to_owned()],
        clock,
    });
}

/// A throughput that openssl computed by user CPU time.
#[derive(Debug, Clone, Copy)]
struct Wrong {
    bytes: u64,
    /// The throughput shown, divided by the real one.
    times: f64,
    /// Whether it is that or more: openssl wrote less than a tick.
    is_least: bool,
}

impl Wrong {
    /// `shown` is the throughput of the table, in which openssl has more digits than in seconds.
    fn of(count: &Count, wanted: f64, shown: Option<f64>) -> Self {
        let seconds = shown.map(|rate| count.bytes as f64 * count.count as f64 / rate);
        // Another one is of another run.
        let is_near = |seconds: &f64| (seconds - count.seconds).abs() <= TICK;
        let seconds = seconds.filter(|seconds| *seconds > 0.0 && is_near(seconds));
        Self {
            bytes: count.bytes,
            times: wanted / seconds.unwrap_or_else(|| count.seconds.max(TICK)),
            is_least: seconds.is_none() && count.seconds < TICK,
        }
    }
}

/// An algorithm by an implementation, of some runs.
struct Collected {
    /// Name of its rows.
    name: String,
    /// Algorithm of these rows, by [`algorithm_of`].
    algorithm: String,
    by: String,
    /// That of the first run which is not by the wall clock, else of the first.
    clock: Option<Clock>,
    is_wall_clock: bool,
    processes: usize,
    runs: usize,
    /// Whether each run has a command.
    has_commands: bool,
    seconds: BTreeMap<u64, Vec<f64>>,
    /// Where the throughput shown is most wrong.
    worst: Option<Wrong>,
    /// Step of the clock as a share of the shortest time.
    resolution: f64,
    remarks: Vec<Remark>,
}

impl Collected {
    fn new(name: &str, algorithm: &str, by: &str) -> Self {
        Self {
            name: name.to_owned(),
            algorithm: algorithm.to_owned(),
            by: by.to_owned(),
            clock: None,
            is_wall_clock: true,
            processes: 1,
            runs: 0,
            has_commands: true,
            seconds: BTreeMap::new(),
            worst: None,
            resolution: 0.0,
            remarks: Vec::new(),
        }
    }

    fn name(&self) -> String {
        match &*self.by {
            "" => self.name.clone(),
            by => format!("{}, {by}", self.name),
        }
    }

    fn add(&mut self, run: &Run, counts: &[&Count]) {
        let clock = match (run.is_elapsed || run.processes() > 0, run.is_verbose) {
            (true, _) => Clock::Elapsed,
            (false, true) => Clock::User,
            (false, false) => Clock::Unknown,
        };
        if self.clock.is_none() || clock != Clock::Elapsed {
            self.clock = Some(clock);
        }
        self.runs += 1;
        self.has_commands &= run.command.is_some();
        self.processes = self.processes.max(run.processes());
        let mut of_sizes: BTreeMap<u64, Vec<&Count>> = BTreeMap::new();
        for count in counts {
            of_sizes.entry(count.bytes).or_default().push(count);
        }
        let rates = run.rates.iter();
        let rates: BTreeMap<u64, f64> = rates
            .filter(|((name, _), _)| *name == self.name)
            .map(|((_, bytes), rate)| (*bytes, *rate))
            .collect();
        for bytes in rates.keys() {
            of_sizes.entry(*bytes).or_default();
        }
        for (bytes, counts) in of_sizes {
            let rate = rates.get(&bytes).copied();
            let seconds = match run.children {
                0 => self.of_one(bytes, &counts, rate, clock),
                _ => self.of_many(bytes, &counts, rate),
            };
            match seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0) {
                Some(seconds) => self.seconds.entry(bytes).or_default().push(seconds),
                None => self.remarks.push(Remark::LeftOut {
                    name: self.name(),
                    bytes,
                }),
            }
        }
    }

    /// Seconds of an operation in one process.
    fn of_one(
        &mut self,
        bytes: u64,
        counts: &[&Count],
        rate: Option<f64>,
        clock: Clock,
    ) -> Option<f64> {
        let by_rate = rate.map(|rate| bytes as f64 / rate);
        let Some(count) = counts.first() else {
            self.is_wall_clock &= clock == Clock::Elapsed;
            return by_rate;
        };
        self.check(count, rate);
        let number = count.count as f64;
        let is_alarm = clock != Clock::Elapsed && count.wanted.is_some();
        let seconds = match is_alarm {
            true => count.wanted.unwrap_or(count.seconds).max(count.seconds),
            false => count.seconds,
        };
        self.resolution = self.resolution.max(TICK / seconds.max(TICK));
        if clock == Clock::Elapsed {
            return Some(count.seconds / number);
        }
        let Some(wanted) = count.wanted else {
            self.is_wall_clock = false;
            return Some(count.seconds / number);
        };
        let wrong = Wrong::of(count, wanted, rate);
        let is_worse = |worst: Wrong| wrong.times > worst.times;
        if wrong.times > MUCH && self.worst.is_none_or(is_worse) {
            self.worst = Some(wrong);
        }
        // User time of one thread is not longer than the wall clock, and the alarm not too soon.
        Some(wanted.max(count.seconds) / number)
    }

    /// Seconds of an operation of all processes together.
    fn of_many(&self, bytes: u64, counts: &[&Count], rate: Option<f64>) -> Option<f64> {
        if let Some(rate) = rate {
            return Some(bytes as f64 / rate);
        }
        let each = counts.iter().map(|one| one.count as f64 / one.seconds);
        Some(1.0 / each.sum::<f64>())
    }

    fn check(&mut self, count: &Count, rate: Option<f64>) {
        let by_count = count.count as f64 * count.bytes as f64 / count.seconds;
        let Some(rate) = rate.filter(|_| count.seconds > 0.0 && count.count > 0) else {
            return;
        };
        let allowed = ROUNDED + TICK / count.seconds;
        if (rate / by_count - 1.0).abs() > allowed {
            self.remarks.push(Remark::Disagrees {
                name: self.name(),
                bytes: count.bytes,
                table: rate,
                counts: by_count,
            });
        }
    }

    /// Whether the time does not depend on the size, as of an engine that fails at once.
    fn is_flat(&self) -> bool {
        let time = |seconds: &[f64]| seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let (first, last) = (
            self.seconds.first_key_value(),
            self.seconds.last_key_value(),
        );
        first
            .zip(last)
            .is_some_and(|((small, short), (large, long))| {
                let (short, long) = (time(short), time(long));
                let least = (large - small) as f64 / IMPOSSIBLE / self.processes.max(1) as f64;
                let is_flat = long < short * LONGER || long - short < least;
                large / small.max(&1) >= APART && is_flat
            })
    }

    fn finish(self, speed: &mut Speed) {
        let name = self.name();
        let clock = self.clock.unwrap_or(Clock::Unknown);
        if self.seconds.is_empty() {
            speed.remarks.extend(self.remarks);
            return;
        }
        if self.is_flat() {
            speed.remarks.push(Remark::Flat { name });
            return;
        }
        if !self.is_wall_clock {
            only_rates(speed, &name, clock);
        }
        if let Some(worst) = self.worst {
            speed.remarks.push(Remark::Divided {
                name: name.clone(),
                bytes: worst.bytes,
                times: worst.times,
                is_least: worst.is_least,
            });
        }
        if self.runs > 1 {
            speed.remarks.push(Remark::Repeated {
                name: name.clone(),
                runs: self.runs,
                has_commands: self.has_commands,
            });
        }
        speed.remarks.extend(self.remarks);
        let points = self.seconds.into_iter();
        let points = points.map(|(bytes, seconds)| Point { bytes, seconds });
        speed.measured.push(Measured {
            algorithm: self.algorithm,
            by: self.by,
            clock,
            is_wall_clock: self.is_wall_clock,
            processes: self.processes,
            used: self.worst.map(|worst| 1.0 / worst.times),
            curve: Curve {
                name,
                points: points.collect(),
                resolution: self.resolution,
            },
        });
    }
}

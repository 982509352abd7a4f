//! Software and an offload at once, against each of them alone.

use std::time::Duration;

use brisk_measure::{Comparison, Report, Unit};

use super::algorithm::Algorithm;
use super::bench::{BenchError, Step, unchecked};
use super::implementation::Implementation;
use super::local::Worker;
use super::measure::{Group, NotMeasured, Request};
use super::vectors::Checked;
use super::{Direction, metric};
use brisk_experiment::{Experiment, Plan, Readings, Saved, Store, Turn};
use brisk_host::interrupt::Interrupt;

/// Two implementations that are measured at once, and alone.
#[derive(Debug, Clone)]
pub struct Pair {
    /// Algorithm.
    pub algorithm: &'static Algorithm,
    /// Direction of ciphers and AEADs.
    pub direction: Direction,
    /// Software.
    pub software: Implementation,
    /// Offload.
    pub offload: Implementation,
    /// Bytes of an operation.
    pub bytes: usize,
    /// Threads of each at most.
    pub threads: usize,
    /// Length of one run, seconds.
    pub seconds: f64,
    /// Rounds at most.
    pub rounds: u32,
    /// Begin no round after so long.
    pub budget: Option<Duration>,
    /// Seed of the order.
    pub seed: u64,
}

/// Numbers of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Split {
    /// Threads that use software.
    pub software: usize,
    /// Threads that use the offload.
    pub offload: usize,
}

impl Split {
    /// Name in reports.
    fn name(self) -> String {
        format!("{} software + {} offload", self.software, self.offload)
    }

    /// All of up to so many threads of each, those of one kind alone first.
    fn all(threads: usize) -> Vec<Self> {
        let of = |software, offload| Self { software, offload };
        let alone = (1..=threads).map(|count| of(count, 0));
        let alone = alone.chain((1..=threads).map(|count| of(0, count)));
        let both = (1..=threads)
            .flat_map(|software| (1..=threads).map(move |offload| of(software, offload)));
        alone.chain(both).collect()
    }
}

/// Bytes a second of all threads.
const THROUGHPUT: &str = "throughput";
/// Of those that use software.
const OF_SOFTWARE: &str = "throughput of software";
/// Of those that use the offload.
const OF_OFFLOAD: &str = "throughput of the offload";
/// CPUs of the whole system, less those of an idle one.
const CPUS: &str = "CPUs in use for it";

/// CPUs that other programs may use while the figures of CPU time still say something of the
/// implementations.
const OTHERS: f64 = 0.1;

/// Withholds CPU time where other programs used so much before or after that what they used
/// meanwhile is not known.
fn withhold_busy(report: &mut Report, before: f64, after: f64) {
    if before.max(after) <= OTHERS {
        return;
    }
    let is_cpus = |name: &str| name.rsplit_once(": ").is_some_and(|(_, it)| it == CPUS);
    report.series.retain(|series| !is_cpus(&series.name));
    report.notes.push(format!(
        "CPU time is withheld: other programs used {before:.2} CPUs before and {after:.2} after, so \
         what was used for this is not known. End them, and measure again."
    ));
}

/// Threads of each kind, on processors of their own as far as there are enough: software has the
/// last ones, the offload those before them.
fn groups(pair: &Pair, split: Split, cpus: &[usize]) -> Vec<Group> {
    let mut order = cpus.iter().rev().cycle().copied();
    let mut group = |implementation: &Implementation, threads: usize| Group {
        implementation: implementation.clone(),
        cpus: order.by_ref().take(threads).collect(),
    };
    let both = [
        group(&pair.software, split.software),
        group(&pair.offload, split.offload),
    ];
    both.into_iter()
        .filter(|group| !group.cpus.is_empty())
        .collect()
}

/// Measures all splits in interleaved rounds.
///
/// # Errors
/// If one of the two cannot be measured, a signal comes, or the machine is lost.
pub fn combined(
    machine: &mut dyn Worker,
    pair: &Pair,
    saved: &mut Saved<'_>,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(Step<'_>),
) -> Result<(), BenchError> {
    let about = machine.about(pair.algorithm)?;
    progress(Step::About(&about));
    for implementation in [&pair.software, &pair.offload] {
        progress(Step::Check(implementation));
        let reason = match implementation.excludes(pair.algorithm) {
            Some(reason) => reason.to_owned(),
            None => match machine.check(implementation, pair.algorithm) {
                Ok(Checked::Yes) => continue,
                Ok(Checked::No(reason)) => {
                    let note = unchecked(implementation, pair.algorithm, &reason);
                    saved.report.notes.push(note);
                    continue;
                }
                Err(NotMeasured::Failed(reason)) => reason,
                Err(other) => return Err(other.into()),
            },
        };
        return Err(BenchError::Nothing {
            algorithm: pair.algorithm.name,
            reasons: format!("{implementation}: {reason}"),
        });
    }
    let facts = &mut saved.report.environment.extra;
    for (name, value) in [
        (metric::ALGORITHM, pair.algorithm.name.to_owned()),
        ("software", pair.software.to_string()),
        ("offload", pair.offload.to_string()),
        ("bytes of an operation", pair.bytes.to_string()),
        ("length of a run", format!("{} s", pair.seconds)),
        (metric::KERNEL, about.kernel.clone()),
    ] {
        facts.insert(name.to_owned(), value);
    }
    if about.cpus.is_empty() {
        return Err(BenchError::Processors {
            wanted: pair.threads,
            there: 0,
        });
    }
    if pair.threads * 2 > about.cpus.len() {
        saved.report.notes.push(format!(
            "{} processors are fewer than {} threads of each kind need: some share one",
            about.cpus.len(),
            pair.threads
        ));
    }
    let splits = Split::all(pair.threads);
    let plan = Plan::new(splits.iter().map(|split| split.name()), pair.rounds)
        .warmups(1)
        .seed(pair.seed);
    let plan = match pair.budget {
        Some(budget) => plan.within(budget),
        None => plan,
    };
    let request = |groups| Request {
        algorithm: pair.algorithm.name.to_owned(),
        direction: pair.direction,
        bytes: pair.bytes,
        seconds: pair.seconds,
        groups,
    };
    let idle_cpus = |machine: &mut dyn Worker| -> Result<f64, NotMeasured> {
        let idle = machine.measure(&request(Vec::new()), &mut |_| {})?;
        Ok(idle.window.busy() / idle.window.seconds)
    };
    let idle = idle_cpus(&mut *machine)?;
    let shared = std::cell::RefCell::new(progress);
    let experiment = Experiment::new(&plan, interrupt).on_round(|round| {
        (shared.borrow_mut())(Step::Round(*round));
    });
    experiment.run(saved, |turn: Turn, readings: &mut Readings| {
        let split = splits[turn.side];
        (shared.borrow_mut())(Step::Run(split.name()));
        let groups = groups(pair, split, &about.cpus);
        match machine.measure(&request(groups), &mut |_| {}) {
            Ok(measured) => {
                let rates: Vec<_> = measured.groups.iter().map(|group| group.rate).collect();
                let bytes = pair.bytes as f64;
                let total: f64 = rates.iter().sum();
                readings.put(THROUGHPUT, Unit::BytesPerSecond, total * bytes);
                if let [software, offload] = rates[..] {
                    readings.put(OF_SOFTWARE, Unit::BytesPerSecond, software * bytes);
                    readings.put(OF_OFFLOAD, Unit::BytesPerSecond, offload * bytes);
                }
                let used = measured.window.busy() / measured.window.seconds - idle;
                readings.put(CPUS, Unit::Ratio, used);
                Ok(())
            }
            Err(NotMeasured::Failed(reason)) => {
                let none = brisk_measure::Outcome::Failed { reason };
                readings.put(THROUGHPUT, Unit::BytesPerSecond, none);
                Ok(())
            }
            Err(other) => Err(other),
        }
    })?;
    let after = idle_cpus(&mut *machine)?;
    withhold_busy(saved.report, idle, after);
    saved.save()?;
    Ok(())
}

/// What was measured of one split.
#[derive(Debug, Clone, PartialEq)]
pub struct Combination {
    /// Threads.
    pub split: Split,
    /// Bytes a second of all threads, median.
    pub throughput: Option<f64>,
    /// Of those that use software, where both do.
    pub software: Option<f64>,
    /// Of those that use the offload, where both do.
    pub offload: Option<f64>,
    /// CPUs in use.
    pub cpus: Option<f64>,
    /// Throughput as a share of the sum of both alone, with so many threads; none for one alone.
    pub of_sum: Option<f64>,
    /// Reason of the last run that failed.
    pub failure: Option<String>,
}

/// What a report of [`combined`] says of each split.
#[must_use]
pub fn combinations(report: &Report) -> Vec<Combination> {
    let median = |split: Split, metric: &str| {
        let series = report.series(&format!("{}: {metric}", split.name()))?;
        metric::median(series)
    };
    let threads = (1..).take_while(|threads| {
        let split = Split {
            software: *threads,
            offload: 0,
        };
        let name = format!("{}: {THROUGHPUT}", split.name());
        report.series(&name).is_some()
    });
    let splits = Split::all(threads.count());
    let alone = |software, offload| median(Split { software, offload }, THROUGHPUT);
    let combination = |split: Split| {
        let throughput = median(split, THROUGHPUT);
        let sum = alone(split.software, 0).zip(alone(0, split.offload));
        let sum = sum.map(|(software, offload)| software + offload);
        let series = report.series(&format!("{}: {THROUGHPUT}", split.name()));
        Combination {
            split,
            throughput,
            software: median(split, OF_SOFTWARE),
            offload: median(split, OF_OFFLOAD),
            cpus: median(split, CPUS),
            of_sum: throughput.zip(sum).map(|(both, sum)| both / sum),
            failure: series.and_then(metric::failure),
        }
    };
    splits.into_iter().map(combination).collect()
}

/// The split with the highest throughput, and its comparison with the best one of a single kind,
/// which says whether the difference is beyond chance.
#[must_use]
pub fn best(report: &Report) -> Option<(Split, Comparison)> {
    let all = combinations(report);
    let highest = |wanted: fn(&Split) -> bool| {
        let some = all.iter().filter(|one| wanted(&one.split));
        let some = some.filter_map(|one| Some((one.split, one.throughput?)));
        some.max_by(|(_, a), (_, b)| a.total_cmp(b))
            .map(|(split, _)| split)
    };
    let alone = highest(|split| split.software == 0 || split.offload == 0)?;
    let both = highest(|split| split.software > 0 && split.offload > 0)?;
    let series = |split: Split| report.series(&format!("{}: {THROUGHPUT}", split.name()));
    let compared = Comparison::of(series(alone)?, series(both)?, &Default::default());
    let is_more = compared.ratio.is_some_and(|ratio| ratio > 1.0);
    Some((if is_more { both } else { alone }, compared))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> Pair {
        Pair {
            algorithm: Algorithm::find("aes-128-cbc").unwrap(),
            direction: Direction::Encrypt,
            software: Implementation::OpenSsl,
            offload: Implementation::AfAlg,
            bytes: 65536,
            threads: 2,
            seconds: 1.0,
            rounds: 6,
            budget: None,
            seed: 1,
        }
    }

    #[test]
    fn kinds_are_pinned_apart() {
        let of = |software, offload, cpus: &[usize]| {
            let groups = groups(&pair(), Split { software, offload }, cpus);
            groups
                .into_iter()
                .map(|group| group.cpus)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(1, 1, &[0, 1]), [[1], [0]]);
        assert_eq!(of(2, 1, &[0, 1, 2, 3]), [vec![3, 2], vec![1]]);
        assert_eq!(of(0, 2, &[0, 1]), [[1, 0]]);
        // They share what there is.
        assert_eq!(of(1, 1, &[5]), [[5], [5]]);
        assert_eq!(Split::all(2).len(), 8);
    }

    #[test]
    fn cpu_time_of_a_busy_host_is_withheld() {
        let split = Split {
            software: 1,
            offload: 1,
        };
        for (before, after, is_there) in [(0.02, 0.1, true), (0.3, 0.0, false), (0.0, 1.5, false)] {
            let created = "2026-01-01T00:00:00Z";
            let mut report = Report::new("crypto-combined", created, Default::default());
            for (metric, unit) in [(THROUGHPUT, Unit::BytesPerSecond), (CPUS, Unit::Ratio)] {
                let _ = report.series_mut(&format!("{}: {metric}", split.name()), unit);
            }
            withhold_busy(&mut report, before, after);
            let names = report.series.iter().map(|series| series.name.as_str());
            let names: Vec<_> = names.filter(|name| name.ends_with(CPUS)).collect();
            assert_eq!(!names.is_empty(), is_there, "{before} {after}");
            assert_eq!(report.notes.is_empty(), is_there);
            assert!(report.series[0].name.ends_with(THROUGHPUT));
        }
    }

    /// 100 MB/s and 50 MB/s alone; 90 MB/s at once.
    #[test]
    fn a_sum_on_paper_is_no_result() {
        let mut report = Report::new(
            "crypto-combined",
            "2026-01-01T00:00:00Z",
            Default::default(),
        );
        for (software, offload, rate) in [(1, 0, 100e6), (0, 1, 50e6), (1, 1, 90e6)] {
            let name = format!("{}: {THROUGHPUT}", Split { software, offload }.name());
            let series = report.series_mut(&name, Unit::BytesPerSecond);
            for (iteration, noise) in (0..).zip([0.0, 1e3, 2e3, 3e3, 4e3, 5e3]) {
                series.push(brisk_measure::Sample::measured(iteration, rate + noise));
            }
        }
        let all = combinations(&report);
        assert_eq!(all.len(), 3);
        assert!((all[2].of_sum.unwrap() - 0.6).abs() < 1e-3);
        assert_eq!(all[0].of_sum, None);
        let (split, compared) = best(&report).unwrap();
        assert_eq!((split.software, split.offload), (1, 0));
        assert!((compared.ratio.unwrap() - 0.9).abs() < 1e-3);
    }
}

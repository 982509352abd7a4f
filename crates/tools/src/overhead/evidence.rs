//! What a report says about the sides of a comparison. Pure.

use std::collections::{BTreeMap, BTreeSet};

use brisk_host::cpu;
use brisk_measure::{Outcome, Report, Series, Statistic};

use super::disturbance::is_dropped;
use super::instance::OBJECT_DIFFERS;
use super::metrics::{COUNTS, CPU, OWN, PROCESSORS, SPEED, SWAPPED, TIME, series};
use super::report::{Row, rows, too_short};
use super::sides::AGAIN_NAME;

/// Facts about the host and a target, and figures of their runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// What the host says of itself, by name.
    pub host: BTreeMap<String, String>,
    /// What the target says of itself, and what the host knows of its VMM.
    pub target: BTreeMap<String, String>,
    /// Number of processors that both run on.
    pub cpus: usize,
    /// Objects that differ from the host's.
    pub objects: BTreeSet<String>,
    /// Runs of it that gave a time, and those that failed; dropped ones are neither.
    pub runs: (usize, usize),
    /// Pages that either swapped in or out in the runs that count.
    pub swapped: f64,
    /// Rounds that were dropped, since other programs had the processors while the host or the
    /// target ran, and all rounds that count.
    pub dropped: (usize, usize),
    /// Medians of how long a fixed number of instructions took on the host before runs of the
    /// target and of the host, seconds.
    pub speeds: Option<(f64, f64)>,
    /// By how much these times differ between the host and its repetition: 0.01 is 1 %. None if that
    /// is not known.
    pub floor_of_speed: Option<f64>,
    /// Median of the target's times and the shortest that its lines can say, if that is longer, seconds.
    pub too_short: Option<(f64, f64)>,
    /// Runs of the target without a time, as their begin and end were read at once.
    pub untimed: usize,
    /// Whether it takes another time than the host, or CPU time where that is not known, by more than the
    /// host differs from itself.
    pub differs: bool,
    /// Medians of the pages that the host and the target read from a disk in a run; none if one of them
    /// does not count them.
    pub major_faults: Option<(f64, f64)>,
    /// Share of its time in which other programs had what the target wanted, as in
    /// [`Row::neighbours`].
    pub neighbours: Option<f64>,
    /// That of the host.
    pub host_neighbours: Option<f64>,
    /// Medians of the time by the target's own clock and by the host's, seconds.
    pub clocks: Option<(f64, f64)>,
    /// Medians of the CPU time of the target and of the host, counted on the host, seconds.
    pub cpu_times: Option<(f64, f64)>,
}

impl Evidence {
    /// Collects it from a report.
    #[must_use]
    pub fn of(report: &Report, host: &str, target: &str) -> Self {
        let facts = |side: &str| {
            let extra = report.environment.extra.iter();
            let own = extra.filter_map(|(name, value)| {
                let name = name.strip_prefix(side)?.strip_prefix(": ")?;
                Some((name.to_owned(), value.clone()))
            });
            own.collect()
        };
        let series = |side: &str, metric: &str| series(report, side, metric);
        let median = |side, metric| Statistic::Median.of(&series(side, metric)?.values());
        let swapped = [host, target].map(|side| {
            let pages = series(side, SWAPPED)
                .map(Series::values)
                .unwrap_or_default();
            pages.iter().sum::<f64>()
        });
        let runs = |side: &str| series(side, TIME).into_iter().flat_map(Series::measured);
        let both = || runs(host).chain(runs(target));
        let rounds = |dropped: bool| {
            let chosen = both().filter(|sample| !dropped || is_dropped(sample));
            chosen
                .map(|sample| sample.iteration)
                .collect::<BTreeSet<_>>()
                .len()
        };
        let rows = rows(report, &[host.to_owned(), target.to_owned()]);
        let succeeded = series(target, TIME).map_or(0, |times| times.values().len());
        let failed = rows.get(1).map_or(0, |row| row.failed);
        let neighbours = |place: usize| rows.get(place).and_then(Row::neighbours);
        let cpus = report.environment.extra.get(PROCESSORS);
        let failures = series(target, TIME).into_iter().flat_map(Series::measured);
        Self {
            host: facts(host),
            target: facts(target),
            cpus: cpus
                .and_then(|list| cpu::parse_list(list))
                .map_or(1, |list| list.len()),
            objects: failures
                .filter_map(|sample| object(&sample.outcome))
                .collect(),
            runs: (succeeded, failed),
            swapped: swapped.iter().sum(),
            dropped: (rounds(true), rounds(false)),
            speeds: median(target, SPEED).zip(median(host, SPEED)),
            floor_of_speed: median(AGAIN_NAME, SPEED)
                .zip(median(host, SPEED))
                .filter(|_| target != AGAIN_NAME)
                .map(|(again, first)| (again / first - 1.0).abs()),
            too_short: too_short(report, host, target),
            differs: rows.get(1).is_some_and(|row| {
                let floors = report.comparisons.iter().filter_map(|one| one.noise_floor);
                let floor = floors.reduce(f64::max).unwrap_or(0.0);
                let ratio = row.ratio.or(row.by_cpu.map(|(ratio, _)| ratio));
                ratio.is_some_and(|ratio| ratio > 1.0 + floor || ratio * (1.0 + floor) < 1.0)
            }),
            major_faults: median(host, COUNTS[1]).zip(median(target, COUNTS[1])),
            untimed: rows.get(1).map_or(0, |row| row.untimed),
            neighbours: neighbours(1),
            host_neighbours: neighbours(0),
            clocks: series(target, OWN)
                .zip(series(target, TIME))
                .and_then(|(own, time)| clocks(own, time)),
            cpu_times: median(target, CPU).zip(median(host, CPU)),
        }
    }

    /// A number that the target has as a fact, unless the host has the same one.
    pub(super) fn own_number(&self, name: &str) -> Option<f64> {
        let of = |facts: &BTreeMap<String, String>| facts.get(name)?.parse::<f64>().ok();
        of(&self.target).filter(|number| of(&self.host) != Some(*number))
    }

    /// A fact that both sides have and that differs: the host's, and the target's.
    pub(super) fn fact(&self, name: &str) -> Option<(&str, &str)> {
        let (host, target) = self.host.get(name).zip(self.target.get(name))?;
        (host != target).then_some((host, target))
    }
}

/// Medians of two times of the same runs. A run that was dropped has a time by the target's clock
/// only.
fn clocks(own: &Series, time: &Series) -> Option<(f64, f64)> {
    let (own, times): (Vec<_>, Vec<_>) = own.pairs(time).into_iter().unzip();
    Statistic::Median.of(&own).zip(Statistic::Median.of(&times))
}

/// The object by which a run failed.
fn object(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Failed { reason } => reason.strip_prefix(OBJECT_DIFFERS).map(str::to_owned),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use brisk_measure::{Environment, Phase, Sample, Unit};

    use super::*;

    #[test]
    fn clocks_are_compared_in_runs_that_count() {
        let mut report = Report::new("overhead", "2026-11-25T00:00:00Z", Environment::default());
        for (round, own) in [(0, 2.0), (1, 3.0), (2, 3.1)] {
            let series = report.series_mut("box: own clock", Unit::Seconds);
            series.push(Sample::measured(round, own));
            let time = match round {
                0 => Sample::measured(round, own),
                _ => Sample::failed(round, Phase::Measured, "dropped: other programs"),
            };
            report.series_mut("box: time", Unit::Seconds).push(time);
        }
        let evidence = Evidence::of(&report, "host", "box");
        assert_eq!(evidence.clocks, Some((2.0, 2.0)));
    }
}

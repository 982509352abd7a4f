//! A report as people know it: one line for each target. Pure.

use std::collections::BTreeMap;

use brisk_measure::{
    CompareOptions, Interval, Outcome, Report, Sample, Series, Statistic, noise_floor, paired_ratio,
};

use super::clock::least;
use super::disturbance::{is_dropped, is_untimed};
use super::metrics::{BY_LINES, CPU, OFF, PARTS, REST, STEAL, TIME, TIMES, WAITING, series};
use super::sides::{AGAIN_NAME, Side};

/// Pairs that an interval of 95 % needs: five allow at most 93.75 % of confidence.
const LEAST: usize = 6;
/// Runs that the best is taken of.
const BEST_OF: usize = 3;

/// A target in the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Median of the time, seconds; none if no run succeeded.
    pub median: Option<f64>,
    /// The shortest of the first three times, seconds.
    pub best: Option<f64>,
    /// Its time over the host's of the same round: the Hodges–Lehmann estimate.
    pub ratio: Option<f64>,
    /// The 95 % interval of the ratio; none with fewer than six rounds,
    /// and for the host itself.
    pub interval: Option<Interval>,
    /// Median of the CPU time on the host, seconds.
    pub cpu: Option<f64>,
    /// Its CPU time over the host's of the same round, also of runs that were dropped, and the 95 %
    /// interval of that.
    pub by_cpu: Option<(f64, Option<Interval>)>,
    /// By how much the host's times differ from themselves, as a part of them; none if that is not known.
    pub floor: Option<f64>,
    /// By how much the host's CPU times differ from themselves.
    pub floor_of_cpu: Option<f64>,
    /// Shares of wall-clock time times processors, of the whole: medians of the parts of
    /// [`PARTS`]. None for a part that is not counted.
    pub parts: [Option<f64>; PARTS.len()],
    /// Runs that were dropped, since other programs had the processors.
    pub dropped: usize,
    /// Runs without a time, since their begin and end were read at once.
    pub untimed: usize,
    /// Runs that failed.
    pub failed: usize,
    /// Why the last of these failed.
    pub reason: Option<String>,
}

impl Row {
    /// Share of the time in which others had the processors and the target wanted them: other programs,
    /// or, where that is not counted, the rest, which has it and may have more; and other machines on a
    /// hypervisor below the host. None if no run succeeded.
    #[must_use]
    pub fn neighbours(&self) -> Option<f64> {
        let part = |wanted| {
            let mut parts = PARTS.into_iter().zip(self.parts);
            parts.find_map(|(name, share)| share.filter(|_| name == wanted))
        };
        let wanted = part(WAITING).or_else(|| part(REST))?;
        Some(wanted + part(STEAL).unwrap_or(0.0))
    }
}

/// The lines of a report, in the order of `names`; the first is the host.
#[must_use]
pub fn rows(report: &Report, names: &[String]) -> Vec<Row> {
    let find = |name: &str, metric: &str| series(report, name, metric);
    let host = names.first().and_then(|name| find(name, TIME));
    let host_cpu = names.first().and_then(|name| find(name, CPU));
    let again = |host: &Series, metric: &str| {
        let again = find(AGAIN_NAME, metric)?;
        noise_floor(host, again, &CompareOptions::default())
    };
    let floors = [
        host.and_then(|host| again(host, TIME)),
        host_cpu.and_then(|host| again(host, CPU)),
    ];
    let row = |name: &String| {
        let time = find(name, TIME);
        let values = time.map(Series::values).unwrap_or_default();
        let is_known = names
            .first()
            .is_some_and(|host| too_short(report, host, name).is_none());
        let (ratio, interval) = host
            .zip(time)
            .filter(|_| is_known)
            .map_or((None, None), |(host, time)| ratio(host, time));
        let cpu = find(name, CPU);
        let both = host_cpu.zip(cpu).map(|(host, own)| self::ratio(host, own));
        let by_cpu = both.and_then(|(ratio, interval)| Some((ratio?, interval)));
        let parts = PARTS.map(|part| find(name, part));
        let totals = totals(&parts);
        let counts = |sample: &&Sample| values.is_empty() || !is_dropped_run(time, sample);
        let share = |part: Option<&Series>| {
            let shares = part?
                .measured()
                .filter(counts)
                .filter_map(|sample| Some(sample.value()? / totals.get(&sample.iteration)?));
            Statistic::Median.of(&shares.collect::<Vec<_>>())
        };
        let runs = || time.into_iter().flat_map(Series::measured);
        let reasons = runs().filter(|sample| !is_dropped(sample) && !is_untimed(sample));
        let reasons: Vec<_> = reasons.filter_map(reason).collect();
        Row {
            name: name.clone(),
            median: Statistic::Median.of(&values),
            best: values.iter().take(BEST_OF).copied().reduce(f64::min),
            ratio,
            interval: interval.filter(|_| names.first() != Some(name)),
            cpu: cpu.and_then(|series| Statistic::Median.of(&series.values())),
            by_cpu: by_cpu.filter(|_| names.first() != Some(name)),
            floor: floors[0],
            floor_of_cpu: floors[1],
            parts: parts.map(share),
            dropped: runs().filter(|sample| is_dropped(sample)).count(),
            untimed: runs().filter(|sample| is_untimed(sample)).count(),
            failed: reasons.len(),
            reason: reasons.into_iter().next_back(),
        }
    };
    names.iter().map(row).collect()
}

/// The median of a target's times and the shortest that its lines can say, seconds, if the median is
/// below that; none of a target whose shell takes its times.
pub(super) fn too_short(report: &Report, host: &str, target: &str) -> Option<(f64, f64)> {
    let times = report.environment.extra.get(&format!("{target}: {TIMES}"));
    times.filter(|text| *text == BY_LINES)?;
    let errors = [host, AGAIN_NAME, target]
        .into_iter()
        .filter_map(|side| series(report, side, OFF))
        .flat_map(Series::values);
    let least = least(errors)?;
    let median = Statistic::Median.of(&series(report, target, TIME)?.values())?;
    (median < least).then_some((median, least))
}

/// The values of a series over those of a base in the same rounds: the Hodges–Lehmann estimate,
/// none without pairs; and its 95 % interval, none with fewer than six.
pub(super) fn ratio(base: &Series, subject: &Series) -> (Option<f64>, Option<Interval>) {
    let pairs = base.pairs(subject);
    let ratio = paired_ratio(&pairs);
    let interval = ratio.filter(|_| pairs.len() >= LEAST);
    (
        ratio.map(|ratio| ratio.ratio),
        interval.map(|ratio| ratio.interval),
    )
}

/// Whether the run of a sample that counts was dropped.
fn is_dropped_run(time: Option<&Series>, sample: &Sample) -> bool {
    let mut runs = time.into_iter().flat_map(Series::measured);
    runs.any(|run| run.iteration == sample.iteration && is_dropped(run))
}

/// Wall-clock time times processors of each run, which is the sum of its parts.
fn totals(parts: &[Option<&Series>]) -> BTreeMap<u32, f64> {
    let mut totals = BTreeMap::new();
    for sample in parts.iter().flatten().flat_map(|series| series.measured()) {
        if let Some(value) = sample.value() {
            *totals.entry(sample.iteration).or_insert(0.0) += value;
        }
    }
    totals
}

/// What a change of a target is worth.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Name of the side that has it.
    pub name: String,
    /// Its time over that of the target without it, of the same round: the Hodges–Lehmann estimate;
    /// none if no round has both.
    pub ratio: Option<f64>,
    /// The 95 % interval of the ratio; none with fewer than six rounds.
    pub interval: Option<Interval>,
}

impl Change {
    /// The ratio with its interval, as text.
    #[must_use]
    pub fn text(&self) -> String {
        let Some(ratio) = self.ratio else {
            return "no round has both".to_owned();
        };
        match self.interval {
            Some(interval) => format!("{ratio:.3} ({:.3}–{:.3})", interval.low, interval.high),
            None => format!("{ratio:.3}"),
        }
    }
}

/// What was changed about targets, and what it is worth.
#[must_use]
pub fn changes(report: &Report, sides: &[Side]) -> Vec<Change> {
    let changed = sides.iter().filter_map(|side| {
        let (_, of) = side.change.as_ref()?;
        let find = |side: &Side| series(report, &side.name, TIME);
        let is_known = |side: &Side| too_short(report, &sides[0].name, &side.name).is_none();
        let both = sides.get(*of).filter(|of| is_known(of) && is_known(side));
        let both = both.and_then(find).zip(find(side));
        let (ratio, interval) = both.map_or((None, None), |(before, after)| ratio(before, after));
        Some(Change {
            name: side.name.clone(),
            ratio,
            interval,
        })
    });
    changed.collect()
}

fn reason(sample: &Sample) -> Option<String> {
    match &sample.outcome {
        Outcome::Ok { .. } => None,
        Outcome::Failed { reason } => Some(reason.clone()),
        Outcome::TimedOut => Some("the time limit passed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use brisk_measure::{Environment, Phase, Unit};

    use super::*;

    fn report() -> Report {
        let mut report = Report::new("overhead", "2026-11-25T00:00:00Z", Environment::default());
        let mut put = |name: &str, values: &[f64]| {
            let series = Series::of_values(name, Unit::Seconds, values.iter().copied());
            report.series.push(series);
        };
        put("host: time", &[1.0, 1.1, 1.2, 0.8, 1.0, 1.0]);
        put("slow: time", &[2.0, 2.2, 2.4, 1.6, 2.0, 2.0]);
        put("slow: CPU of the host", &[1.9; 6]);
        put("slow: user", &[0.5, 0.6, 0.5, 0.5, 0.5, 0.5]);
        put("slow: system", &[1.4; 6]);
        put("slow: rest", &[0.1, 0.0, 0.1, 0.1, 0.1, 0.1]);
        let failed = report.series_mut("dead: time", Unit::Seconds);
        failed.push(Sample::failed(0, Phase::Warmup, "before"));
        failed.push(Sample::failed(0, Phase::Measured, "why"));
        report
    }

    #[test]
    fn a_row_has_what_a_target_took_and_where_it_went() {
        let names = ["host", "slow", "dead"].map(str::to_owned);
        let [host, slow, dead] = &rows(&report(), &names)[..] else {
            panic!("three rows");
        };
        assert_eq!((host.median, host.best), (Some(1.0), Some(1.0)));
        assert_eq!((host.ratio, host.interval), (Some(1.0), None));
        assert_eq!((slow.median, slow.best), (Some(2.0), Some(2.0)));
        assert!((slow.ratio.unwrap() - 2.0).abs() < 1e-9);
        let interval = slow.interval.unwrap();
        assert!(interval.low <= 2.0 && interval.high >= 2.0 - 1e-9);
        assert_eq!(slow.cpu, Some(1.9));
        let shares = slow
            .parts
            .map(|share| share.map(|share| (share * 100.0).round()));
        assert_eq!(
            shares,
            [None, Some(25.0), Some(70.0), None, None, None, Some(5.0)]
        );
        // Nobody counted how long it waited.
        assert!((slow.neighbours().unwrap() - 0.05).abs() < 1e-9);
        let stolen = Row {
            parts: [None, None, None, Some(0.01), None, Some(0.3), Some(0.2)],
            ..slow.clone()
        };
        assert!((stolen.neighbours().unwrap() - 0.31).abs() < 1e-9);
        assert_eq!(dead.neighbours(), None);
        assert_eq!(dead.median, None);
        assert_eq!((dead.failed, dead.reason.as_deref()), (1, Some("why")));
        assert_eq!((dead.ratio, dead.interval), (None, None));
    }

    #[test]
    fn a_run_that_is_dropped_is_in_no_number() {
        let mut report = report();
        let reason = "dropped: other programs had the processors in 50 % of its time";
        let slow = report.series_mut("slow: time", Unit::Seconds);
        slow.samples[0] = Sample::failed(0, Phase::Measured, reason);
        let user = report.series_mut("slow: user", Unit::Seconds);
        user.samples[0] = Sample::measured(0, 1000.0);
        let names = ["host", "slow"].map(str::to_owned);
        let slow = &rows(&report, &names)[1];
        assert_eq!((slow.dropped, slow.failed), (1, 0));
        assert_eq!(slow.best, Some(1.6));
        assert!(slow.parts[1].unwrap() < 0.3);
        // Five pairs are left.
        assert_eq!(slow.interval, None);
    }

    #[test]
    fn times_below_what_lines_can_say_have_no_ratio() {
        let mut report = report();
        let fact = |report: &mut Report, text: &str| {
            let extra = &mut report.environment.extra;
            extra.insert(format!("slow: {TIMES}"), text.to_owned());
        };
        fact(&mut report, BY_LINES);
        // Nine of ten errors are at most a second: two seconds can just be told.
        let errors = Series::of_values("host: error of the lines", Unit::Seconds, [1.0; 6]);
        report.series.push(errors);
        let names = ["host", "slow"].map(str::to_owned);
        assert_eq!(too_short(&report, "host", "slow"), None);
        assert!(rows(&report, &names)[1].ratio.is_some());
        let again = Series::of_values("host again: error of the lines", Unit::Seconds, [1.1; 6]);
        report.series.push(again);
        assert_eq!(too_short(&report, "host", "slow"), Some((2.0, 2.2)));
        assert_eq!(rows(&report, &names)[1].ratio, None);
        // Where its shell takes them, its lines do not matter.
        fact(&mut report, "otherwise");
        assert!(rows(&report, &names)[1].ratio.is_some());
        // What was not timed is neither dropped nor failed.
        let slow = report.series_mut("slow: time", Unit::Seconds);
        slow.samples[0] = Sample::failed(0, Phase::Measured, super::super::disturbance::untimed());
        let slow = &rows(&report, &names)[1];
        assert_eq!((slow.untimed, slow.dropped, slow.failed), (1, 0, 0));
    }

    #[test]
    fn a_change_is_compared_with_its_target() {
        let targets = ["slow=host".parse().unwrap()];
        let thp = crate::overhead::Ablation::HugePages;
        let (sides, _) = crate::overhead::sides(&targets, &[thp], &Default::default()).unwrap();
        let mut report = report();
        let values = [2.5, 2.75, 3.0, 2.0, 2.5, 2.5];
        let changed = "slow without huge pages";
        let series = Series::of_values(format!("{changed}: time"), Unit::Seconds, values);
        report.series.push(series);
        let [change] = &changes(&report, &sides)[..] else {
            panic!("one change");
        };
        assert_eq!(change.name, changed);
        assert!((change.ratio.unwrap() - 1.25).abs() < 1e-9);
        assert!(change.interval.is_some());
        report.series.pop();
        assert_eq!(changes(&report, &sides)[0].ratio, None);
    }

    #[test]
    fn five_rounds_have_no_interval() {
        let mut report = report();
        for series in &mut report.series {
            series.samples.truncate(5);
        }
        let names = ["host", "slow"].map(str::to_owned);
        let slow = &rows(&report, &names)[1];
        assert!(slow.ratio.is_some() && slow.interval.is_none());
    }
}

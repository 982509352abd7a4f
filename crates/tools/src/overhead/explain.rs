//! Where a target's loss comes from: what single operations cost there and on the host, times how
//! often the work did them. Pure.

use brisk_measure::{Report, Statistic, Unit};

use super::metrics::{COUNTS, PARTS, TIME, series};
use super::report::too_short;
use super::sides::AGAIN_NAME;
use super::vmm;

/// Names of the parts of an explanation, in order.
pub const LOSSES: [&str; 4] = ["user code", "page faults", "read and write", "processes"];

/// Shares of a loss between which it is called explained.
const EXPLAINED: std::ops::RangeInclusive<f64> = 0.8..=1.2;

/// Part of the host's time by which it may differ from itself, where that is not known.
const UNKNOWN: f64 = 0.1;

/// Operations of the probe that compute and use no kernel.
const USER: [&str; 3] = ["user-integer", "user-float", "user-sort"];
/// A page that is first written to, and given back at the end.
const FAULT: [&str; 2] = ["fault-anonymous", "fault-unmap"];
/// Calls that read and write, of which half are each.
const CALLS: [&str; 2] = ["syscall-read", "syscall-write"];
/// A program that is started and ends.
const PROCESS: &str = "process-exec";

/// Where the loss of a target comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Name of the target.
    pub name: String,
    /// Median of its time less that of the host, seconds.
    pub loss: f64,
    /// Parts of it in the order of [`LOSSES`], seconds; none for what was not counted, or what the
    /// probe could not measure.
    pub parts: [Option<f64>; LOSSES.len()],
    /// Parts for which the host's counts stand in, as the target's kernel counts nothing.
    pub stands_in: [bool; LOSSES.len()],
}

impl Explanation {
    /// What the parts are of the loss: 1 is all of it.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.parts.iter().flatten().sum::<f64>() / self.loss
    }

    /// What the parts leave over, seconds; below zero if they are more than the loss.
    #[must_use]
    pub fn rest(&self) -> f64 {
        self.loss - self.parts.iter().flatten().sum::<f64>()
    }

    /// The loss with its parts, as text.
    #[must_use]
    pub fn text(&self) -> String {
        let seconds = |value: f64| Unit::Seconds.format(value);
        let parts = LOSSES
            .into_iter()
            .zip(self.parts)
            .filter_map(|(name, part)| {
                let part = part?;
                Some(format!("{name} {}", seconds(part)))
            });
        let parts = parts.collect::<Vec<_>>().join(", ");
        let (percent, verdict) = (self.share() * 100.0, self.verdict());
        format!("{}: {parts}; {percent:.0} %: {verdict}", seconds(self.loss))
    }

    /// Whether it is explained, for people.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match self.is_explained() {
            true => "explained",
            false => "not explained",
        }
    }

    /// Whether the parts are 80 to 120 % of the loss.
    #[must_use]
    pub fn is_explained(&self) -> bool {
        EXPLAINED.contains(&self.share())
    }
}

/// Explains the targets among `names`, of which the first is the host, and that are slower than it
/// by more than it differs from itself; its repetition has nothing to explain. None of a report without
/// costs of operations.
#[must_use]
pub fn explain(report: &Report, names: &[String]) -> Vec<Explanation> {
    let Some((host, targets)) = names.split_first() else {
        return Vec::new();
    };
    let floor = report.comparisons.iter().find_map(|one| one.noise_floor);
    let median = |side: &str, metric: &str| {
        let series = series(report, side, metric)?;
        Statistic::Median.of(&series.values())
    };
    let targets = targets.iter().filter(|name| *name != AGAIN_NAME);
    let explained = targets.filter_map(|name| {
        let own = median(host, TIME).filter(|_| too_short(report, host, name).is_none())?;
        let loss = median(name, TIME)? - own;
        let known = FAULT.iter().any(|cost| median(name, cost).is_some());
        // Inside of what the host differs from itself by, there is nothing to explain.
        if !known || loss <= floor.unwrap_or(UNKNOWN) * own {
            return None;
        }
        let work = |count: usize, cost: &dyn Fn(&str) -> Option<f64>| {
            work(&median, [host, name], COUNTS[count], cost)
        };
        let user = user_code(&median, host, name, is_emulated(report, name));
        let parts = [
            user.map(|seconds| (seconds, false)),
            work(0, &|side| sum(FAULT.map(|cost| median(side, cost)))),
            work(2, &|side| {
                sum(CALLS.map(|cost| median(side, cost))).map(|both| both / 2.0)
            }),
            work(3, &|side| median(side, PROCESS)),
        ];
        Some(Explanation {
            name: name.clone(),
            loss,
            parts: parts.map(|part| part.map(|(seconds, _)| seconds)),
            stands_in: parts.map(|part| part.is_some_and(|(_, stands_in)| stands_in)),
        })
    });
    explained.collect()
}

type Median<'a> = dyn Fn(&str, &str) -> Option<f64> + 'a;

/// What the target's counts and costs make, less what the host's make, seconds. Where the target's
/// kernel counts nothing, as that of gVisor, the host's counts stand in, as the work is the same: the
/// second says so.
fn work(
    median: &Median<'_>,
    sides: [&str; 2],
    count: &str,
    cost: &dyn Fn(&str) -> Option<f64>,
) -> Option<(f64, bool)> {
    let [host, target] = sides;
    let of_host = median(host, count)?;
    let of_target = median(target, count).filter(|count| *count > 0.0);
    let seconds = of_target.unwrap_or(of_host) * cost(target)? - of_host * cost(host)?;
    Some((seconds, of_target.is_none() && of_host > 0.0))
}

/// How much longer the host's time in programs would take in the target, by the geometric mean of
/// operations. Of emulated instructions that says nothing: each kind takes another time.
fn user_code(median: &Median<'_>, host: &str, target: &str, is_emulated: bool) -> Option<f64> {
    if is_emulated {
        return None;
    }
    let time = median(host, PARTS[1])?;
    let logarithms = USER.map(|cost| Some((median(target, cost)? / median(host, cost)?).ln()));
    Some(time * ((sum(logarithms)? / USER.len() as f64).exp() - 1.0))
}

fn sum<const COUNT: usize>(parts: [Option<f64>; COUNT]) -> Option<f64> {
    parts.into_iter().sum()
}

/// Whether QEMU emulates the target's processor.
fn is_emulated(report: &Report, name: &str) -> bool {
    let fact = format!("{name}: {}", vmm::ACCELERATORS);
    let accelerators = report.environment.extra.get(&fact);
    accelerators.is_some_and(|names| vmm::is_emulated(names))
}

#[cfg(test)]
mod tests {
    use brisk_measure::{CompareOptions, Comparison, Environment};

    use super::*;

    fn report() -> Report {
        let mut report = Report::new("overhead", "2026-11-25T00:00:00Z", Environment::default());
        let mut put = |side: &str, values: &[(&str, f64)]| {
            for (metric, value) in values {
                let series = report.series_mut(&format!("{side}: {metric}"), Unit::Seconds);
                *series = brisk_measure::Series::of_values(&*series.name, Unit::Seconds, [*value]);
            }
        };
        let of = |time, faults, [user, fault, unmap, call, exec]: [f64; 5]| {
            vec![
                ("time", time),
                ("user", 1.0),
                ("page faults", faults),
                ("calls of read and write", 100.0),
                ("processes started", 10.0),
                ("user-integer", user),
                ("user-float", user),
                ("user-sort", user),
                ("fault-anonymous", fault),
                ("fault-unmap", unmap),
                ("syscall-read", call),
                ("syscall-write", call),
                ("process-exec", exec),
            ]
        };
        let cheap = [1e-9, 1e-6, 1e-7, 1e-7, 1e-4];
        put("host", &of(1.0, 10_000.0, cheap));
        put("same", &of(1.0, 10_000.0, cheap));
        // 5 % slower programs, 20,000 faults of 50 µs, calls of 10 µs, programs of 1 ms.
        put("uml", &of(2.1, 20_000.0, [1.05e-9, 4e-5, 1e-5, 1e-5, 1e-3]));
        let all = |name: &str| report.series(name).unwrap();
        let mut compared = Comparison::of(
            all("host: time"),
            all("uml: time"),
            &CompareOptions::default(),
        );
        compared.noise_floor = Some(0.1);
        report.comparisons.push(compared);
        report
    }

    fn names() -> Vec<String> {
        ["host", "same", "uml"].map(str::to_owned).into()
    }

    #[test]
    fn a_loss_is_counts_times_costs() {
        let explained = explain(&report(), &names());
        // What loses nothing has nothing to explain.
        let [uml] = &explained[..] else {
            panic!("{explained:?}");
        };
        assert_eq!(uml.name, "uml");
        let milliseconds = uml.parts.map(|part| (part.unwrap() * 1e3).round());
        assert_eq!(milliseconds, [50.0, 989.0, 1.0, 9.0]);
        assert_eq!(uml.stands_in, [false; 4]);
        let text = uml.text();
        assert!(
            text.contains(": user code ") && text.ends_with("95 %: explained"),
            "{text}"
        );
        assert!((uml.loss - 1.1).abs() < 1e-9);
        assert!((uml.share() - 1.049 / 1.1).abs() < 1e-3 && uml.is_explained());
        assert!((uml.rest() - 0.051).abs() < 1e-3);
    }

    #[test]
    fn nothing_is_explained_inside_the_noise_floor() {
        let mut report = report();
        report.comparisons[0].noise_floor = Some(1.2);
        assert!(explain(&report, &names()).is_empty());
        report.comparisons[0].noise_floor = Some(1.0);
        assert_eq!(explain(&report, &names()).len(), 1);
        // A small loss is not explained where the floor is not known.
        report.comparisons.clear();
        assert_eq!(explain(&report, &names()).len(), 1);
        let uml = report.series_mut("uml: time", Unit::Seconds);
        *uml = brisk_measure::Series::of_values("uml: time", Unit::Seconds, [1.05]);
        assert!(explain(&report, &names()).is_empty());
    }

    #[test]
    fn emulated_instructions_and_what_was_not_counted_explain_nothing() {
        let mut report = report();
        let extra = &mut report.environment.extra;
        extra.insert("uml: accelerators".into(), "tcg".into());
        let faults = report.series_mut("uml: page faults", Unit::Seconds);
        *faults = brisk_measure::Series::of_values(&*faults.name, Unit::Seconds, [0.0]);
        let uml = &explain(&report, &names())[0];
        assert_eq!(uml.parts[0], None);
        // 10,000 as on the host, of 50 µs instead of 1.1.
        assert!((uml.parts[1].unwrap() - 0.489).abs() < 1e-9);
        assert_eq!(uml.stands_in, [false, true, false, false]);
        assert!(!uml.is_explained());
        report
            .series
            .retain(|series| !series.name.contains("fault-"));
        assert!(explain(&report, &names()).is_empty());
    }
}

//! Proof of fixes: the guest is started with and without them, in turn, and measured when idle.
//!
//! The boot is the sample: one guest differs from itself less within a boot than between boots. The
//! guest as it was takes part twice in each round; by what the two differ is noise.

mod guest;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use brisk_measure::{
    CompareOptions, Comparison, Outcome, Report, ReportError, Series, Test, Unit, Verdict,
};

pub(crate) use guest::Running;
pub use guest::{Error, Start};

use super::fix::{self, Context, Wanted};
use super::measure::{Guest, MeasureError, Options, measure};
use super::text::Text;
use brisk_experiment::{Experiment, Plan, Progress, Readings, Saved, Stopped};
use brisk_host::interrupt::Interrupt;

/// Name of the guest as it was.
pub const BEFORE: &str = "before";
/// Name of its repetition.
pub const AGAIN: &str = "before again";
/// CPU time of QEMU, in percent of a CPU.
pub const CPU: &str = "CPU";
/// Wakeups of QEMU's threads a second.
pub const WAKEUPS: &str = "wakeups";
/// Metrics that are judged.
const JUDGED: [&str; 2] = [CPU, WAKEUPS];
const MAIN: &str = "main thread";
const VCPUS: &str = "vCPUs";
const IO: &str = "CPU of I/O threads";

/// A guest with a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// Name: that of a rule, or `fixed` for all of them.
    pub name: String,
    /// The description with the change.
    pub text: Text,
}

/// How often, and for how long.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Rounds; each starts every side once.
    pub rounds: u32,
    /// Time that the guest has to boot, before anything is looked at.
    pub boot: Duration,
    /// Longest wait until it has settled.
    pub settle: Duration,
    /// How long it is measured.
    pub time: Duration,
    /// Seed of the orders.
    pub seed: u64,
}

/// A proof that came to no end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProveError {
    /// The guest cannot be started.
    #[error(transparent)]
    Guest(#[from] Error),
    /// It cannot be measured.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// The guest cannot be changed.
    #[error(transparent)]
    Fix(#[from] fix::Error),
    /// There is nothing to prove.
    #[error("{0}")]
    Nothing(String),
    /// Every run failed.
    #[error("no guest could be measured: {0}")]
    Failed(String),
    /// The report cannot be saved.
    #[error(transparent)]
    Save(#[from] ReportError),
    /// The user interrupts.
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
}

impl From<Stopped<Self>> for ProveError {
    fn from(stopped: Stopped<Self>) -> Self {
        match stopped {
            Stopped::Interrupted(signal) => Self::Interrupted(signal),
            Stopped::Save(error) => Self::Save(error),
            Stopped::Run(error) => error,
        }
    }
}

/// The changed guests: one for each rule that was named, else one with all changes that are made
/// without being asked for.
///
/// # Errors
/// If the guest cannot be changed, or a rule changes nothing.
pub fn sides(text: &Text, context: &Context, rules: &[String]) -> Result<Vec<Side>, ProveError> {
    let changed = |name: &str, rules: &[String]| {
        let fixed = fix::fix(text.clone(), context, Wanted { rules })?;
        if fixed.applied.is_empty() {
            let what = match rules {
                [] => "there is nothing to change by itself; --rule names a change".to_owned(),
                _ => {
                    format!("rule {name} changes nothing here; brisk idle lint shows what it finds")
                }
            };
            return Err(ProveError::Nothing(what));
        }
        Ok(Side {
            name: name.to_owned(),
            text: fixed.text,
        })
    };
    match rules {
        [] => Ok(vec![changed("fixed", &[])?]),
        rules => rules
            .iter()
            .map(|rule| changed(rule, std::slice::from_ref(rule)))
            .collect(),
    }
}

/// The plan: the guest as it was, again, and each side.
fn plan(sides: &[Side], settings: &Settings) -> Plan {
    let names = sides.iter().map(|side| side.name.clone());
    let names = [BEFORE, AGAIN].into_iter().map(str::to_owned).chain(names);
    Plan::new(names, settings.rounds)
        .repeats(1, 0)
        .seed(settings.seed)
}

/// Starts and measures the guests in turn. The report has all samples and the comparisons.
///
/// # Errors
/// If a guest cannot be started at all, the report not be saved, or the user interrupts. What was
/// measured before is in the report.
pub fn prove(
    text: &Text,
    start: &Start,
    sides: &[Side],
    settings: &Settings,
    saved: &mut Saved<'_>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(), ProveError> {
    let interrupt = Interrupt::by_signals().map_err(Error::Wait)?;
    let plan = plan(sides, settings);
    let mut unsettled = 0;
    let ended = Experiment::new(&plan, &interrupt)
        .on_round(progress)
        .until(|record| record.is_hopeless(0, WAKEUPS))
        .run(saved, |turn, readings| {
            let text = match turn.side.checked_sub(2) {
                Some(side) => &sides[side].text,
                None => text,
            };
            let has_settled = once(text, start, settings, &interrupt, readings)?;
            unsettled += u32::from(!has_settled);
            Ok::<_, ProveError>(())
        });
    let report = &mut *saved.report;
    if unsettled > 0 {
        report.notes.push(format!(
            "in {unsettled} runs the guest had not settled after {} s",
            settings.settle.as_secs()
        ));
    }
    arrange(report, sides);
    compare(report, &plan);
    report.warn();
    ended?;
    match failure(report) {
        Some(reason) => Err(ProveError::Failed(reason)),
        None => Ok(()),
    }
}

/// Why the first run failed, if all did.
fn failure(report: &Report) -> Option<String> {
    let mut samples = report.series.iter().flat_map(|series| &series.samples);
    if samples.clone().any(|sample| sample.value().is_some()) {
        return None;
    }
    samples.find_map(|sample| match &sample.outcome {
        Outcome::Failed { reason } => Some(reason.clone()),
        _ => None,
    })
}

/// Starts and measures a guest once; whether it had settled. A guest that ends is a run that failed.
fn once(
    text: &Text,
    start: &Start,
    settings: &Settings,
    interrupt: &Interrupt,
    readings: &mut Readings,
) -> Result<bool, ProveError> {
    let mut running = start.start(text, interrupt)?;
    if let Err(error) = running.wait(settings.boot, interrupt) {
        return failed(error, readings);
    }
    let root = Path::new("/");
    let Ok(guest) = Guest::of_process(root, running.pid(), &Default::default()) else {
        return failed(running.end_message(), readings);
    };
    let options = Options {
        settle: Some(settings.settle).filter(|settle| !settle.is_zero()),
        time: Some(settings.time),
        connect: None,
    };
    let measured = match measure(root, &[guest], &options, interrupt, &mut |_| {}) {
        Err(MeasureError::Ended(_)) => return failed(running.end_message(), readings),
        Err(MeasureError::Interrupted) => return Ok(true),
        other => other?,
    };
    let Some(measured) = measured.guests.first() else {
        return Ok(true);
    };
    if measured.has_ended {
        return failed(running.end_message(), readings);
    }
    let signature = measured.signature();
    let sum = |values: &[f64]| values.iter().sum::<f64>();
    readings.put(CPU, Unit::Percent, signature.cpu);
    readings.put(WAKEUPS, Unit::PerSecond, signature.wakeups);
    readings.put(MAIN, Unit::PerSecond, signature.main_wakeups);
    if measured.has_roles() {
        let wakeups = sum(&signature.vcpu_wakeups);
        readings.put(VCPUS, Unit::PerSecond, wakeups);
    }
    if !signature.iothread_cpu.is_empty() {
        let cpu: Vec<_> = signature.iothread_cpu.into_values().collect();
        readings.put(IO, Unit::Percent, sum(&cpu));
    }
    running.end()?;
    Ok(measured.has_settled)
}

fn failed(error: Error, readings: &mut Readings) -> Result<bool, ProveError> {
    match error {
        error @ Error::Ended(_) => {
            for (metric, unit) in [(CPU, Unit::Percent), (WAKEUPS, Unit::PerSecond)] {
                readings.put(metric, unit, Err::<f64, _>(error.to_string()));
            }
            Ok(true)
        }
        error => Err(error.into()),
    }
}

/// Puts the series of each metric beside one another, so that they can be compared by eye. I/O
/// threads that never did anything are left out.
fn arrange(report: &mut Report, sides: &[Side]) {
    let names = sides.iter().map(|side| &*side.name);
    let names: Vec<_> = [BEFORE, AGAIN].into_iter().chain(names).collect();
    let place = |name: &str| {
        let (side, metric) = name.rsplit_once(": ").unwrap_or_default();
        let metric = [CPU, WAKEUPS, MAIN, VCPUS, IO]
            .iter()
            .position(|one| *one == metric);
        (metric, names.iter().position(|one| *one == side))
    };
    report.series.sort_by_key(|series| place(&series.name));
    let idle = |series: &Series| series.values().iter().all(|value| *value == 0.0);
    let io = |series: &Series| series.name.ends_with(&format!(": {IO}"));
    if report.series.iter().filter(|one| io(one)).all(idle) {
        report.series.retain(|series| !io(series));
    }
}

/// Rounds without which there is no verdict.
const FEWEST_ROUNDS: usize = 6;

/// Adds the comparisons of each side, and what they say of its change.
fn compare(report: &mut Report, plan: &Plan) {
    let options = CompareOptions {
        test: Test::SignedRank,
        ..CompareOptions::default()
    };
    let of_metric = |metric: &str| plan.comparisons(&report.series, metric, 0, &options);
    let [cpu, wakeups] = JUDGED.map(of_metric);
    for (cpu, wakeups) in cpu.iter().zip(&wakeups) {
        report.notes.push(verdict(cpu, wakeups));
    }
    if cpu
        .iter()
        .chain(&wakeups)
        .any(|one| one.n_a < FEWEST_ROUNDS)
    {
        report.notes.push(format!(
            "A verdict needs {FEWEST_ROUNDS} rounds that came to their end; with fewer, chance can \
             give any difference."
        ));
    }
    report.comparisons.extend(cpu);
    report.comparisons.extend(wakeups);
}

/// What a change did, for people.
fn verdict(cpu: &Comparison, wakeups: &Comparison) -> String {
    let name = cpu.b.split(':').next().unwrap_or_default();
    let change = |one: &Comparison| {
        let value =
            |value: Option<f64>| value.map_or("?".to_owned(), |value| one.unit.format(value));
        let factor = one.ratio.map(|ratio| match ratio {
            ratio if ratio > 0.0 && ratio < 1.0 => format!(" (÷ {:.1})", 1.0 / ratio),
            ratio => format!(" (× {ratio:.1})"),
        });
        format!(
            "{} → {}{}",
            value(one.value_a),
            value(one.value_b),
            factor.unwrap_or_default()
        )
    };
    let verdicts = [cpu.verdict, wakeups.verdict];
    let word = match verdicts {
        _ if verdicts.contains(&Verdict::Slower) && verdicts.contains(&Verdict::Faster) => "mixed",
        _ if verdicts.contains(&Verdict::Faster) => "less",
        _ if verdicts.contains(&Verdict::Slower) => "more",
        [Verdict::NoDifference, Verdict::NoDifference] => "no difference",
        _ => "not decided",
    };
    format!(
        "{name}: {word}: CPU {}, wakeups {}",
        change(cpu),
        change(wakeups)
    )
}

//! Boots that are watched in every detail, and plain ones beside them to know what watching costs.

use std::time::Duration;

use brisk_measure::{Clock, Series, Statistic, Unit};

use super::analyze::{Analysis, LogPatterns, analyze, counted};
use super::bench::{BenchError, boot, unit, value};
use super::observation::Ended;
use super::observe::{Limits, Pass};
use super::ready_condition::Until;
use super::target::BootTarget;
use brisk_experiment::{Experiment, Order, Plan, Progress, Record};
use brisk_host::interrupt::Interrupt;

/// The sides.
const TRACED: usize = 0;
const PLAIN: usize = 1;

/// The two kinds of boots.
#[derive(Debug)]
pub struct Pair<'a> {
    /// With its trace on.
    pub traced: &'a BootTarget,
    /// Without it; none where watching adds nothing to the guest.
    pub plain: Option<&'a BootTarget>,
}

/// What came of the boots.
#[derive(Debug, Default)]
pub struct Passes {
    /// Each traced boot, explained.
    pub analyses: Vec<Analysis>,
    /// Time of the traced boots, in the unit of their clock.
    pub traced: Vec<f64>,
    /// Time of the plain boots.
    pub plain: Vec<f64>,
    /// That unit.
    pub unit: Option<Unit>,
    /// Reasons of failed boots.
    pub failures: Vec<String>,
}

impl Passes {
    /// Describes the cost of tracing.
    #[must_use]
    pub fn overhead(&self) -> Option<String> {
        let traced = Statistic::Median.of(&self.traced)?;
        let plain = Statistic::Median.of(&self.plain)?;
        let unit = self.unit?;
        let sign = if traced < plain { "−" } else { "+" };
        Some(format!(
            "watching costs {sign}{}: a traced boot takes {}, a plain one {} (medians of {} and \
             {}); the times of the parts are those of traced boots",
            unit.format((traced - plain).abs()),
            unit.format(traced),
            unit.format(plain),
            self.traced.len(),
            self.plain.len()
        ))
    }
}

/// Boots `count` times traced and as often plain, in turn, unless the first traced boots all fail.
///
/// # Errors
/// If the guest cannot be started at all, or the user interrupts.
pub fn passes(
    pair: &Pair<'_>,
    patterns: &LogPatterns,
    until: Until,
    timeout: Duration,
    count: u32,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Passes, BenchError> {
    let interrupt = Interrupt::by_signals().map_err(BenchError::Watch)?;
    let clock = pair.traced.clock();
    if clock == Clock::Instructions && until == Until::Kernel {
        return Err(BenchError::Unfit(
            "--until kernel with --clock instructions: what is explained is counted by the \
             guest's kernel, which has not begun then; use --until init, ready or exit"
                .into(),
        ));
    }
    let exact = clock == Clock::Instructions;
    let mut passes = Passes {
        unit: Some(unit(clock)),
        ..Passes::default()
    };
    // The first is the traced one: plain boots alone explain nothing.
    let sides: Vec<_> = [Some(pair.traced), pair.plain]
        .into_iter()
        .flatten()
        .collect();
    let plan = Plan::new(["traced", "plain"].into_iter().take(sides.len()), count);
    let plan = plan.order(Order::Fixed);
    let mut series: Vec<Series> = Vec::new();
    Experiment::new(&plan, &interrupt)
        .until(|record| record.is_hopeless(TRACED, ""))
        .on_round(progress)
        .run(&mut series, |turn, readings| {
            let traced = turn.side == TRACED;
            let limits = Limits {
                until,
                timeout,
                keep: traced,
            };
            let mut pass = boot(sides[turn.side], limits, &interrupt)?;
            let Some(time) = passes.take(&pass, clock, until)? else {
                return Ok(());
            };
            if traced {
                if exact && counted(&mut pass.observation).is_none() {
                    passes.failures.push("the guest did not count".into());
                    return Ok(());
                }
                passes.analyses.push(analyze(&pass.observation, patterns));
            }
            readings.put("", unit(clock), time);
            Ok::<_, BenchError>(())
        })?;
    let record = Record::new(&plan, &series, count);
    let values = |side| {
        record
            .series(side, "")
            .map_or_else(Vec::new, Series::values)
    };
    (passes.traced, passes.plain) = (values(TRACED), values(PLAIN));
    Ok(passes)
}

impl Passes {
    /// The time of a boot that came to its end; of others, why they failed is noted.
    fn take(&mut self, pass: &Pass, clock: Clock, until: Until) -> Result<Option<f64>, BenchError> {
        match &pass.ended {
            Ended::Reached => Ok(value(&pass.observation, clock, until)),
            Ended::Failed(reason) => {
                self.failures.push(reason.clone());
                Ok(None)
            }
            Ended::TimedOut => {
                self.failures.push("a boot took too long".into());
                Ok(None)
            }
            Ended::Interrupted(signal) => Err(BenchError::Interrupted(*signal)),
        }
    }
}

//! Boots that are watched in every detail, and plain ones beside them: what watching costs is
//! part of what it shows.

use brisk_measure::{Clock, Statistic, Unit};

use super::analyze::{Analysis, LogPatterns, analyze, counted};
use super::bench::{BenchError, boot, unit, value};
use super::observe::{Ended, Limits, Pass};
use super::ready_condition::Until;
use super::target::BootTarget;
use crate::interrupt::Interrupt;

/// What is booted.
#[derive(Debug)]
pub struct Pair<'a> {
    /// With its trace on.
    pub traced: &'a BootTarget,
    /// The same without; none where watching adds nothing to the guest.
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
    /// Why boots failed.
    pub failures: Vec<String>,
}

impl Passes {
    /// What watching costs, in words.
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

/// Boots `count` times traced and, by turns, plain.
///
/// # Errors
/// If the machine cannot be started at all, or the user interrupts.
pub fn passes(
    pair: &Pair<'_>,
    markers: &LogPatterns,
    limits: (Until, std::time::Duration),
    count: u32,
    after: &mut dyn FnMut(u32),
) -> Result<Passes, BenchError> {
    let interrupt = Interrupt::by_signals().map_err(BenchError::Watch)?;
    let (until, timeout) = limits;
    let clock = pair.traced.clock();
    if clock == Clock::Instructions && until == Until::Kernel {
        return Err(BenchError::Unfit(
            "--until kernel with --clock instructions: what is explained is counted by the \
             guest's kernel, which has not begun then; use --until init, ready or exit"
                .into(),
        ));
    }
    let mut all = Passes {
        unit: Some(unit(clock)),
        ..Passes::default()
    };
    for index in 0..count {
        let limits = |keep| Limits {
            until,
            timeout,
            keep,
        };
        let mut traced = boot(pair.traced, limits(true), &interrupt)?;
        if let Some(time) = all.take(&traced, clock, until)? {
            let exact = clock == Clock::Instructions;
            if exact && counted(&mut traced.observation).is_none() {
                all.failures.push("the guest did not count".into());
                continue;
            }
            all.traced.push(time);
            all.analyses.push(analyze(&traced.observation, markers));
        }
        after(index + 1);
        if let Some(plain) = pair.plain {
            let plain = boot(plain, limits(false), &interrupt)?;
            if let Some(time) = all.take(&plain, clock, until)? {
                all.plain.push(time);
            }
        }
        if all.analyses.is_empty() && index + 1 == count.min(3) {
            break;
        }
    }
    Ok(all)
}

impl Passes {
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

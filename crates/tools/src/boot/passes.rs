//! Boots that are watched in every detail, and plain ones beside them: what watching costs is
//! part of what it shows.

use brisk_measure::{Clock, Statistic};

use super::analyze::{Analysis, Markers, analyze};
use super::bench::{BenchError, boot, value};
use super::marker::Until;
use super::observe::{Ended, Limits, Pass};
use super::subject::Subject;
use crate::run::signals::Signals;

/// What is booted.
#[derive(Debug)]
pub struct Pair<'a> {
    /// With its trace on.
    pub traced: &'a Subject,
    /// The same without; none where watching adds nothing to the guest.
    pub plain: Option<&'a Subject>,
}

/// What came of the boots.
#[derive(Debug, Default)]
pub struct Passes {
    /// Each traced boot, explained.
    pub analyses: Vec<Analysis>,
    /// Seconds of the traced boots.
    pub traced: Vec<f64>,
    /// Seconds of the plain boots.
    pub plain: Vec<f64>,
    /// Why boots failed.
    pub failures: Vec<String>,
}

impl Passes {
    /// What watching costs, in words.
    #[must_use]
    pub fn overhead(&self) -> Option<String> {
        let traced = Statistic::Median.of(&self.traced)?;
        let plain = Statistic::Median.of(&self.plain)?;
        Some(format!(
            "watching costs {:+.1} ms: a traced boot takes {:.1} ms, a plain one {:.1} ms \
             (medians of {} and {}); the times of the parts are those of traced boots",
            (traced - plain) * 1e3,
            traced * 1e3,
            plain * 1e3,
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
    markers: &Markers,
    limits: (Until, std::time::Duration),
    count: u32,
    after: &mut dyn FnMut(u32),
) -> Result<Passes, BenchError> {
    let mut signals = Signals::new().map_err(BenchError::Watch)?;
    let (until, timeout) = limits;
    let mut all = Passes::default();
    for index in 0..count {
        let limits = |keep| Limits {
            until,
            timeout,
            keep,
        };
        let traced = boot(pair.traced, limits(true), &mut signals)?;
        if let Some(seconds) = all.take(&traced, until)? {
            all.traced.push(seconds);
            all.analyses.push(analyze(&traced.observation, markers));
        }
        after(index + 1);
        if let Some(plain) = pair.plain {
            let plain = boot(plain, limits(false), &mut signals)?;
            if let Some(seconds) = all.take(&plain, until)? {
                all.plain.push(seconds);
            }
        }
        if all.analyses.is_empty() && index + 1 == count.min(3) {
            break;
        }
    }
    Ok(all)
}

impl Passes {
    fn take(&mut self, pass: &Pass, until: Until) -> Result<Option<f64>, BenchError> {
        match &pass.ended {
            Ended::Reached => Ok(value(&pass.observation, Clock::HostMonotonic, until)),
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

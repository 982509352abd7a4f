//! Trying what could make boots quicker, one thing at a time on top of what has helped.
//!
//! [`optimisation`] lists what is tried, [`decide`] says when it is known whether it helped, and
//! [`tune`] boots.

mod agree;
mod decide;
mod optimisation;

use std::time::Duration;

use brisk_measure::{Clock, Interval, Series, Statistic, Unit, paired_ratio};
use brisk_vm::cache::Cache;
use serde::{Deserialize, Serialize};

pub use agree::{ABOVE, Agreement, agree};
pub use decide::Verdict;
pub use optimisation::{CANDIDATES, Optimisation, optimisations, plain};

use super::analyze::LogPatterns;
use super::bench::{BenchError, boot, count, countable, value};
use super::observation::Ended;
use super::observe::Limits;
use super::passes::{Pair, passes};
use super::ready_condition::Until;
use super::target::{BootTarget, Guest};
use crate::guest::{Error, Options};
use brisk_experiment::{Experiment, Plan, Stopped};
use brisk_host::interrupt::Interrupt;
use decide::{LOOKS, decide};
use optimisation::candidates;

/// What the ledger says of one optimisation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    #[serde(alias = "lever")]
    pub optimisation: String,
    /// What it does.
    pub what: String,
    /// What became of it.
    pub verdict: Verdict,
    /// Time with it over time without it, of the pairs.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio.
    pub interval: Option<Interval>,
    /// Instructions with it over instructions without it, where they can be counted.
    pub instructions: Option<f64>,
    /// What it saves of a usual boot, seconds.
    pub saving: Option<f64>,
    /// Pairs of boots.
    pub pairs: Vec<(f64, f64)>,
    /// Why, where the numbers do not say it.
    pub reason: String,
    /// What of the guest's security it gives up.
    pub trades: Option<String>,
}

/// How to tune.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the measured time ends.
    pub until: Until,
    /// How long one boot may take.
    pub timeout: Duration,
    /// Whether optimisations may be used that give up security.
    pub allow_insecure: bool,
    /// Whether the initcalls that take most of a boot are left out, too, if the check succeeds.
    pub try_initcalls: bool,
    /// What explains a boot.
    pub markers: LogPatterns,
    /// What a guest must be able to do with the optimisation, a command.
    pub check: Vec<String>,
}

/// What came of it.
#[derive(Debug)]
pub struct Tuned {
    /// What was tried.
    pub ledger: Vec<Entry>,
    /// The guest with all that helped.
    pub best: Box<Guest>,
    /// Kernel parameters of it that may take what only a guest like this one does not need.
    pub blind: Vec<String>,
}

/// How far it is: optimisations done, and what is being done.
pub type Progress<'a> = dyn FnMut(usize, &str, Option<&Entry>) + 'a;

/// Tries all optimisations, starting from `start`.
///
/// # Errors
/// If the start does not boot, or the user interrupts.
pub fn tune(
    start: Options,
    settings: &Settings,
    cache: &Cache,
    progress: &mut Progress<'_>,
) -> Result<Tuned, BenchError> {
    let interrupt = Interrupt::by_signals().map_err(BenchError::Watch)?;
    let tuner = Tuner {
        settings,
        cache,
        interrupt: &interrupt,
        counted: None,
    };
    let best = tuner.prepare(start)?;
    if let Err(reason) = tuner.works(&best)? {
        return Err(BenchError::Unfit(format!(
            "the guest does not work before anything is tuned: {reason}"
        )));
    }
    let mut trials = Trials {
        tuner,
        best,
        ledger: Vec::new(),
        blind: Vec::new(),
        done: 0,
    };
    for optimisation in optimisations() {
        trials.add(&optimisation, progress)?;
    }
    for optimisation in trials.tuner.candidates(&trials.best)? {
        trials.add(&optimisation, progress)?;
    }
    let BootTarget::Guest(guest) = trials.best else {
        return Err(BenchError::Unfit("only brisk's guests are tuned".into()));
    };
    // What brisk run has, whatever came of that.
    let mut options = guest.options;
    options.kernel.gzip_initramfs = false;
    let best = Guest::prepare(options, cache, &mut |_| {})?;
    Ok(Tuned {
        ledger: trials.ledger,
        best: Box::new(best),
        blind: trials.blind,
    })
}

/// Best options so far, and the ledger.
struct Trials<'a> {
    tuner: Tuner<'a>,
    best: BootTarget,
    ledger: Vec<Entry>,
    blind: Vec<String>,
    done: usize,
}

impl Trials<'_> {
    /// Tries one more.
    fn add(
        &mut self,
        optimisation: &Optimisation,
        progress: &mut Progress<'_>,
    ) -> Result<(), BenchError> {
        progress(self.done, &optimisation.name, None);
        self.done += 1;
        let BootTarget::Guest(current) = &self.best else {
            return Ok(());
        };
        let options = optimisation.apply(&current.options);
        if options == current.options {
            return Ok(());
        }
        let (entry, better) = match self.tuner.settings.refuses(optimisation) {
            Some(reason) => (without_pairs(optimisation, Verdict::Refused, reason), None),
            None => self.tuner.try_lever(optimisation, &self.best, options)?,
        };
        progress(self.done, &optimisation.name, Some(&entry));
        self.ledger.push(entry);
        if let Some(better) = better {
            self.best = better;
            if optimisation.unknown {
                self.blind.push(optimisation.name.clone());
            }
            self.tuner.counted = None;
        }
        Ok(())
    }
}

impl Settings {
    /// Why an optimisation is not to be tried.
    fn refuses(&self, optimisation: &Optimisation) -> Option<String> {
        let insecure = optimisation.trades.filter(|_| !self.allow_insecure);
        let blind = optimisation.unknown && !self.try_initcalls;
        match (insecure, blind) {
            (Some(trades), false) => Some(format!("{trades}; --allow-insecure tries it")),
            (Some(trades), true) => Some(format!(
                "{trades}; --try-initcalls and --allow-insecure try it with --check"
            )),
            (None, true) => {
                Some("what it does is lost; --try-initcalls tries it with --check".to_owned())
            }
            (None, false) => None,
        }
    }
}

struct Tuner<'a> {
    settings: &'a Settings,
    cache: &'a Cache,
    interrupt: &'a Interrupt,
    /// Instructions of a boot of the best so far.
    counted: Option<f64>,
}

impl Tuner<'_> {
    fn prepare(&self, options: Options) -> Result<BootTarget, Error> {
        let guest = Guest::prepare(options, self.cache, &mut |_| {})?;
        Ok(BootTarget::Guest(Box::new(guest)))
    }

    fn limits(&self, until: Until) -> Limits {
        Limits {
            until,
            timeout: self.settings.timeout,
            keep: false,
        }
    }

    /// Seconds, or why there are none.
    fn seconds(&self, subject: &BootTarget) -> Result<Result<f64, String>, BenchError> {
        let until = self.settings.until;
        let limits = self.limits(until);
        let pass = boot(subject, limits, self.interrupt)?;
        Ok(match pass.ended {
            Ended::Interrupted(signal) => return Err(BenchError::Interrupted(signal)),
            Ended::TimedOut => Err("a boot took too long".into()),
            Ended::Failed(reason) => Err(reason),
            Ended::Reached => value(&pass.observation, Clock::HostMonotonic, until)
                .ok_or_else(|| "the guest did not send the time".into()),
        })
    }

    /// Whether the check command succeeds in it; else why not.
    fn works(&self, subject: &BootTarget) -> Result<Result<(), String>, BenchError> {
        let BootTarget::Guest(guest) = subject else {
            return Ok(Ok(()));
        };
        let mut options = guest.options.clone();
        options.command.words = self.settings.check.iter().map(Into::into).collect();
        let subject = self.prepare(options)?;
        let limits = self.limits(Until::Exit);
        let pass = boot(&subject, limits, self.interrupt)?;
        Ok(match pass.ended {
            Ended::Reached => Ok(()),
            Ended::TimedOut => Err("the check took too long".into()),
            Ended::Failed(reason) => Err(reason),
            Ended::Interrupted(signal) => return Err(BenchError::Interrupted(signal)),
        })
    }

    /// Instructions of a boot; none where they cannot be counted, or not exactly.
    fn count(&self, subject: &BootTarget) -> Result<Option<f64>, BenchError> {
        let limits = self.limits(self.settings.until);
        count(subject, limits, self.cache, self.interrupt)
    }

    /// The initcalls that take most of a boot of the best, traced, as optimisations; counted in
    /// instructions where that is possible. None if it does not boot.
    fn candidates(&self, best: &BootTarget) -> Result<Vec<Optimisation>, BenchError> {
        let BootTarget::Guest(guest) = best else {
            return Ok(Vec::new());
        };
        let options = Options {
            trace: true,
            ..countable(best).unwrap_or_else(|| guest.options.clone())
        };
        let pair = Pair {
            traced: &self.prepare(options)?,
            plain: None,
        };
        let (patterns, timeout) = (&self.settings.markers, self.settings.timeout);
        let passes = passes(&pair, patterns, Until::Exit, timeout, 1, &mut |_| {})?;
        let analysis = passes.analyses.first();
        Ok(analysis.map_or_else(Vec::new, |found| candidates(&found.timeline)))
    }

    /// Boots without and with an optimisation alternately until there is a verdict.
    fn try_lever(
        &mut self,
        optimisation: &Optimisation,
        best: &BootTarget,
        options: Options,
    ) -> Result<(Entry, Option<BootTarget>), BenchError> {
        let candidate = match self.prepare(options) {
            Ok(candidate) => candidate,
            Err(error) => {
                return Ok((
                    without_pairs(optimisation, Verdict::Unfit, error.to_string()),
                    None,
                ));
            }
        };
        if let Err(reason) = self.works(&candidate)? {
            return Ok((without_pairs(optimisation, Verdict::Broken, reason), None));
        }
        if self.counted.is_none() {
            self.counted = self.count(best)?;
        }
        let with = self.count(&candidate)?;
        let counted = with.zip(self.counted).map(|(with, without)| with / without);
        let (verdict, pairs) = match self.measure([best, &candidate], counted) {
            Ok(measured) => measured,
            // What it is compared with may fail as well.
            Err(Unmeasured::Boot(WITHOUT, reason)) => {
                let reason = format!("a boot without it failed: {reason}");
                return Ok((without_pairs(optimisation, Verdict::Unfit, reason), None));
            }
            Err(Unmeasured::Boot(_, reason)) => {
                return Ok((without_pairs(optimisation, Verdict::Broken, reason), None));
            }
            Err(Unmeasured::Bench(error)) => return Err(error),
        };
        let kept = (verdict == Verdict::Kept).then_some(candidate);
        Ok((entry(optimisation, verdict, pairs, counted), kept))
    }

    /// Boots without and with an optimisation, in interleaved pairs, until [`decide`] knows whether
    /// it helps. A boot that fails ends it.
    fn measure(
        &self,
        sides: [&BootTarget; 2],
        counted: Option<f64>,
    ) -> Result<(Verdict, Vec<(f64, f64)>), Unmeasured> {
        let plan = Plan::new(["without", "with"], LOOKS[LOOKS.len() - 1] as u32);
        let mut verdict = None;
        let mut pairs = Vec::new();
        let mut series: Vec<Series> = Vec::new();
        Experiment::new(&plan, self.interrupt)
            .until(|record| {
                pairs = record.pairs(WITHOUT, WITH, "");
                verdict = decide(&pairs, counted);
                verdict.is_some()
            })
            .run(&mut series, |turn, readings| {
                let seconds = self.seconds(sides[turn.side]);
                let seconds = seconds.map_err(Unmeasured::Bench)?;
                let seconds = seconds.map_err(|reason| Unmeasured::Boot(turn.side, reason))?;
                readings.put("", Unit::Seconds, seconds);
                Ok(())
            })?;
        Ok((verdict.unwrap_or(Verdict::NoGain), pairs))
    }
}

/// The sides of a trial.
const WITHOUT: usize = 0;
const WITH: usize = 1;

/// Why a trial came to no verdict.
#[derive(Debug)]
enum Unmeasured {
    /// A boot of a side failed, and why.
    Boot(usize, String),
    /// Something else.
    Bench(BenchError),
}

impl From<Stopped<Self>> for Unmeasured {
    fn from(stopped: Stopped<Self>) -> Self {
        match stopped {
            Stopped::Run(unmeasured) => unmeasured,
            Stopped::Save(error) => Self::Bench(error.into()),
            Stopped::Interrupted(signal) => Self::Bench(BenchError::Interrupted(signal)),
        }
    }
}

fn entry(
    optimisation: &Optimisation,
    verdict: Verdict,
    pairs: Vec<(f64, f64)>,
    instructions: Option<f64>,
) -> Entry {
    let found = paired_ratio(&pairs);
    let without: Vec<f64> = pairs.iter().map(|(without, _)| *without).collect();
    let without = Statistic::Median.of(&without);
    Entry {
        ratio: found.map(|found| found.ratio),
        interval: found.map(|found| found.interval),
        instructions,
        saving: without
            .zip(found)
            .map(|(without, found)| without * (1.0 - found.ratio)),
        pairs,
        ..without_pairs(optimisation, verdict, String::new())
    }
}

fn without_pairs(optimisation: &Optimisation, verdict: Verdict, reason: String) -> Entry {
    Entry {
        optimisation: optimisation.name.clone(),
        what: optimisation.what.clone(),
        verdict,
        ratio: None,
        interval: None,
        instructions: None,
        saving: None,
        pairs: Vec::new(),
        reason,
        trades: optimisation.trades.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::optimisation::without;
    use super::*;

    #[test]
    fn what_weakens_a_guest_is_tried_only_if_that_is_allowed() {
        let settings = |allow_insecure, try_initcalls| Settings {
            until: Until::Exit,
            timeout: Duration::from_secs(1),
            allow_insecure,
            try_initcalls,
            markers: LogPatterns::own().unwrap(),
            check: Vec::new(),
        };
        let refused = |optimisation: &Optimisation, allowed, tried| {
            let reason = settings(allowed, tried).refuses(optimisation)?;
            let asked = |flag| reason.contains(flag);
            Some((asked("--allow-insecure"), asked("--try-initcalls")))
        };
        let plain = without("chr_dev_init", 0.1);
        let weakens = without("init_user_buckets", 0.1);
        let known = optimisations()
            .into_iter()
            .find(|optimisation| optimisation.name == "nokaslr");
        for (optimisation, none, insecure, tried) in [
            (&plain, Some((false, true)), Some((false, true)), None),
            (
                &weakens,
                Some((true, true)),
                Some((false, true)),
                Some((true, false)),
            ),
            (
                &known.unwrap(),
                Some((true, false)),
                None,
                Some((true, false)),
            ),
        ] {
            assert_eq!(
                refused(optimisation, false, false),
                none,
                "{}",
                optimisation.name
            );
            assert_eq!(
                refused(optimisation, true, false),
                insecure,
                "{}",
                optimisation.name
            );
            assert_eq!(
                refused(optimisation, false, true),
                tried,
                "{}",
                optimisation.name
            );
            assert_eq!(
                refused(optimisation, true, true),
                None,
                "{}",
                optimisation.name
            );
        }
    }
}

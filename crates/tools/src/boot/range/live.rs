//! Measurement of a commit by booting its artifacts.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use brisk_measure::{Clock, Phase, Sample, Series, Timeline};
use brisk_vm::cache::Cache;

use super::build::{Artifacts, Role};
use super::{Measure, Measured, Unbootable};
use crate::boot::analyze::{LogPatterns, analyze, counted};
use crate::boot::bench::{boot, count, outcome, series_name, unit};
use crate::boot::observation::Ended;
use crate::boot::observe::Limits;
use crate::boot::ready_condition::{ReadyCondition, Until};
use crate::boot::target::{BootTarget, Command, Guest};
use crate::guest::Options;
use brisk_host::chain;
use brisk_host::interrupt::Interrupt;

/// Boot target, in which the artifacts are put.
#[derive(Debug, Clone)]
pub enum Template {
    /// A guest of brisk's: kernel, QEMU and firmware of a commit take the place of its own, an
    /// initramfs is unpacked over its own, and the text of a file is appended to the kernel's
    /// command line.
    Guest(Box<Options>),
    /// A command line that starts QEMU, with `{kernel}`, `{initramfs}`, `{qemu}`, `{firmware}`
    /// and `{file}` for the artifacts.
    Command {
        /// The words.
        words: Vec<OsString>,
        /// Ready condition.
        marker: Option<ReadyCondition>,
        /// Whether instructions are counted, until the kernel is entered.
        counted: bool,
    },
}

/// Measures commits by booting them.
#[derive(Debug)]
pub struct Live {
    template: Template,
    until: Until,
    timeout: Duration,
    /// Whether boots are traced, to explain a change.
    explain: bool,
    cache: Cache,
    markers: LogPatterns,
    traced: HashSet<PathBuf>,
    prepared: Recent<Vec<PathBuf>, BootTarget>,
    iteration: u32,
}

/// Values that were made for the last keys: commits are booted one by one, or interleaved, a middle
/// and the ends of a range.
#[derive(Debug)]
struct Recent<K, V>(Vec<(K, Rc<V>)>);

/// Most commits that are booted in one round.
const BY_TURNS: usize = 3;

impl<K: PartialEq, V> Recent<K, V> {
    fn get_or_make<E>(&mut self, key: K, make: impl FnOnce() -> Result<V, E>) -> Result<Rc<V>, E> {
        if let Some(at) = self.0.iter().position(|(known, _)| *known == key) {
            let found = self.0.remove(at);
            self.0.push(found);
        } else {
            let made = Rc::new(make()?);
            if self.0.len() == BY_TURNS {
                self.0.remove(0);
            }
            self.0.push((key, made));
        }
        let (_, value) = self.0.last().expect("one was put there");
        Ok(Rc::clone(value))
    }
}

/// Most bytes of a kernel's command line (`COMMAND_LINE_SIZE` of x86).
const COMMAND_LINE: u64 = 2048;

impl Live {
    /// Boots `template` up to `until`.
    #[must_use]
    pub fn new(
        template: Template,
        until: Until,
        timeout: Duration,
        explain: bool,
        cache: Cache,
        markers: LogPatterns,
    ) -> Self {
        Self {
            template,
            until,
            timeout,
            explain,
            cache,
            markers,
            traced: HashSet::new(),
            prepared: Recent(Vec::new()),
            iteration: 0,
        }
    }

    fn limits(&self, until: Until, keep: bool) -> Limits {
        Limits {
            until,
            timeout: self.timeout,
            keep,
        }
    }

    /// The boot target of a commit, made once for all its boots.
    fn prepared(&mut self, artifacts: &Artifacts) -> Result<Rc<BootTarget>, Unbootable> {
        let key = artifacts.files.iter().map(|file| file.path.clone());
        let mut recent = std::mem::replace(&mut self.prepared, Recent(Vec::new()));
        let result = recent.get_or_make(key.collect(), || self.subject(artifacts, false));
        self.prepared = recent;
        result
    }

    fn subject(&self, artifacts: &Artifacts, trace: bool) -> Result<BootTarget, Unbootable> {
        match &self.template {
            Template::Command {
                words,
                marker,
                counted,
            } => {
                let words = words.iter().map(|word| filled(word, artifacts));
                let words: Vec<_> = words.collect();
                let mut command = Command::new(&words, marker.clone()).map_err(unbootable)?;
                if *counted {
                    command = command.counted().map_err(unbootable)?;
                }
                Ok(BootTarget::Command(command))
            }
            Template::Guest(options) => {
                let mut options = Options {
                    trace,
                    ..(**options).clone()
                };
                if let Some(path) = artifacts.get(Role::Kernel) {
                    options.kernel.image = Some(path.display().to_string());
                }
                if let Some(path) = artifacts.get(Role::Qemu) {
                    options.hardware.qemu = path.display().to_string();
                }
                if let Some(path) = artifacts.get(Role::Firmware) {
                    let path = path.display().to_string();
                    options
                        .hardware
                        .qemu_args
                        .extend(["-bios".to_owned(), path]);
                }
                if let Some(path) = artifacts.get(Role::File) {
                    options.kernel.append.push(command_line(path)?);
                }
                options.kernel.extra_initramfs = artifacts.get(Role::Initramfs).map(Path::to_owned);
                let guest = Guest::prepare(options, &self.cache, &mut |_| {});
                Ok(BootTarget::Guest(Box::new(guest.map_err(unbootable)?)))
            }
        }
    }

    /// A traced boot, explained; none if it fails, which the plain ones will show.
    fn timeline(&mut self, artifacts: &Artifacts, interrupt: &Interrupt) -> Option<Timeline> {
        let known = artifacts.files.first()?.path.clone();
        if !self.explain || !self.traced.insert(known) {
            return None;
        }
        let subject = self.subject(artifacts, true).ok()?;
        let until = match (self.until, subject.clock()) {
            // The guest's kernel counts, and has not begun then.
            (Until::Kernel, Clock::Instructions) => return None,
            // What comes behind the end of the measured time explains nothing of it.
            (Until::Kernel, _) => Until::Kernel,
            _ => Until::Exit,
        };
        let pass = boot(&subject, self.limits(until, true), interrupt).ok()?;
        let mut observation = pass.observation;
        if subject.clock() == Clock::Instructions {
            counted(&mut observation)?;
        }
        (pass.ended == Ended::Reached).then(|| analyze(&observation, &self.markers).timeline)
    }
}

fn unbootable(error: impl std::error::Error) -> Unbootable {
    Unbootable(chain(&error))
}

fn command_line(path: &Path) -> Result<String, Unbootable> {
    let size = std::fs::metadata(path).map_err(unbootable)?.len();
    if size > COMMAND_LINE {
        return Err(Unbootable(format!(
            "file artifact of {size} bytes: its text is appended to the kernel's command line, \
             which has at most {COMMAND_LINE}"
        )));
    }
    let text = brisk_host::files::read_regular_text(path).map_err(unbootable)?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Replaces placeholders in a word by the paths of artifacts.
fn filled(word: &OsString, artifacts: &Artifacts) -> OsString {
    let Some(text) = word.to_str() else {
        return word.clone();
    };
    let mut text = text.to_owned();
    for (name, role) in [
        ("{kernel}", Role::Kernel),
        ("{initramfs}", Role::Initramfs),
        ("{qemu}", Role::Qemu),
        ("{firmware}", Role::Firmware),
        ("{file}", Role::File),
    ] {
        if let Some(path) = artifacts.get(role) {
            text = text.replace(name, &path.display().to_string());
        }
    }
    text.into()
}

impl Measure for Live {
    fn measure(
        &mut self,
        artifacts: &Artifacts,
        runs: u32,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Measured, Unbootable> {
        progress("booting");
        let subject = self.prepared(artifacts)?;
        let interrupt = Interrupt::by_signals().map_err(unbootable)?;
        let clock = subject.clock();
        let mut series = Series::new(series_name(&subject, self.until), unit(clock));
        for _ in 0..runs {
            let limits = self.limits(self.until, false);
            let pass = boot(&subject, limits, &interrupt).map_err(unbootable)?;
            match &pass.ended {
                Ended::Reached => {}
                Ended::Failed(reason) => return Err(Unbootable(reason.clone())),
                Ended::TimedOut => return Err(Unbootable("the boot took too long".into())),
                Ended::Interrupted(signal) => {
                    return Err(Unbootable(format!("interrupted by signal {signal}")));
                }
            }
            series.push(Sample {
                iteration: self.iteration,
                phase: Phase::Measured,
                outcome: outcome(&pass, clock, self.until).map_err(unbootable)?,
            });
            self.iteration += 1;
        }
        let timeline = self.timeline(artifacts, &interrupt);
        Ok(Measured { series, timeline })
    }

    fn count(&mut self, artifacts: &Artifacts) -> Option<f64> {
        let subject = self.prepared(artifacts).ok()?;
        let limits = self.limits(self.until, false);
        let interrupt = Interrupt::by_signals().ok()?;
        count(&subject, limits, &self.cache, &interrupt).ok()?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_by_turns_is_made_once() {
        let mut recent = Recent(Vec::new());
        let mut made = Vec::new();
        for key in ["a", "b", "c", "b", "a", "b", "c", "d", "b", "a"] {
            let value = recent.get_or_make(key, || {
                made.push(key);
                Ok::<_, ()>(key)
            });
            assert_eq!(*value.unwrap(), key);
        }
        assert_eq!(made, ["a", "b", "c", "d", "a"]);
        assert!(recent.get_or_make("e", || Err(())).is_err());
        assert_eq!(recent.0.len(), BY_TURNS);
    }
}

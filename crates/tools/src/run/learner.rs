//! Learning from a guest which of the kernel's code it had translated: see
//! [`crate::guest::pretranslation`].

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use brisk_vm::cache::Cache;
use brisk_vm::launch::Learning;
use brisk_vm::pretranslation::{self, TemplateMemory};
use brisk_vm::qemu::{VmConfig, qmp};
use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use serde_json::json;

use crate::guest::facts::Facts;
use crate::guest::pretranslation as choice;

/// How long a guest that went on from a template is watched: a short command is over by then, and a
/// long one does not gain by it.
const WATCHED: Duration = Duration::from_secs(2);

/// Whether a guest that goes on from a template is to be learnt from.
pub(super) fn teaches(machine: &VmConfig, template: &Path) -> bool {
    let untaught = || TemplateMemory::new(&File::open(template)?).is_untaught();
    machine.processors.pretranslator.is_some() && untaught().unwrap_or(false)
}

/// A guest that is learnt from.
#[derive(Debug)]
pub(super) enum Learner {
    /// As it boots.
    Boot(Box<Boot>),
    /// As it goes on from this template.
    Template {
        /// What is traced.
        learning: Learning,
        /// The memory.
        template: PathBuf,
        /// The kernel.
        kernel: PathBuf,
        /// How long; none: it is over.
        until: Option<Instant>,
    },
}

impl Learner {
    pub(super) fn new(
        learning: Learning,
        machine: &VmConfig,
        facts: &Facts,
        cache: &Cache,
    ) -> Option<Self> {
        let kernel = facts.image.path.clone();
        Some(match &machine.state {
            Some(state) => Self::Template {
                learning,
                template: state.path.clone(),
                kernel,
                until: Instant::now().checked_add(WATCHED),
            },
            None => Self::Boot(Box::new(Boot {
                learning,
                kernel,
                key: facts.pretranslation.as_ref()?.key.clone(),
                cache: cache.clone(),
                vmlinux: Vec::new(),
                patched: None,
                traced: None,
            })),
        })
    }

    /// When to ask for [`Self::enough`].
    pub(super) const fn until(&self) -> Option<Instant> {
        match self {
            Self::Boot(_) => None,
            Self::Template { until, .. } => *until,
        }
    }

    /// What QEMU is told if it has been watched long enough by now.
    pub(super) fn enough(&mut self) -> Option<Vec<u8>> {
        let Self::Template { until, .. } = self else {
            return None;
        };
        until.take_if(|until| *until < Instant::now())?;
        Some(stop_tracing())
    }

    /// It ended well: what it teaches is kept. Without that the next one is as this one was.
    pub(super) fn keep(self) {
        match self {
            Self::Boot(boot) => boot.keep(),
            Self::Template {
                learning,
                template,
                kernel,
                ..
            } => {
                let _ = teach(&learning, &template, &kernel);
            }
        }
    }
}

/// Writes what a guest that went on from a template has taught into the template.
fn teach(learning: &Learning, template: &Path, kernel: &Path) -> io::Result<()> {
    let lock = File::open(template)?;
    // Another one is at it.
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    if !TemplateMemory::new(&lock).is_untaught()? {
        return Ok(());
    }
    let [closed, open] = [0o444, 0o644].map(Mode::from_raw_mode);
    fchmod(&lock, open)?;
    let writable = File::options().read(true).write(true).open(template);
    fchmod(&lock, closed)?;
    TemplateMemory::new(&writable?).teach(&fs::read(kernel)?, &learning.traced()?)
}

fn stop_tracing() -> Vec<u8> {
    let arguments = json!({ "name": pretranslation::EVENT, "enable": false });
    qmp::command_with("trace-event-set-state", &arguments)
}

/// A boot that is learnt from.
#[derive(Debug)]
pub(super) struct Boot {
    learning: Learning,
    kernel: PathBuf,
    key: String,
    cache: Cache,
    vmlinux: Vec<u8>,
    patched: Option<Vec<u8>>,
    traced: Option<Vec<u8>>,
}

impl Boot {
    /// Init has greeted: the kernel has patched itself, and nobody else has come to it.
    pub(super) fn booted(&mut self) {
        self.vmlinux = fs::read(&self.kernel).unwrap_or_default();
        let text = pretranslation::text(&self.vmlinux);
        self.patched = text.and_then(|text| self.learning.memory(text).ok());
    }

    /// The command starts, whose code is not the kernel's. What QEMU is told then.
    pub(super) fn started(&mut self) -> Vec<u8> {
        self.traced = self.learning.traced().ok();
        stop_tracing()
    }

    fn keep(self) {
        let (Some(patched), Some(traced)) = (&self.patched, &self.traced) else {
            return;
        };
        let pretranslator = || pretranslation::learn(&self.vmlinux, patched, traced);
        let _ = choice::keep(&self.cache, &self.key, pretranslator);
    }
}

//! Recording of the kernel's code that a guest executes, for TB pretranslation: see
//! [`crate::guest::pretranslation`].

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use brisk_vm::cache::Cache;
use brisk_vm::launch::TbTrace;
use brisk_vm::pretranslation::{self, TemplateMemory};
use brisk_vm::qemu::{VmConfig, qmp};
use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use serde_json::json;

use crate::guest::facts::Facts;
use crate::guest::pretranslation as choice;

/// Time that a guest restored from a template is recorded: a short command has ended by then, and a
/// long one does not gain by pretranslation.
const WATCHED: Duration = Duration::from_secs(2);

/// Whether a guest that is restored from a template is to be recorded.
pub(super) fn is_wanted(machine: &VmConfig, template: &Path) -> bool {
    let lacks = || TemplateMemory::new(&File::open(template)?).lacks_pretranslation();
    machine.processors.pretranslator.is_some() && lacks().unwrap_or(false)
}

/// Recording of a guest.
#[derive(Debug)]
pub(super) enum Recorder {
    /// Of its boot.
    Boot(Box<Boot>),
    /// Of its first command after it was restored from this template.
    Template {
        /// The trace.
        tb_trace: TbTrace,
        /// File of the template.
        template: PathBuf,
        /// Path of the kernel.
        kernel: PathBuf,
        /// End of the recording; `None`: it is over.
        until: Option<Instant>,
    },
}

impl Recorder {
    pub(super) fn new(
        tb_trace: TbTrace,
        machine: &VmConfig,
        facts: &Facts,
        cache: &Cache,
    ) -> Option<Self> {
        let kernel = facts.image.path.clone();
        Some(match &machine.state {
            Some(state) => Self::Template {
                tb_trace,
                template: state.path.clone(),
                kernel,
                until: Instant::now().checked_add(WATCHED),
            },
            None => Self::Boot(Box::new(Boot {
                tb_trace,
                kernel,
                key: facts.pretranslation.as_ref()?.key.clone(),
                cache: cache.clone(),
                vmlinux: Vec::new(),
                patched: None,
                traced: None,
            })),
        })
    }

    /// Time of the next call of [`Self::enough`].
    pub(super) const fn until(&self) -> Option<Instant> {
        match self {
            Self::Boot(_) => None,
            Self::Template { until, .. } => *until,
        }
    }

    /// Command for QEMU that ends the trace, if it has been recorded long enough.
    pub(super) fn enough(&mut self) -> Option<Vec<u8>> {
        let Self::Template { until, .. } = self else {
            return None;
        };
        until.take_if(|until| *until < Instant::now())?;
        Some(stop_tracing())
    }

    /// Saves the recording of a run without errors. Otherwise the next run is recorded.
    pub(super) fn keep(self) {
        match self {
            Self::Boot(boot) => boot.keep(),
            Self::Template {
                tb_trace,
                template,
                kernel,
                ..
            } => {
                let _ = add_pretranslation(&tb_trace, &template, &kernel);
            }
        }
    }
}

/// Writes the list of blocks of a restored guest into the template.
fn add_pretranslation(tb_trace: &TbTrace, template: &Path, kernel: &Path) -> io::Result<()> {
    let lock = File::open(template)?;
    // Another one is at it.
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    if !TemplateMemory::new(&lock).lacks_pretranslation()? {
        return Ok(());
    }
    let [closed, open] = [0o444, 0o644].map(Mode::from_raw_mode);
    fchmod(&lock, open)?;
    let writable = File::options().read(true).write(true).open(template);
    fchmod(&lock, closed)?;
    TemplateMemory::new(&writable?).add_pretranslation(&fs::read(kernel)?, &tb_trace.traced()?)
}

fn stop_tracing() -> Vec<u8> {
    let arguments = json!({ "name": pretranslation::EVENT, "enable": false });
    qmp::command_with("trace-event-set-state", &arguments)
}

/// Recording of a boot.
#[derive(Debug)]
pub(super) struct Boot {
    tb_trace: TbTrace,
    kernel: PathBuf,
    key: String,
    cache: Cache,
    vmlinux: Vec<u8>,
    patched: Option<Vec<u8>>,
    traced: Option<Vec<u8>>,
}

impl Boot {
    /// Takes the kernel's code when init greets: the kernel has patched itself, and no other
    /// program runs.
    pub(super) fn booted(&mut self) {
        self.vmlinux = fs::read(&self.kernel).unwrap_or_default();
        let text = pretranslation::text(&self.vmlinux);
        self.patched = text.and_then(|text| self.tb_trace.memory(text).ok());
    }

    /// Command for QEMU that ends the trace, when the command starts, whose code is not the
    /// kernel's.
    pub(super) fn started(&mut self) -> Vec<u8> {
        self.traced = self.tb_trace.traced().ok();
        stop_tracing()
    }

    fn keep(self) {
        let (Some(patched), Some(traced)) = (&self.patched, &self.traced) else {
            return;
        };
        let pretranslator = || pretranslation::from_trace(&self.vmlinux, patched, traced);
        let _ = choice::keep(&self.cache, &self.key, pretranslator);
    }
}

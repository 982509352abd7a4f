//! Having the kernel's code translated ahead: learnt at the first boot, used at the others.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use brisk_vm::ahead;
use brisk_vm::cache::{self, Cache};
use brisk_vm::launch::Learning;
use brisk_vm::qemu::{
    Accelerator, Ahead, Capabilities, Firmware, Machine, MachinePlan, Parameter, Ram, qmp,
};
use serde_json::json;

use super::facts::Facts;
use super::levers::{CPU, Levers};
use super::options::{Options, Ram as RamOption, Warm};

const KIND: &str = "ahead";
/// The oldest QEMU with which it was tried.
const OLDEST: (u32, u32) = (8, 0);

/// What is known of a kernel's code.
#[derive(Debug, Clone)]
pub struct Known {
    /// Names it in the cache.
    pub key: String,
    /// What a boot has taught.
    pub(super) lesson: Lesson,
}

/// What a boot has taught.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lesson {
    /// There was none yet.
    None,
    /// That it cannot be done with this kernel.
    Impossible,
    /// What has the code translated ahead: this ELF.
    Starter(PathBuf),
}

/// What is known, if it can be used on this machine.
pub(super) fn known(image: &Path, capabilities: &Capabilities, cache: &Cache) -> Option<Known> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if !ahead::is_possible() || processors < 2 || capabilities.version < OLDEST {
        return None;
    }
    let identity = format!(
        "{} {} {:?}",
        ahead::VERSION,
        image.display(),
        capabilities.version
    );
    let key = cache::key(identity.as_bytes());
    let lesson = match cache.get::<bool>(KIND, &key) {
        None => Lesson::None,
        Some(entry) if entry.meta => Lesson::Starter(entry.path),
        Some(_) => Lesson::Impossible,
    };
    Some(Known { key, lesson })
}

/// Changes a plan for it, if it can be done with this machine: one processor, for which there are
/// no tables in which the kernel would find another.
pub(super) fn apply(machine: &mut MachinePlan, options: &Options, facts: &Facts) {
    let Some(known) = &facts.ahead else {
        return;
    };
    let fits = machine.accelerator == Accelerator::Tcg
        && machine.machine == Machine::Pc { acpi: false }
        && matches!(machine.firmware, Firmware::Qboot(_))
        && machine.kernel == facts.image.path
        && machine.cpus == 1
        && options.cpu.is_none()
        && options.levers.has(CPU)
        && options.warm == Warm::No
        && !(options.stays || options.instructions || options.trace);
    if !fits {
        return;
    }
    let usual =
        options.append.is_empty() && !options.all_initcalls && options.levers == Levers::All;
    match &known.lesson {
        Lesson::Starter(starter) => {
            machine.ahead = Ahead::Use(starter.clone());
            let reserved = ahead::RESERVED;
            // First, where no `--` of the user's is before it.
            let parameter = Parameter::new(
                format!(
                    "memmap={}K${:#x}",
                    (reserved.end - reserved.start) >> 10,
                    reserved.start
                ),
                "memory of the processor that has the kernel's code translated ahead",
            );
            machine.parameters.insert(0, parameter);
        }
        Lesson::None if usual && options.ram != RamOption::Private => {
            machine.ahead = Ahead::Learn;
            // What the kernel has patched is read there.
            machine.ram = Ram::Shared;
        }
        Lesson::None | Lesson::Impossible => {}
    }
}

/// A boot that is learnt from.
#[derive(Debug)]
pub(super) struct Learner {
    learning: Learning,
    kernel: PathBuf,
    key: String,
    cache: Cache,
    vmlinux: Vec<u8>,
    patched: Option<Vec<u8>>,
    traced: Option<Vec<u8>>,
}

impl Learner {
    pub(super) fn new(learning: Learning, facts: &Facts, cache: &Cache) -> Option<Self> {
        Some(Self {
            learning,
            kernel: facts.image.path.clone(),
            key: facts.ahead.as_ref()?.key.clone(),
            cache: cache.clone(),
            vmlinux: Vec::new(),
            patched: None,
            traced: None,
        })
    }

    /// Init has greeted: the kernel has patched itself, and nobody else has come to it.
    pub(super) fn booted(&mut self) {
        self.vmlinux = fs::read(&self.kernel).unwrap_or_default();
        let text = ahead::text(&self.vmlinux);
        self.patched = text.and_then(|text| self.learning.memory(text).ok());
    }

    /// The command starts, whose code is not the kernel's. What QEMU is told then.
    pub(super) fn started(&mut self) -> Vec<u8> {
        self.traced = self.learning.traced().ok();
        let arguments = json!({ "name": ahead::EVENT, "enable": false });
        qmp::command_with("trace-event-set-state", &arguments)
    }

    /// It ended well: what it teaches is kept. Without that the next one boots as this one did.
    pub(super) fn keep(self) {
        let (Some(patched), Some(traced)) = (&self.patched, &self.traced) else {
            return;
        };
        let starter = ahead::learn(&self.vmlinux, patched, traced);
        let build = |file: &mut File| {
            let written = file.write_all(starter.as_deref().unwrap_or_default());
            let written = written.map(|()| starter.is_some());
            written.map_err(|source| cache::Error::Write {
                path: self.cache.dir().to_owned(),
                source,
            })
        };
        let _ = self.cache.get_or_build(KIND, &self.key, build);
    }
}

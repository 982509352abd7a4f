//! Having the kernel's code translated ahead: learnt at the first boot, used at the others.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use brisk_vm::ahead::{self, Kept};
use brisk_vm::cache::{self, Cache, Entry};
use brisk_vm::launch::Learning;
use brisk_vm::qemu::{
    Accelerator, Capabilities, Firmware, Machine, MachinePlan, Parameter, Ram, qmp,
};
use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use serde_json::json;

use super::facts::Facts;
use super::levers::{CPU, Levers};
use super::options::{Ahead as When, Options, Ram as RamOption, Warm};

const KIND: &str = "ahead";
/// Kind of what starts a guest that is to be kept.
const KIND_WAITING: &str = "ahead-waiting";
/// How long a guest that went on from a template is watched: a short command is over by then, and a
/// long one does not gain by it.
const WATCHED: Duration = Duration::from_secs(2);
/// How often is looked for a processor to spare, at most.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_micros(300);
/// The oldest QEMU with which it was tried.
const OLDEST: (u32, u32) = (8, 0);

/// What is known of a kernel's code.
#[derive(Debug, Clone)]
pub struct Known {
    /// Names it in the cache.
    pub key: String,
    /// What a boot has taught.
    pub(super) lesson: Lesson,
    /// Whether the host has a processor to spare.
    pub(super) spare: bool,
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
    /// What has a second processor wait in a guest that is to be kept.
    Waiting(PathBuf),
}

/// What is known, if it can be used on this machine.
pub(super) fn known(
    image: &Path,
    options: &Options,
    capabilities: &Capabilities,
    cache: &Cache,
) -> Option<Known> {
    if options.ahead == When::Never {
        return None;
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if !ahead::is_possible() || processors < 2 || capabilities.version < OLDEST {
        return None;
    }
    let busy = || fs::read_to_string("/proc/loadavg").is_ok_and(|text| is_busy(&text, processors));
    let spare = options.ahead == When::Always || !stays_busy(busy);
    let identity = format!(
        "{} {} {:?}",
        ahead::VERSION,
        image.display(),
        capabilities.version
    );
    let key = cache::key(identity.as_bytes());
    if options.warm != Warm::No {
        let lesson = waiting(image, &key, cache).map_or(Lesson::Impossible, Lesson::Waiting);
        return Some(Known { key, lesson, spare });
    }
    let lesson = match cache.get::<bool>(KIND, &key) {
        None => Lesson::None,
        Some(entry) if entry.meta => Lesson::Starter(entry.path),
        Some(_) => Lesson::Impossible,
    };
    Some(Known { key, lesson, spare })
}

/// Whether the machine is busy at each of some looks. Who started us is often not quite done with
/// that at the first one: of an idle machine every fourth looked busy.
fn stays_busy(mut is_busy: impl FnMut() -> bool) -> bool {
    (0..LOOKS).all(|look| {
        if look > 0 {
            thread::sleep(BETWEEN_LOOKS);
        }
        is_busy()
    })
}

/// Whether a machine of so many processors would have none for each of a guest's two: from
/// proc_loadavg(5), where the fourth number is of all that execute or could now, we among them.
fn is_busy(loadavg: &str, processors: usize) -> bool {
    let fields = loadavg.split(' ').nth(3);
    let executing = fields.and_then(|field| field.split('/').next()?.parse::<usize>().ok());
    executing.is_some_and(|executing| executing >= processors)
}

/// What starts a guest that is to be kept, with a second processor that waits to be taught.
fn waiting(image: &Path, key: &str, cache: &Cache) -> Option<PathBuf> {
    let starter = || ahead::waiting(&fs::read(image).ok()?);
    let entry = stored(cache, KIND_WAITING, key, starter).ok()?;
    entry.meta.then_some(entry.path)
}

/// A starter in the cache, put there if it is not; its description says whether there can be one.
fn stored(
    cache: &Cache,
    kind: &str,
    key: &str,
    starter: impl FnOnce() -> Option<Vec<u8>>,
) -> Result<Entry<bool>, cache::Error> {
    cache.get_or_build(kind, key, |file: &mut File| {
        let starter = starter();
        let written = file.write_all(starter.as_deref().unwrap_or_default());
        written
            .map(|()| starter.is_some())
            .map_err(|source| cache::Error::Write {
                path: cache.dir().to_owned(),
                source,
            })
    })
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
        && !(options.stays || options.instructions || options.trace);
    if !fits {
        return;
    }
    let usual =
        options.append.is_empty() && !options.all_initcalls && options.levers == Levers::All;
    match &known.lesson {
        // It would slow down what keeps the host busy, and the guest no less.
        Lesson::Starter(_) if !known.spare => {}
        Lesson::Starter(starter) | Lesson::Waiting(starter) => {
            machine.starter = Some(starter.clone());
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
            machine.traced = true;
            // What the kernel has patched is read there.
            machine.ram = Ram::Shared;
        }
        Lesson::None | Lesson::Impossible => {}
    }
}

/// Whether the second processor of a guest that goes on from a template is to work.
pub(super) fn works(machine: &MachinePlan, facts: &Facts) -> bool {
    machine.starter.is_some() && facts.ahead.as_ref().is_some_and(|known| known.spare)
}

/// Whether a guest that goes on from a template is to be learnt from.
pub(super) fn teaches(machine: &MachinePlan, template: &Path) -> bool {
    let untaught = || Kept::new(&File::open(template)?).is_untaught();
    machine.starter.is_some() && untaught().unwrap_or(false)
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
        machine: &MachinePlan,
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
                key: facts.ahead.as_ref()?.key.clone(),
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
    if !Kept::new(&lock).is_untaught()? {
        return Ok(());
    }
    let [closed, open] = [0o444, 0o644].map(Mode::from_raw_mode);
    fchmod(&lock, open)?;
    let writable = File::options().read(true).write(true).open(template);
    fchmod(&lock, closed)?;
    Kept::new(&writable?).teach(&fs::read(kernel)?, &learning.traced()?)
}

fn stop_tracing() -> Vec<u8> {
    let arguments = json!({ "name": ahead::EVENT, "enable": false });
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
        let text = ahead::text(&self.vmlinux);
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
        let starter = || ahead::learn(&self.vmlinux, patched, traced);
        let _ = stored(&self.cache, KIND, &self.key, starter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_busy_if_one_of_two_processors_would_have_more_to_do() {
        let loadavg = |executing: u32| format!("0.20 0.18 0.12 {executing}/80 11206\n");
        assert!(!is_busy(&loadavg(1), 2));
        assert!(is_busy(&loadavg(2), 2));
        assert!(!is_busy(&loadavg(3), 4));
        assert!(is_busy(&loadavg(4), 4));
        // Between two looks nobody executes, not even we.
        assert!(!is_busy(&loadavg(0), 2));
        for unknown in ["", "0.20 0.18 0.12", "0.20 0.18 0.12 x/80 1"] {
            assert!(!is_busy(unknown, 2), "{unknown}");
        }
    }

    #[test]
    fn a_machine_is_spared_if_it_is_busy_whenever_one_looks() {
        let mut looks = 0;
        assert!(stays_busy(|| {
            looks += 1;
            true
        }));
        assert_eq!(looks, LOOKS);
        for idle in 1..=LOOKS {
            let mut looks = 0;
            assert!(!stays_busy(|| {
                looks += 1;
                looks < idle
            }));
            assert_eq!(looks, idle, "no more than it takes");
        }
    }
}

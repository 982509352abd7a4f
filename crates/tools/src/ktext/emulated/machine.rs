//! A machine that runs.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use brisk_host::files;
use brisk_host::proc::Procfs;
use brisk_sys::wait_for;
use brisk_vm::cache::Cache;
use brisk_vm::launch::{Custom, Descriptor};
use brisk_vm::qemu::{self, Accelerator, Fds, USUAL};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use super::argv::{self, MEMORY, PLUGIN, Plan, SYMBOLS, TABLE, argv};
use super::console::Console;
use super::initramfs::initramfs;
use super::{BuiltKernel, EmulationError};
use crate::guest::{last_line, unprivileged_for};
use crate::ktext::stats::Stats;
use crate::ktext::worker::{Answer, Step};
use brisk_host::interrupt::Interrupt;

/// Memory that QEMU takes itself, bytes.
const QEMU: u64 = 256 << 20;
/// Bytes of the plugin's table at most.
const LONGEST_TABLE: u64 = 256 << 20;
/// Directory of the kernel's files in the guest.
pub(in super::super) const FILES: &str = "/sys/kernel/debug/ktext_repl";
/// Buffers of console output that are read before the deadline is looked at again, as a guest may
/// write without end.
const BUFFERS: usize = 16;
/// Pause after which the end of QEMU is looked for again.
const TICK: Duration = Duration::from_secs(1);

/// What the plugin counts by.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Plugin<'a> {
    /// Lines of the plugin's list of symbols.
    pub(in super::super) symbols: &'a str,
    /// Function whose call ends a section.
    pub(in super::super) mark: &'a str,
}

/// A machine whose program takes steps. It ends when this is dropped.
#[derive(Debug)]
pub(in super::super) struct Machine<'a> {
    qemu: Custom,
    interrupt: &'a Interrupt,
    /// Time for a step at most.
    limit: Duration,
    console: Console,
    table: File,
    /// Version of the QEMU.
    pub(in super::super) emulator: String,
    /// Release of the guest's kernel.
    pub(in super::super) release: String,
}

impl<'a> Machine<'a> {
    /// Starts one, and waits until its program is there.
    ///
    /// # Errors
    /// If it cannot be started, its kernel does not replicate, panics or hangs, or somebody interrupts.
    pub(in super::super) fn start(
        plan: &Plan,
        kernel: &BuiltKernel,
        plugin: Option<Plugin<'_>>,
        cache: &Cache,
        limit: Duration,
        interrupt: &'a Interrupt,
    ) -> Result<Self, EmulationError> {
        plan.check()?;
        has_memory(plan)?;
        let choice = qemu::choose(USUAL, cache)?;
        let table = memory("brisk-table", 0)?;
        let initramfs = initramfs(&kernel.modules()?).map_err(EmulationError::Prepare)?;
        let initramfs = in_memory("brisk-initramfs", &initramfs)?;
        let mut descriptors = vec![
            by_name(kernel.open("bzImage")?, Fds::KERNEL),
            by_name(initramfs, Fds::INITRAMFS),
        ];
        for node in 0..plan.nodes {
            let name = argv::memory_name(node);
            let file = memory(&name, plan.memory_of_node << 20)?;
            descriptors.push(by_name(file, MEMORY + node as i32));
        }
        if let Some(plugin) = plugin {
            let symbols = in_memory("brisk-symbols", plugin.symbols.as_bytes())?;
            let written = table.try_clone().map_err(EmulationError::Prepare)?;
            descriptors.extend([
                by_name(kernel.plugin()?, PLUGIN),
                by_name(symbols, SYMBOLS),
                by_name(written, TABLE),
            ]);
        }
        let words = argv(plan, plugin.map(|plugin| plugin.mark));
        let user = unprivileged_for(Accelerator::Tcg);
        let mut machine = Self {
            qemu: Custom::start(&choice.path, &words, descriptors, user)?,
            interrupt,
            limit,
            console: Console::default(),
            table,
            emulator: choice.capabilities.package.clone(),
            release: String::new(),
        };
        match machine.answer("boot") {
            // QEMU's own words, as its guest has not said any.
            Err(EmulationError::Ended(lines)) if lines.trim().is_empty() => {
                return Err(EmulationError::OfQemu(last_line(&machine.qemu.end())));
            }
            answer => answer?,
        };
        machine.replicates(kernel)?;
        machine.release = machine
            .show("/proc/sys/kernel/osrelease")?
            .trim()
            .to_owned();
        Ok(machine)
    }

    /// Whether its kernel does; an error says why not.
    fn replicates(&mut self, kernel: &BuiltKernel) -> Result<(), EmulationError> {
        let stats = match self.show(&format!("{FILES}/stats")) {
            Err(EmulationError::Worker(_)) => {
                return Err(EmulationError::NotBuilt(kernel.directory().to_owned()));
            }
            shown => Stats::parse(&shown?)?,
        };
        match stats.off_reason {
            Some(reason) => Err(EmulationError::Off(reason)),
            None => Ok(()),
        }
    }

    /// Text of a file of the guest's.
    ///
    /// # Errors
    /// [`EmulationError::Worker`] if it cannot be read; otherwise those of [`Machine::step`].
    pub(in super::super) fn show(&mut self, path: &str) -> Result<String, EmulationError> {
        Ok(self.step(&Step::Show(path))?.lines.join("\n") + "\n")
    }

    /// Has a step done.
    ///
    /// # Errors
    /// If it is refused, the machine ends or hangs, or somebody interrupts.
    pub(in super::super) fn step(&mut self, step: &Step<'_>) -> Result<Answer, EmulationError> {
        self.say(step)?;
        self.answer(&step.to_string())
    }

    /// Turns the machine off; the result is the plugin's table.
    ///
    /// # Errors
    /// If it does not end, or the table cannot be read.
    pub(in super::super) fn off(mut self) -> Result<String, EmulationError> {
        self.say(&Step::Off)?;
        let deadline = Instant::now() + self.limit;
        while !self.wait(deadline)?.process {
            self.read()?;
            if Instant::now() >= deadline {
                return Err(self.hangs("off"));
            }
        }
        self.table.rewind().map_err(EmulationError::Watch)?;
        let mut text = Vec::new();
        let read = (&self.table).take(LONGEST_TABLE).read_to_end(&mut text);
        read.map_err(EmulationError::Watch)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn say(&self, step: &Step<'_>) -> Result<(), EmulationError> {
        let written = (&self.qemu.console).write_all(format!("{step}\n").as_bytes());
        match written {
            // It has ended, which its console says more about.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(EmulationError::Watch),
        }
    }

    /// Reads until there is an answer.
    fn answer(&mut self, step: &str) -> Result<Answer, EmulationError> {
        let deadline = Instant::now() + self.limit;
        loop {
            let ready = self.wait(deadline)?;
            if let Some(answer) = self.read()? {
                return Ok(answer);
            }
            if ready.process {
                return Err(EmulationError::Ended(self.console.last_lines()));
            }
            if Instant::now() >= deadline {
                return Err(self.hangs(step));
            }
        }
    }

    fn wait(&self, deadline: Instant) -> Result<Ready, EmulationError> {
        let console = self.qemu.console.as_fd();
        let mut fds = [console, self.qemu.process(), self.interrupt.as_fd()]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let wake = deadline.min(Instant::now() + TICK);
        wait_for(&mut fds, Some(wake)).map_err(EmulationError::Watch)?;
        let [_, process, interrupt] = fds.map(|fd| !fd.revents().is_empty());
        match (interrupt, self.interrupt.signal()) {
            (true, Some(signal)) => Err(EmulationError::Interrupted(signal)),
            _ => Ok(Ready { process }),
        }
    }

    /// Reads some of what is there, up to an answer.
    fn read(&mut self) -> Result<Option<Answer>, EmulationError> {
        let mut buffer = [0; 64 * 1024];
        for _ in 0..BUFFERS {
            let count = match rustix::io::read(&self.qemu.console, &mut buffer) {
                Ok(0) | Err(Errno::AGAIN | Errno::INTR | Errno::CONNRESET) => return Ok(None),
                Ok(count) => count,
                Err(error) => return Err(EmulationError::Watch(error.into())),
            };
            // The program says nothing more before its next step: an answer ends what is read.
            if let Some(answer) = self.console.take(&buffer[..count]) {
                return Ok(Some(answer?));
            }
        }
        Ok(None)
    }

    fn hangs(&self, step: &str) -> EmulationError {
        EmulationError::Hangs {
            step: step.to_owned(),
            limit: self.limit,
            console: self.console.last_lines(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Ready {
    /// QEMU has ended.
    process: bool,
}

fn by_name(file: File, number: i32) -> Descriptor {
    Descriptor {
        file,
        number,
        by_name: true,
    }
}

fn in_memory(name: &str, bytes: &[u8]) -> Result<File, EmulationError> {
    files::in_memory(name, bytes).map_err(EmulationError::Prepare)
}

/// Memory with a name, which QEMU's user may open.
fn memory(name: &str, bytes: u64) -> Result<File, EmulationError> {
    let made = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC);
    let sized = made.and_then(|fd: OwnedFd| rustix::fs::ftruncate(&fd, bytes).map(|()| fd));
    sized
        .map(File::from)
        .map_err(|error| EmulationError::Prepare(error.into()))
}

fn has_memory(plan: &Plan) -> Result<(), EmulationError> {
    let needed = ((u64::from(plan.nodes) * plan.memory_of_node) << 20) + QEMU;
    match Procfs::default().less_memory_than(needed) {
        Some(available) => Err(EmulationError::Memory { needed, available }),
        None => Ok(()),
    }
}

//! CPU time and context switches of threads, and of the host as a whole, from `/proc`.
//!
//! All files that are read here are readable by every user (proc(5)), unless `/proc` is mounted
//! with `hidepid`. All counters only grow during the life of a thread.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::proc::{self, Procfs};

mod reader;

pub use reader::TaskReader;

/// Counters of one thread since its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Thread number. That of the main thread is the process number.
    pub tid: u32,
    /// Name (`comm`): up to 15 bytes, more for a thread of the kernel. Any program can set it.
    pub name: String,
    /// Start time, in clock ticks since the host's boot. It tells a thread from a later one that
    /// has its number.
    pub start_ticks: u64,
    /// Scheduler's counters.
    #[serde(flatten)]
    pub schedule: Schedule,
    /// Context switches.
    #[serde(flatten)]
    pub switches: Switches,
}

/// Fields of `/proc/PID/task/TID/schedstat` (`Documentation/scheduler/sched-stats.rst` of the
/// kernel, "/proc/<pid>/schedstat").
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Time on a CPU, in nanoseconds. That of a virtual CPU includes the guest's.
    pub on_cpu: u64,
    /// Time in which the thread was runnable and waited for a CPU, in nanoseconds.
    pub waiting: u64,
    /// Times that it got a CPU.
    pub timeslices: u64,
}

/// Context switches of a thread (proc_pid_status(5)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switches {
    /// Times that it gave up the CPU because it had to wait. Each ends with a wakeup.
    pub voluntary: u64,
    /// Times that the CPU was taken from it.
    pub involuntary: u64,
}

/// A process and its threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessTasks {
    /// Process number.
    pub pid: u32,
    /// Start of the process, in clock ticks since the host's boot.
    pub start_ticks: u64,
    /// Its threads, in the order of their numbers.
    pub tasks: Vec<Task>,
}

/// CPU time of all CPUs of the host together since its boot, in clock ticks (`cpu` of
/// proc_stat(5)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTimes {
    /// In use: programs, the kernel, interrupts, guests.
    pub busy: u64,
    /// Idle, or waiting for disks.
    pub idle: u64,
    /// Taken by the hypervisor below, for other VMs.
    pub steal: u64,
}

impl Procfs {
    /// A process and the counters of its threads.
    ///
    /// `known` is what this function said of the process before. Of a thread in it that did not run
    /// since, only `schedstat` is read, so that watching idle threads costs little; the start is read
    /// again only if counters went backwards.
    ///
    /// # Errors
    /// If the process has ended, if `/proc` hides it, or if the kernel has no `schedstat`
    /// ([`io::ErrorKind::Unsupported`]).
    pub fn tasks(&self, pid: u32, known: Option<&ProcessTasks>) -> io::Result<ProcessTasks> {
        let start_ticks = self.stat(pid)?.start_ticks;
        let known = known.filter(|known| known.pid == pid && known.start_ticks == start_ticks);
        let known = known.map_or(&[][..], |known| &known.tasks);
        let directory = self.directory().join(pid.to_string()).join("task");
        let mut tasks = Vec::with_capacity(known.len());
        for entry in fs::read_dir(&directory)? {
            let name = entry?.file_name();
            let Some(tid) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let known = known.iter().find(|task| task.tid == tid);
            match self.task(pid, tid, &directory.join(&name), known) {
                Ok(task) => tasks.push(task),
                // It ended meanwhile.
                Err(error) if has_ended(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if tasks.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        tasks.sort_by_key(|task| task.tid);
        Ok(ProcessTasks {
            pid,
            start_ticks,
            tasks,
        })
    }

    /// A thread of the kernel: a process with a single thread. `known` is what this function said
    /// of it before, as of [`Self::tasks`].
    ///
    /// # Errors
    /// As [`Self::tasks`].
    pub fn kernel_thread(&self, pid: u32, known: Option<&Task>) -> io::Result<Task> {
        self.task(pid, pid, &self.directory().join(pid.to_string()), known)
    }

    /// Numbers and names of all threads of the kernel: the processes without a command line.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn kernel_threads(&self) -> io::Result<Vec<(u32, String)>> {
        let mut found = Vec::new();
        for pid in self.processes()? {
            let directory = self.directory().join(pid.to_string());
            // A process that is ending has none either, and no harm is in it.
            let line = proc::read(&directory.join("cmdline"));
            if line.is_ok_and(|line| line.is_empty()) {
                found.extend(name_of(&directory).ok().map(|name| (pid, name)));
            }
        }
        Ok(found)
    }

    /// CPU time of the host.
    ///
    /// # Errors
    /// If `stat` cannot be read, or has another format.
    pub fn host_times(&self) -> io::Result<HostTimes> {
        let text = fs::read_to_string(self.directory().join("stat"))?;
        HostTimes::parse(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Times of some CPUs of the host together.
    ///
    /// # Errors
    /// If `stat` cannot be read, has another format, or has not all of them.
    pub fn times_of_cpus(&self, cpus: &[usize]) -> io::Result<HostTimes> {
        let text = fs::read_to_string(self.directory().join("stat"))?;
        HostTimes::parse_cpus(&text, cpus).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn task(&self, pid: u32, tid: u32, directory: &Path, known: Option<&Task>) -> io::Result<Task> {
        let schedule = read(&directory.join("schedstat"), Schedule::parse);
        let schedule = schedule.map_err(|error| match error.kind() {
            // The other files of a thread that lives are there.
            io::ErrorKind::NotFound if directory.join("comm").exists() => io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel has no /proc/PID/schedstat (CONFIG_SCHED_INFO)",
            ),
            _ => error,
        })?;
        if let Some(task) = known.filter(|task| schedule.stood_still(&task.schedule)) {
            return Ok(Task {
                schedule,
                ..task.clone()
            });
        }
        let status = read(&directory.join("status"), Status::parse)?;
        self.ran(pid, tid, known, schedule, status)
    }

    /// A thread that ran since, or is new.
    fn ran(
        &self,
        pid: u32,
        tid: u32,
        known: Option<&Task>,
        schedule: Schedule,
        status: Status,
    ) -> io::Result<Task> {
        let goes_on = |task: &&Task| {
            let (before, now) = (&task.schedule, &schedule);
            before.on_cpu <= now.on_cpu
                && before.timeslices <= now.timeslices
                && task.switches.voluntary <= status.switches.voluntary
                && task.switches.involuntary <= status.switches.involuntary
        };
        let start_ticks = match known.filter(goes_on) {
            Some(task) => task.start_ticks,
            None if pid == tid => self.stat(pid)?.start_ticks,
            None => self.thread_stat(pid, u64::from(tid))?.start_ticks,
        };
        Ok(Task {
            tid,
            // A thread gets its name after its start.
            name: status.name,
            start_ticks,
            schedule,
            switches: status.switches,
        })
    }
}

/// Fields of `status` (proc_pid_status(5)).
struct Status {
    name: String,
    switches: Switches,
}

impl Status {
    fn parse(text: &str) -> Option<Self> {
        let name = text.lines().next()?.strip_prefix("Name:\t")?;
        Some(Self {
            name: unescaped(name),
            switches: Switches::parse(text)?,
        })
    }
}

impl Schedule {
    /// Whether the thread did not run since `before`.
    const fn stood_still(&self, before: &Self) -> bool {
        self.on_cpu == before.on_cpu && self.timeslices == before.timeslices
    }

    /// Parses the text of the file.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace().map(str::parse);
        let mut next = || fields.next()?.ok();
        Some(Self {
            on_cpu: next()?,
            waiting: next()?,
            timeslices: next()?,
        })
    }
}

impl Switches {
    /// Parses the text of `status`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // They are at the end; the name at the beginning may be anything but has no line break.
        let value = |name: &str| {
            let line = text.lines().rev().find_map(|line| line.strip_prefix(name));
            line?.trim().parse().ok()
        };
        Some(Self {
            voluntary: value("voluntary_ctxt_switches:")?,
            involuntary: value("nonvoluntary_ctxt_switches:")?,
        })
    }
}

impl HostTimes {
    /// Parses the text of `/proc/stat`. Time of guests is in that of programs.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_line(text, "cpu")
    }

    /// Sums up the lines of some CPUs in the text of `/proc/stat`; none if one has no line.
    #[must_use]
    pub fn parse_cpus(text: &str, cpus: &[usize]) -> Option<Self> {
        cpus.iter().try_fold(Self::default(), |sum, cpu| {
            let one = Self::parse_line(text, &format!("cpu{cpu}"))?;
            Some(Self {
                busy: sum.busy.saturating_add(one.busy),
                idle: sum.idle.saturating_add(one.idle),
                steal: sum.steal.saturating_add(one.steal),
            })
        })
    }

    fn parse_line(text: &str, name: &str) -> Option<Self> {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let (_, line) = lines.find(|(first, _)| *first == name)?;
        let fields: Result<Vec<u64>, _> = line.split_ascii_whitespace().map(str::parse).collect();
        let fields = fields.ok()?;
        let [user, nice, system, idle, iowait, irq, softirq, rest @ ..] = &fields[..] else {
            return None;
        };
        let sum = |list: &[u64]| list.iter().fold(0_u64, |sum, one| sum.saturating_add(*one));
        Some(Self {
            busy: sum(&[*user, *nice, *system, *irq, *softirq]),
            idle: sum(&[*idle, *iowait]),
            steal: rest.first().copied().unwrap_or(0),
        })
    }
}

/// A name in which the kernel escaped line breaks and backslashes (`proc_task_name` in
/// `fs/proc/array.c`).
fn unescaped(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        name.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                other => other.unwrap_or('\\'),
            },
            other => other,
        });
    }
    name
}

fn name_of(directory: &Path) -> io::Result<String> {
    let bytes = proc::read(&directory.join("comm"))?;
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

fn read<T>(path: &Path, parse: fn(&str) -> Option<T>) -> io::Result<T> {
    parsed(&proc::read(path)?, parse)
}

fn parsed<T>(bytes: &[u8], parse: fn(&str) -> Option<T>) -> io::Result<T> {
    parse(&String::from_utf8_lossy(bytes)).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Whether a file of a process or thread cannot be read because that has ended: the file is gone, or
/// the thread was when the open file was read (`ESRCH`).
#[must_use]
pub fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(3)
}

#[cfg(test)]
mod tests;

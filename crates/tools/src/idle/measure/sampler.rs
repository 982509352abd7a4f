//! Reads the counters of guests.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use brisk_host::proc::Procfs;
use brisk_host::tasks::{ProcessTasks, Task, TaskReader};
use rustix::time::{ClockId, clock_gettime};

use super::guests::Guest;
use super::helpers::Helper;
use super::role::Role;
use super::window::{GuestSample, Snapshot};

/// Files that are left to the rest of brisk and to libraries.
const RESERVED: usize = 128;

/// Reader of the counters of some guests. It reads one small file for each thread, which stays open
/// as far as the limit of open files allows, a second of one that ran since, and a third of a new
/// one.
#[derive(Debug)]
pub struct Sampler {
    proc: Procfs,
    guests: Vec<Watched>,
    daemons: Vec<u32>,
    /// Threads of the kernel as they were read last, by number.
    last: BTreeMap<u32, Task>,
}

/// A guest's process, and threads of the kernel that name it.
#[derive(Debug)]
struct Watched {
    pid: u32,
    /// None before it is read, and when it has ended.
    reader: Option<TaskReader>,
    kernel: Vec<u32>,
    helpers: Vec<Beside>,
}

/// A process that works for a guest.
#[derive(Debug)]
struct Beside {
    pid: u32,
    reader: Option<TaskReader>,
    has_ended: bool,
}

impl Sampler {
    /// A reader below `root`. Threads of the kernel are looked for now: KVM and vhost start theirs
    /// with the guest.
    #[must_use]
    pub fn new(root: &Path, guests: &[Guest]) -> Self {
        let proc = Procfs::below(root);
        let mut kernel: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut daemons = Vec::new();
        // In a container there are none to be seen.
        for (tid, name) in proc.kernel_threads().unwrap_or_default() {
            if matches!(&*name, "ksmd" | "khugepaged") {
                daemons.push(tid);
            } else if let Some((pid, _)) = Role::of_kernel_thread(&name) {
                kernel.entry(pid).or_default().push(tid);
            }
        }
        let guests = guests.iter().map(|guest| Watched {
            pid: guest.pid,
            reader: None,
            kernel: kernel.remove(&guest.pid).unwrap_or_default(),
            helpers: guest.helpers.own.iter().map(Beside::of).collect(),
        });
        Self {
            proc,
            guests: guests.collect(),
            daemons,
            last: BTreeMap::new(),
        }
    }

    /// Reads all counters; `at` is the time now. A guest that cannot be read has ended.
    ///
    /// # Errors
    /// If the kernel does not count, or `/proc` hides what is needed.
    pub fn snapshot(&mut self, at: Duration) -> std::io::Result<Snapshot> {
        let helpers = self.guests.iter().map(|guest| guest.helpers.len());
        let processes = self.guests.len() + helpers.sum::<usize>();
        let keep = files() / processes.max(1);
        let mut guests = Vec::with_capacity(self.guests.len());
        for guest in &mut self.guests {
            let process = guest.read(&self.proc, keep)?;
            let kernel = read(&self.proc, &guest.kernel, &mut self.last);
            let helpers = guest.helpers.iter_mut();
            let helpers = helpers.filter_map(|one| one.read(&self.proc, keep));
            guests.push(GuestSample {
                kernel,
                process,
                helpers: helpers.collect(),
            });
        }
        let uptime = clock_gettime(ClockId::Boottime);
        Ok(Snapshot {
            at,
            uptime: Duration::try_from(uptime).unwrap_or_default(),
            host: self.proc.host_times().ok(),
            load: self.proc.load().map(|load| load.minute),
            guests,
            daemons: read(&self.proc, &self.daemons, &mut self.last),
        })
    }
}

impl Watched {
    fn read(&mut self, proc: &Procfs, keep: usize) -> std::io::Result<Option<ProcessTasks>> {
        let read = match &mut self.reader {
            Some(reader) => reader.read().cloned(),
            None => TaskReader::open(proc, self.pid, keep)
                .map(|reader| self.reader.insert(reader).process().clone()),
        };
        match read {
            Ok(process) => Ok(Some(process)),
            Err(error) if brisk_host::tasks::has_ended(&error) => {
                self.reader = None;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Beside {
    const fn of(helper: &Helper) -> Self {
        Self {
            pid: helper.pid,
            reader: None,
            has_ended: false,
        }
    }

    /// Its counters; None from when they cannot be read: another process may have the number then.
    fn read(&mut self, proc: &Procfs, keep: usize) -> Option<ProcessTasks> {
        if self.has_ended {
            return None;
        }
        let read = match &mut self.reader {
            Some(reader) => reader.read().cloned(),
            None => TaskReader::open(proc, self.pid, keep)
                .map(|reader| self.reader.insert(reader).process().clone()),
        };
        self.has_ended = read.is_err();
        read.ok()
    }
}

/// Number of files that may stay open.
fn files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.unwrap_or(u64::from(u32::MAX)) as usize;
    limit.saturating_sub(RESERVED)
}

/// Threads of the kernel that are still there.
fn read(proc: &Procfs, threads: &[u32], last: &mut BTreeMap<u32, Task>) -> Vec<Task> {
    let read = |tid: &u32| {
        let task = proc.kernel_thread(*tid, last.get(tid)).ok()?;
        last.insert(*tid, task.clone());
        Some(task)
    };
    threads.iter().filter_map(read).collect()
}

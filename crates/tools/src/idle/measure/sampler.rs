//! Reads the counters of guests.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use brisk_host::proc::Procfs;
use brisk_host::tasks::{ProcessTasks, Task};

use super::guests::Guest;
use super::role::Role;
use super::window::{GuestSample, Snapshot};

/// Reader of the counters of some guests. It reads one small file for each thread, a second of one
/// that ran since, and a third of a new one.
#[derive(Debug)]
pub struct Sampler {
    proc: Procfs,
    pids: Vec<u32>,
    /// Threads of the kernel that name a guest, by the guest's process number.
    kernel: BTreeMap<u32, Vec<u32>>,
    daemons: Vec<u32>,
    last: BTreeMap<u32, ProcessTasks>,
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
        Self {
            proc,
            pids: guests.iter().map(|guest| guest.pid).collect(),
            kernel,
            daemons,
            last: BTreeMap::new(),
        }
    }

    /// Reads all counters; `at` is the time now. A guest that cannot be read has ended.
    ///
    /// # Errors
    /// If the kernel does not count, or `/proc` hides what is needed.
    pub fn snapshot(&mut self, at: Duration) -> std::io::Result<Snapshot> {
        let mut guests = Vec::with_capacity(self.pids.len());
        for pid in &self.pids {
            let process = match self.proc.tasks(*pid, self.last.get(pid)) {
                Ok(process) => Some(process),
                Err(error) if brisk_host::tasks::has_ended(&error) => None,
                Err(error) => return Err(error),
            };
            let kernel = self.kernel.get(pid).map_or(&[][..], Vec::as_slice);
            guests.push(GuestSample {
                kernel: self.read(kernel),
                process,
            });
        }
        self.last = guests
            .iter()
            .filter_map(|guest| guest.process.clone())
            .map(|process| (process.pid, process))
            .collect();
        Ok(Snapshot {
            at,
            host: self.proc.host_times().ok(),
            load: self.proc.load().map(|load| load.minute),
            guests,
            daemons: self.read(&self.daemons),
        })
    }

    /// Threads of the kernel that are still there.
    fn read(&self, threads: &[u32]) -> Vec<Task> {
        let read = |tid: &u32| self.proc.kernel_thread(*tid).ok();
        threads.iter().filter_map(read).collect()
    }
}

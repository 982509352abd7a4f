//! Reads the counters of a target on the host.

use std::io;
use std::time::{Duration, Instant};

use brisk_host::cgroup::Group;
use brisk_host::proc::Procfs;
use brisk_host::process_times::{TreeTimes, tree};

use super::account::{Counters, Reading};

/// How long reading all counters takes at most when nothing comes between.
const QUICK: Duration = Duration::from_millis(1);
/// Readings of which the quickest is taken, if none is quick.
const TRIES: u32 = 5;

/// What a target's processes are counted by.
#[derive(Debug, Clone)]
pub(super) enum Meter {
    /// A group of theirs, which also knows of those that have ended.
    Group(Group),
    /// The tree of processes below this one: what has ended counts once its parent has waited for
    /// it.
    Tree(u32),
}

impl Meter {
    /// What a process that somebody else started, and those below it, are counted by: their group,
    /// if nothing else is in it.
    pub(super) fn of_process(pid: u32) -> Self {
        let tree = Self::Tree(pid);
        let own = tree.processes();
        let is_theirs = |group: &Group| {
            let members = group.processes();
            !members.is_empty() && members.iter().all(|member| own.contains(member))
        };
        match Group::of_process(pid).filter(is_theirs) {
            Some(group) => Self::Group(group),
            None => tree,
        }
    }

    /// The counters now, with those of the processors. If something else had the processor while
    /// they were read, they are not of one moment: they are read again then.
    ///
    /// # Errors
    /// If the group is gone, or `/proc` cannot be read.
    pub(super) fn read(&self, cpus: &[usize]) -> io::Result<Reading> {
        let mut best: Option<(Duration, Reading)> = None;
        for _ in 0..TRIES {
            let at = Instant::now();
            let counters = self.counters(cpus)?;
            let took = at.elapsed();
            if best.is_none_or(|(least, _)| took < least) {
                best = Some((
                    took,
                    Reading {
                        at: at + took / 2,
                        counters,
                    },
                ));
            }
            if took < QUICK {
                break;
            }
        }
        let (_, reading) = best.expect("it is tried at least once");
        Ok(reading)
    }

    /// Numbers of the target's processes.
    pub(super) fn processes(&self) -> Vec<u32> {
        match self {
            Self::Group(group) => group.processes(),
            Self::Tree(root) => {
                let all = Procfs::default().all_process_times();
                all.map_or_else(|_| Vec::new(), |all| tree(&all, *root))
            }
        }
    }

    /// CPU time of the target in guest mode.
    ///
    /// It is not read while a target works: a file that lists the processes of a group is waited
    /// for while other groups are made or removed.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub(super) fn guest(&self) -> io::Result<Duration> {
        let all = Procfs::default().all_process_times()?;
        let own = self.processes();
        Ok(TreeTimes::sum(own.iter().filter_map(|pid| all.get(pid))).guest)
    }

    fn counters(&self, cpus: &[usize]) -> io::Result<Counters> {
        let proc = Procfs::default();
        let second = rustix::param::clock_ticks_per_second();
        let times = proc.times_of_cpus(cpus).ok();
        let time = |ticks: u64| Duration::from_secs_f64(ticks as f64 / second as f64);
        let (idle, steal) = (
            times.map(|times| time(times.idle)),
            times.map(|times| time(times.steal)),
        );
        let (user, system, waiting) = match self {
            Self::Group(group) => {
                let times = group.cpu_time()?;
                // With several processors one of them may have waited alone.
                let waiting = group.all_waiting().filter(|_| cpus.len() == 1);
                (times.user, times.system, waiting)
            }
            Self::Tree(root) => {
                let all = proc.all_process_times()?;
                let own = tree(&all, *root);
                let times = TreeTimes::sum(own.iter().filter_map(|pid| all.get(pid)));
                (times.user, times.system, None)
            }
        };
        Ok(Counters {
            user,
            system,
            waiting,
            idle,
            steal,
        })
    }
}

//! CPU time of a process, of the children that it has waited for, and of a tree of processes, from
//! `/proc/PID/stat` (proc_pid_stat(5)).

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use crate::proc::{self, Procfs, stat_fields};

/// CPU time of a process, in clock ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessTimes {
    /// Number of its parent.
    pub parent: u32,
    /// Outside of the kernel, that in a guest included.
    pub user: u64,
    /// In the kernel.
    pub system: u64,
    /// In a guest.
    pub guest: u64,
    /// Outside of the kernel, of the children that it has waited for and of theirs.
    pub children_user: u64,
    /// In the kernel, of these children.
    pub children_system: u64,
}

/// CPU time of some processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeTimes {
    /// Outside of the kernel, that in guests included.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
    /// In guests.
    pub guest: Duration,
}

impl ProcessTimes {
    /// Parses the text of the file.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let fields: Vec<_> = stat_fields(text)?.collect();
        // The first is field 3, the state.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            parent: u32::try_from(field(4)?).ok()?,
            user: field(14)?,
            system: field(15)?,
            children_user: field(16)?,
            children_system: field(17)?,
            guest: field(43)?,
        })
    }
}

impl TreeTimes {
    /// The sum over processes, with the children that they have waited for.
    #[must_use]
    pub fn sum<'a>(processes: impl IntoIterator<Item = &'a ProcessTimes>) -> Self {
        let second = rustix::param::clock_ticks_per_second();
        let time = |ticks: u64| Duration::from_secs_f64(ticks as f64 / second as f64);
        let add = |sum: Self, one: &ProcessTimes| Self {
            user: sum.user + time(one.user) + time(one.children_user),
            system: sum.system + time(one.system) + time(one.children_system),
            guest: sum.guest + time(one.guest),
        };
        processes.into_iter().fold(Self::default(), add)
    }
}

/// The processes of a tree, with that at its root.
#[must_use]
pub fn tree(all: &BTreeMap<u32, ProcessTimes>, root: u32) -> Vec<u32> {
    let mut found = Vec::from_iter(all.contains_key(&root).then_some(root));
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let children = all.iter().filter(|(_, times)| times.parent == parent);
        found.extend(children.map(|(pid, _)| *pid));
        next += 1;
    }
    found
}

impl Procfs {
    /// CPU time of a process.
    ///
    /// # Errors
    /// If it has ended, or the file has another format.
    pub fn process_times(&self, pid: u32) -> io::Result<ProcessTimes> {
        let path = self.directory().join(pid.to_string()).join("stat");
        ProcessTimes::parse(&proc::read(&path)?).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// CPU time of all processes; those that end meanwhile are left out.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn all_process_times(&self) -> io::Result<BTreeMap<u32, ProcessTimes>> {
        let one = |pid| Some((pid, self.process_times(pid).ok()?));
        Ok(self.processes()?.into_iter().filter_map(one).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_manual_page() {
        // Field 3 is the state; field n has the value n.
        let numbers: Vec<_> = (4..=52).map(|number: u32| number.to_string()).collect();
        let text = format!("7 (a) b) S {}", numbers.join(" "));
        let expected = ProcessTimes {
            parent: 4,
            user: 14,
            system: 15,
            children_user: 16,
            children_system: 17,
            guest: 43,
        };
        assert_eq!(ProcessTimes::parse(text.as_bytes()), Some(expected));
        assert_eq!(ProcessTimes::parse(b"7 (a) S 1 2"), None);
        let own = Procfs::default().process_times(std::process::id()).unwrap();
        assert!(own.parent > 0);
    }

    #[test]
    fn a_tree_has_all_descendants_and_no_others() {
        let times = |parent, user| ProcessTimes {
            parent,
            user,
            children_system: 1,
            ..ProcessTimes::default()
        };
        let all = BTreeMap::from([
            (2, times(9, 10)),
            (5, times(2, 20)),
            (7, times(1, 40)),
            (9, times(1, 80)),
        ]);
        assert_eq!(tree(&all, 9), [9, 2, 5]);
        assert_eq!(tree(&all, 8), []);
        let sum = TreeTimes::sum(tree(&all, 9).iter().map(|pid| &all[pid]));
        let second = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(sum.user, Duration::from_secs_f64(110.0 / second));
        assert_eq!(sum.system, Duration::from_secs_f64(3.0 / second));
    }
}

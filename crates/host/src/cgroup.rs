//! Control groups of version 2 (cgroups(7)): made for one measurement, counted, and removed.
//!
//! The counters that are read here are there without any controller, also where version 2 is
//! mounted beside version 1, as `unified`.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use brisk_sys::wait_for;
use rustix::event::{PollFd, PollFlags};

/// A group that this process made, or that another program is to make at a known place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    directory: PathBuf,
    path: String,
}

/// CPU time of a group and of all groups below it (`cpu.stat` of
/// `Documentation/admin-guide/cgroup-v2.rst`). Time in a guest is part of `user`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Outside of the kernel.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

impl CpuTime {
    /// Parses the text of `cpu.stat`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let field = |wanted: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            let (_, value) = lines.find(|(name, _)| *name == wanted)?;
            value.trim().parse().ok().map(Duration::from_micros)
        };
        Some(Self {
            user: field("user_usec")?,
            system: field("system_usec")?,
        })
    }
}

/// Parses how long all runnable tasks of a group waited for a CPU at once, so that none of them
/// ran: `total` of `full` in `cpu.pressure` (`Documentation/accounting/psi.rst`).
#[must_use]
pub fn parse_all_waiting(text: &str) -> Option<Duration> {
    let line = text.lines().find(|line| line.starts_with("full "))?;
    let total = line
        .split(' ')
        .find_map(|word| word.strip_prefix("total="))?;
    total.parse().ok().map(Duration::from_micros)
}

/// Where the hierarchy of a controller of version 1 is mounted, or that of version 2, from
/// `/proc/self/mounts` (proc_pid_mounts(5)).
pub(crate) fn mount_point<'a>(mounts: &'a str, controller: Option<&str>) -> Option<&'a Path> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = match controller {
            Some(controller) => kind == "cgroup" && has(options, controller),
            None => kind == "cgroup2",
        };
        is_it.then_some(Path::new(point))
    })
}

/// The group of a process in such a hierarchy, from `/proc/PID/cgroup` (cgroups(7)).
pub(crate) fn group_path<'a>(text: &'a str, controller: Option<&str>) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_it = match controller {
            Some(controller) => has(controllers, controller),
            None => controllers.is_empty(),
        };
        is_it.then_some(path)
    })
}

/// Whether a list with commas has a name.
fn has(list: &str, name: &str) -> bool {
    list.split(',').any(|one| one == name)
}

impl Group {
    /// The place of a group of this name below the group of this process, whether there is one or
    /// not; none where version 2 is not mounted.
    #[must_use]
    pub fn below_own(name: &str) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        Self::at(format!(
            "{}/{name}",
            group_path(&own, None)?.trim_end_matches('/')
        ))
    }

    /// The group of a process, which other processes may be in, too; none where version 2 is not
    /// mounted, or if the process has ended.
    #[must_use]
    pub fn of_process(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        Self::at(group_path(&text, None)?.to_owned())
    }

    fn at(path: String) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let mount = mount_point(&mounts, None)?;
        Some(Self {
            directory: mount.join(path.trim_start_matches('/')),
            path,
        })
    }

    /// Makes the group.
    ///
    /// # Errors
    /// If this user may not, or there is one already.
    pub fn make(&self) -> io::Result<()> {
        fs::create_dir(&self.directory)
    }

    /// Its path in the hierarchy, as runtimes of containers want it.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The file that takes a process into the group when its number is written there.
    #[must_use]
    pub fn entrance(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }

    /// CPU time.
    ///
    /// # Errors
    /// If there is no such group, or the file has another format.
    pub fn cpu_time(&self) -> io::Result<CpuTime> {
        let text = fs::read_to_string(self.directory.join("cpu.stat"))?;
        CpuTime::parse(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// How long none of its runnable tasks had a CPU; none if the kernel does not count it.
    #[must_use]
    pub fn all_waiting(&self) -> Option<Duration> {
        parse_all_waiting(&fs::read_to_string(self.directory.join("cpu.pressure")).ok()?)
    }

    /// Numbers of its processes, those of groups below it included.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let mut found = Vec::new();
        let mut left = vec![self.directory.clone()];
        while let Some(directory) = left.pop() {
            let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
            found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
            left.extend(below(&directory));
        }
        found
    }

    /// Kills all of its processes (`cgroup.kill`, since Linux 5.14).
    ///
    /// # Errors
    /// If there is no such group, or the kernel is older.
    pub fn kill(&self) -> io::Result<()> {
        fs::write(self.directory.join("cgroup.kill"), "1")
    }

    /// Waits until no process is left in it and below it. A group that is not there is empty.
    ///
    /// # Errors
    /// If that takes longer than `time`.
    pub fn wait_until_empty(&self, time: Duration) -> io::Result<()> {
        let deadline = Instant::now() + time;
        let mut file = match File::open(self.directory.join("cgroup.events")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        loop {
            let mut text = String::new();
            file.rewind()?;
            file.read_to_string(&mut text)?;
            if text.lines().any(|line| line == "populated 0") {
                return Ok(());
            }
            // A change of the file is an exceptional condition.
            let mut fds = [PollFd::new(&file, PollFlags::PRI)];
            if wait_for(&mut fds, Some(deadline))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// Removes the group and the empty ones below it. One that is not there is no error.
    ///
    /// # Errors
    /// If a process is left in it.
    pub fn remove(&self) -> io::Result<()> {
        remove(&self.directory)
    }
}

fn below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|entry| entry.path()).collect()
}

fn remove(directory: &Path) -> io::Result<()> {
    for directory in below(directory) {
        remove(&directory)?;
    }
    match fs::remove_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_microseconds() {
        let text = "usage_usec 30\nuser_usec 10\nsystem_usec 20\nnice_usec 0\n";
        let expected = CpuTime {
            user: Duration::from_micros(10),
            system: Duration::from_micros(20),
        };
        assert_eq!(CpuTime::parse(text), Some(expected));
        assert_eq!(CpuTime::parse("usage_usec 30\n"), None);
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
        assert_eq!(parse_all_waiting(text), Some(Duration::from_micros(5)));
        assert_eq!(parse_all_waiting("some avg10=0.00 total=7\n"), None);
    }

    #[test]
    fn it_is_found_beside_version_1_and_alone() {
        let beside = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let unified = Some(Path::new("/sys/fs/cgroup/unified"));
        assert_eq!(mount_point(beside, None), unified);
        let alone = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        assert_eq!(mount_point(alone, None), Some(Path::new("/sys/fs/cgroup")));
        assert_eq!(mount_point("proc /proc proc rw 0 0\n", None), None);
        let text = "4:memory:/x\n0::/user.slice/session-1.scope\n";
        assert_eq!(group_path(text, None), Some("/user.slice/session-1.scope"));
        assert_eq!(group_path("4:memory:/x\n", None), None);
    }
}

//! What control groups of both versions (cgroups(7)) let their processes have of CPU time and memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cgroup::{group_path, mount_point};

/// Limits of a process: the lowest of its groups and of the groups above these.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// CPU time in each second of the clock, seconds: 0.5 is half of a CPU. None if unlimited.
    pub cpus: Option<f64>,
    /// Memory, bytes. None if unlimited.
    pub memory: Option<u64>,
}

/// Of version 1, a limit beyond this is none: it says so with a number of 63 bits.
const MOST_MEMORY: u64 = 1 << 60;

impl Limits {
    /// Those of a process. One that has ended has none.
    #[must_use]
    pub fn of_process(pid: u32) -> Self {
        let (cpu, memory_groups) = (groups(pid, "cpu"), groups(pid, "memory"));
        Self {
            cpus: cpu.iter().filter_map(|dir| cpus(dir)).reduce(f64::min),
            memory: memory_groups.iter().filter_map(|dir| memory(dir)).min(),
        }
    }
}

/// How long its groups, and groups above them, did not run their processes, since these had used the
/// CPU time that they may have (`cpu.stat`). A process that has ended gives nothing.
#[must_use]
pub fn throttled(pid: u32) -> Duration {
    let groups = groups(pid, "cpu");
    let stats = groups.iter().filter_map(|dir| text(dir, "cpu.stat"));
    stats.map(|stat| parse_throttled(&stat)).sum()
}

/// Directories of a process's groups of both versions that may limit what a controller is for, and of
/// the groups above them, the root's left out.
fn groups(pid: u32, controller: &str) -> Vec<PathBuf> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let groups = read(&format!("/proc/{pid}/cgroup"));
    let mounts = read("/proc/self/mounts");
    let hierarchies = [None, Some(controller)].into_iter();
    let found = hierarchies.flat_map(|controller| directories(&groups, &mounts, controller));
    found.collect()
}

/// Directories of a group and those above it, in the hierarchy of a controller of version 1, or in that
/// of version 2.
fn directories(groups: &str, mounts: &str, controller: Option<&str>) -> Vec<PathBuf> {
    let path = group_path(groups, controller);
    let Some((path, point)) = path.zip(mount_point(mounts, controller)) else {
        return Vec::new();
    };
    let directory = point.join(path.trim_start_matches('/'));
    let all = directory.ancestors().take_while(|dir| *dir != point);
    all.map(Path::to_owned).collect()
}

fn text(directory: &Path, name: &str) -> Option<String> {
    fs::read_to_string(directory.join(name)).ok()
}

fn cpus(directory: &Path) -> Option<f64> {
    if let Some(text) = text(directory, "cpu.max") {
        return parse_cpu_max(&text);
    }
    let number = |name| text(directory, name)?.trim().parse::<f64>().ok();
    let (quota, period) = (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?);
    // −1 is none.
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

fn memory(directory: &Path) -> Option<u64> {
    let first = || text(directory, "memory.limit_in_bytes");
    let limit = text(directory, "memory.max").or_else(first)?;
    // `max` is no number.
    limit
        .trim()
        .parse()
        .ok()
        .filter(|limit| *limit < MOST_MEMORY)
}

/// Parses `cpu.max`: microseconds in each period of microseconds, or `max`.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| quota / period)
}

/// Parses `cpu.stat`: microseconds in version 2, nanoseconds in version 1.
fn parse_throttled(text: &str) -> Duration {
    let times = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        let value = value.trim().parse().ok()?;
        match name {
            "throttled_usec" => Some(Duration::from_micros(value)),
            "throttled_time" => Some(Duration::from_nanos(value)),
            _ => None,
        }
    });
    times.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: &str = "5:memory:/a\n4:cpu,cpuacct:/a/b\n0::/user.slice/x.scope\n";
    const MOUNTS: &str = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                          cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
                          cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";

    #[test]
    fn groups_of_both_versions_are_found_up_to_the_root() {
        let of = |controller| directories(GROUPS, MOUNTS, controller);
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let cpu = "/sys/fs/cgroup/cpu,cpuacct";
        let expected = [format!("{cpu}/a/b"), format!("{cpu}/a")];
        assert_eq!(of(Some("cpu")), expected.map(PathBuf::from));
        assert_eq!(of(Some("memory")), paths(&["/sys/fs/cgroup/memory/a"]));
        let unified = "/sys/fs/cgroup/unified/user.slice";
        assert_eq!(of(None), paths(&[&format!("{unified}/x.scope"), unified]));
        assert_eq!(of(Some("pids")), paths(&[]));
        assert_eq!(directories("0::/\n", MOUNTS, None), paths(&[]));
    }

    #[test]
    fn limits_are_read_from_the_files_of_both_versions() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        assert_eq!((cpus(dir.path()), memory(dir.path())), (None, None));
        put("cpu.cfs_period_us", "20000\n");
        put("cpu.cfs_quota_us", "-1\n");
        put("memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!((cpus(dir.path()), memory(dir.path())), (None, None));
        put("cpu.cfs_quota_us", "10000\n");
        put("memory.limit_in_bytes", "1048576\n");
        assert_eq!(
            (cpus(dir.path()), memory(dir.path())),
            (Some(0.5), Some(1 << 20))
        );
        put("cpu.max", "max 100000\n");
        put("memory.max", "max\n");
        assert_eq!((cpus(dir.path()), memory(dir.path())), (None, None));
        put("cpu.max", "150000 100000\n");
        put("memory.max", "4096\n");
        assert_eq!(
            (cpus(dir.path()), memory(dir.path())),
            (Some(1.5), Some(4096))
        );
    }

    #[test]
    fn time_without_cpu_is_counted_in_the_unit_of_the_version() {
        let first = "nr_periods 2\nnr_throttled 1\nthrottled_time 5000\n";
        assert_eq!(parse_throttled(first), Duration::from_micros(5));
        let second = "usage_usec 30\nnr_throttled 1\nthrottled_usec 7\n";
        assert_eq!(parse_throttled(second), Duration::from_micros(7));
        assert_eq!(parse_throttled("usage_usec 30\n"), Duration::ZERO);
    }
}

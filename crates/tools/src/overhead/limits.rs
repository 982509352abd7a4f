//! What the control groups of a target let it have, as the host sees it.

use std::time::Duration;

use brisk_host::cgroup_limits::{Limits, throttled};

/// Name of the fact that says how much CPU time a target may have in each second, seconds.
pub(super) const CPU_LIMIT: &str = "CPU time by its group";
/// Name of the fact that says how much memory a target may have, KiB.
pub(super) const MEMORY_LIMIT: &str = "memory by its group";
/// Names of all facts.
pub(super) const NAMES: [&str; 2] = [CPU_LIMIT, MEMORY_LIMIT];

/// Limits of a target's processes as facts; none without a limit.
pub(super) fn facts(processes: &[u32]) -> Vec<(String, String)> {
    let all = || processes.iter().map(|pid| Limits::of_process(*pid));
    let cpus = all().filter_map(|limits| limits.cpus).reduce(f64::min);
    let memory = all().filter_map(|limits| limits.memory).min();
    let cpus = cpus.map(|cpus| (CPU_LIMIT.to_owned(), format!("{cpus:.2}")));
    let memory = memory.map(|bytes| (MEMORY_LIMIT.to_owned(), (bytes >> 10).to_string()));
    cpus.into_iter().chain(memory).collect()
}

/// How long the processes of a target were not run so far, since their groups had used their CPU time.
pub(super) fn held_back(processes: &[u32]) -> Duration {
    let times = processes.iter().map(|pid| throttled(*pid));
    times.max().unwrap_or_default()
}

//! Windows: the difference of two snapshots. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use brisk_host::tasks::{HostTimes, ProcessTasks, Task};
use serde::{Deserialize, Serialize};

use super::guests::Guest;
use super::helpers::Helper;
use super::role::Role;

/// What was read of a guest at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestSample {
    /// QEMU and its threads; None if it has ended.
    pub process: Option<ProcessTasks>,
    /// Threads of the kernel that belong to it and are no threads of its own.
    pub kernel: Vec<Task>,
    /// Processes beside QEMU that work for it.
    pub helpers: Vec<ProcessTasks>,
}

/// What was read at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// When, on a clock that only goes forward.
    pub at: Duration,
    /// Time since the host's boot, suspends included, by which threads' start times are told.
    pub uptime: Duration,
    /// CPU time of the host; None if it cannot be read.
    pub host: Option<HostTimes>,
    /// Load average of the last minute.
    pub load: Option<f64>,
    /// One for each guest, in the order of the guests.
    pub guests: Vec<GuestSample>,
    /// `ksmd` and `khugepaged`, where they are.
    pub daemons: Vec<Task>,
}

/// Whether a thread lived through a whole window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Life {
    /// It did.
    Whole,
    /// It started within the window. All that it used is counted.
    Started,
    /// It ended within the window. What it used since the beginning is lost.
    Ended,
}

/// One thread in one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadWindow {
    /// Thread number.
    pub tid: u32,
    /// Start, in clock ticks since the host's boot.
    pub start_ticks: u64,
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Time on a CPU, in percent of one host CPU.
    pub cpu_percent: f64,
    /// Time runnable and without a CPU, in percent of the window: the host had other work to do.
    pub waiting_percent: f64,
    /// Voluntary context switches a second.
    pub wakeups_per_second: f64,
    /// Involuntary context switches a second.
    pub preemptions_per_second: f64,
    /// Whether it lived through the window.
    pub life: Life,
}

/// One guest in one window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GuestWindow {
    /// Length, in seconds.
    pub seconds: f64,
    /// Age of QEMU's process at the end, in seconds; None in reports of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
    /// Its threads; none if it ended within the window or before.
    pub threads: Vec<ThreadWindow>,
    /// Whether QEMU has ended, or another process has its number.
    pub has_ended: bool,
    /// Processes beside QEMU whose CPU time is missing: they ended within the window or before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Helper>,
}

/// The host in one window. All percentages are of one CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct HostWindow {
    /// Length, in seconds.
    pub seconds: f64,
    /// CPU time in use, the measured guests included.
    pub busy_percent: Option<f64>,
    /// CPU time in use, without the measured guests.
    pub other_percent: Option<f64>,
    /// CPU time taken by the hypervisor below.
    pub steal_percent: Option<f64>,
    /// Load average of the last minute, at the end.
    pub load: Option<f64>,
    /// CPU time of `ksmd`, which merges equal pages.
    pub ksmd_percent: Option<f64>,
    /// CPU time of `khugepaged`, which makes huge pages.
    pub khugepaged_percent: Option<f64>,
}

/// All guests and the host in one window.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// The host.
    pub host: HostWindow,
    /// The guests, in their order.
    pub guests: Vec<GuestWindow>,
}

impl GuestSample {
    /// Age of the process in seconds, so long after the host's boot.
    fn age(&self, uptime: Duration) -> Option<f64> {
        let ticks = rustix::param::clock_ticks_per_second().max(1) as f64;
        let started = self.process.as_ref()?.start_ticks as f64 / ticks;
        Some((uptime.as_secs_f64() - started).max(0.0))
    }
}

impl GuestWindow {
    /// CPU time of all threads, in percent of one host CPU.
    #[must_use]
    pub fn cpu_percent(&self) -> f64 {
        self.threads.iter().map(|thread| thread.cpu_percent).sum()
    }

    /// Time that threads were runnable and had no CPU, in percent of the window, summed.
    #[must_use]
    pub fn waiting_percent(&self) -> f64 {
        let each = self.threads.iter();
        each.map(|thread| thread.waiting_percent).sum()
    }

    /// Wakeups of all threads a second.
    #[must_use]
    pub fn wakeups_per_second(&self) -> f64 {
        let each = self.threads.iter();
        each.map(|thread| thread.wakeups_per_second).sum()
    }
}

impl Window {
    /// The time between two snapshots of `guests`; None if there is none.
    #[must_use]
    pub fn between(guests: &[Guest], before: &Snapshot, after: &Snapshot) -> Option<Self> {
        let length = after.at.checked_sub(before.at)?.as_secs_f64();
        if length <= 0.0 {
            return None;
        }
        let pairs = before.guests.iter().zip(&after.guests);
        let guests = guests
            .iter()
            .zip(pairs)
            .map(|(guest, (before, after))| guest_window(guest, before, after, length));
        let guests: Vec<_> = guests
            .zip(&after.guests)
            .map(|(window, sample)| GuestWindow {
                age_seconds: sample.age(after.uptime),
                ..window
            })
            .collect();
        let measured = guests.iter().map(GuestWindow::cpu_percent).sum();
        Some(Self {
            host: host_window(before, after, length, measured),
            guests,
        })
    }
}

fn guest_window(
    guest: &Guest,
    before: &GuestSample,
    after: &GuestSample,
    length: f64,
) -> GuestWindow {
    let mut window = GuestWindow {
        seconds: length,
        ..GuestWindow::default()
    };
    let (Some(old), Some(new)) = (&before.process, &after.process) else {
        window.has_ended = true;
        return window;
    };
    // Another process has the number.
    if old.start_ticks != new.start_ticks {
        window.has_ended = true;
        return window;
    }
    let main = new.tasks.iter().find(|task| task.tid == new.pid);
    let own = [main.map_or("", |task| &task.name), &guest.program];
    window.threads = thread_windows(&old.tasks, &new.tasks, length, |task| {
        let role = Role::of_thread(&task.name, task.tid == new.pid, &own);
        match guest.roles.get(&task.tid) {
            Some(known) if role == Role::Unnamed => known.clone(),
            _ => role,
        }
    });
    let kernel = thread_windows(&before.kernel, &after.kernel, length, |task| {
        let role = Role::of_kernel_thread(&task.name).map(|(_, role)| role);
        role.unwrap_or_else(|| Role::Kernel(task.name.clone()))
    });
    window.threads.extend(kernel);
    for helper in &guest.helpers.own {
        let of = |sample: &GuestSample| {
            let mut list = sample.helpers.iter();
            list.find(|one| one.pid == helper.pid).cloned()
        };
        let both = of(before).zip(of(after));
        // Another process may have the number.
        let Some((old, new)) = both.filter(|(old, new)| old.start_ticks == new.start_ticks) else {
            window.lost.push(helper.clone());
            continue;
        };
        let role = |_: &Task| Role::Helper(helper.name.clone());
        let threads = thread_windows(&old.tasks, &new.tasks, length, role);
        window.threads.extend(threads);
    }
    window
}

fn thread_windows(
    before: &[Task],
    after: &[Task],
    length: f64,
    role: impl Fn(&Task) -> Role,
) -> Vec<ThreadWindow> {
    let key = |task: &Task| (task.tid, task.start_ticks);
    let old: BTreeMap<_, _> = before.iter().map(|task| (key(task), task)).collect();
    let new: BTreeMap<_, _> = after.iter().map(|task| (key(task), task)).collect();
    let of = |task: &Task, from: Option<&Task>, life| {
        let since = |now: u64, before: Option<u64>| {
            // Counters only grow; less than before is another thread that was not told apart.
            now.saturating_sub(before.unwrap_or(0)) as f64 / length
        };
        let from_schedule = from.map(|task| task.schedule);
        let from_switches = from.map(|task| task.switches);
        ThreadWindow {
            tid: task.tid,
            start_ticks: task.start_ticks,
            name: task.name.clone(),
            role: role(task),
            // Nanoseconds a second, in percent.
            cpu_percent: since(task.schedule.on_cpu, from_schedule.map(|s| s.on_cpu)) / 1e7,
            waiting_percent: since(task.schedule.waiting, from_schedule.map(|s| s.waiting)) / 1e7,
            wakeups_per_second: since(
                task.switches.voluntary,
                from_switches.map(|switches| switches.voluntary),
            ),
            preemptions_per_second: since(
                task.switches.involuntary,
                from_switches.map(|switches| switches.involuntary),
            ),
            life,
        }
    };
    let mut windows: Vec<_> = new
        .iter()
        .map(|(key, task)| match old.get(key) {
            Some(from) => of(task, Some(from), Life::Whole),
            None => of(task, None, Life::Started),
        })
        .collect();
    let ended = old.iter().filter(|(key, _)| !new.contains_key(key));
    windows.extend(ended.map(|(_, task)| of(task, Some(task), Life::Ended)));
    windows
}

fn host_window(before: &Snapshot, after: &Snapshot, length: f64, measured: f64) -> HostWindow {
    let ticks = rustix::param::clock_ticks_per_second().max(1) as f64;
    let percent = |of: fn(&HostTimes) -> u64| {
        let (old, new) = (before.host.as_ref()?, after.host.as_ref()?);
        // Some counters may go backwards (proc_stat(5)).
        let used = of(new).saturating_sub(of(old)) as f64 / ticks;
        Some(used / length * 100.0)
    };
    let daemon = |name: &str| {
        let of = |list: &[Task]| list.iter().find(|task| task.name == name).cloned();
        let (old, new) = (of(&before.daemons)?, of(&after.daemons)?);
        let used = new.schedule.on_cpu.saturating_sub(old.schedule.on_cpu);
        Some(used as f64 / length / 1e7)
    };
    let busy_percent = percent(|times| times.busy);
    HostWindow {
        seconds: length,
        busy_percent,
        other_percent: busy_percent.map(|busy| (busy - measured).max(0.0)),
        steal_percent: percent(|times| times.steal),
        load: after.load,
        ksmd_percent: daemon("ksmd"),
        khugepaged_percent: daemon("khugepaged"),
    }
}

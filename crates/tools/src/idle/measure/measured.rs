//! Result of a measurement: means over its windows. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::exits::Exits;
use super::guests::Guest;
use super::role::Role;
use super::settling::{Settling, WINDOWS, restless};
use super::window::{GuestWindow, HostWindow, Life, ThreadWindow, Window};

/// One thread over all measured windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// Thread number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Time on a CPU, in percent of one host CPU.
    pub cpu_percent: f64,
    /// Time runnable and without a CPU, in percent of the measured time.
    pub waiting_percent: f64,
    /// Wakeups a second: voluntary context switches.
    pub wakeups_per_second: f64,
    /// Involuntary context switches a second.
    pub preemptions_per_second: f64,
    /// Whether it lived all the time.
    pub life: Life,
}

/// One guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The guest.
    #[serde(flatten)]
    pub guest: Guest,
    /// Seconds that were measured.
    pub seconds: f64,
    /// Whether it had settled when the measurement began.
    pub has_settled: bool,
    /// Whether it ended meanwhile; the numbers are of the time before.
    pub has_ended: bool,
    /// CPU time of all threads, those of its helpers included, in percent of one host CPU.
    pub cpu_percent: f64,
    /// Wakeups of all threads a second.
    pub wakeups_per_second: f64,
    /// Its threads: those of one role together, virtual CPUs first.
    pub threads: Vec<Thread>,
    /// Exits of its virtual CPUs.
    pub exits: Exits,
    /// Windows before the measurement.
    pub settling: Vec<GuestWindow>,
    /// Windows of the measurement.
    pub windows: Vec<GuestWindow>,
}

/// Rates of a guest by which a cause can be told: a timer that wakes the main thread at the
/// guest's HZ, a virtual CPU that polls. Wakeups are per second, CPU times in percent of one host
/// CPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Signature {
    /// CPU time of all threads of QEMU, and of the kernel for it.
    pub cpu: f64,
    /// Wakeups of all those threads.
    pub wakeups: f64,
    /// CPU time of the main thread.
    pub main_cpu: f64,
    /// Wakeups of the main thread.
    pub main_wakeups: f64,
    /// CPU time of each thread with virtual CPUs, by index. A single thread for all is one. Empty
    /// if the threads have no names.
    pub vcpu_cpu: Vec<f64>,
    /// Wakeups of each, likewise.
    pub vcpu_wakeups: Vec<f64>,
    /// CPU time of each iothread.
    pub iothread_cpu: BTreeMap<String, f64>,
    /// Wakeups of each iothread.
    pub iothread_wakeups: BTreeMap<String, f64>,
    /// CPU time of vhost threads.
    pub vhost_cpu: f64,
    /// CPU time of display threads.
    pub display_cpu: f64,
    /// CPU time of threads whose role is not known.
    pub unnamed_cpu: f64,
    /// Exits and other counters of KVM a second, by name; empty if they are not known.
    pub exits: BTreeMap<String, f64>,
}

/// Noise of the host in the measured windows. All percentages are of one CPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostNoise {
    /// Means.
    #[serde(flatten)]
    pub mean: HostWindow,
    /// Largest CPU time of other work in one window.
    pub other_percent_max: Option<f64>,
    /// Windows of the measurement.
    pub windows: Vec<HostWindow>,
}

/// Guests that were measured in one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// How it went until it began.
    pub settling: Settling,
    /// Whether it was interrupted while guests settled, so that its windows are those.
    pub is_of_settling: bool,
    /// Seconds that were measured.
    pub seconds: f64,
    /// The host meanwhile.
    pub host: HostNoise,
    /// The guests, in the order in which they were given.
    pub guests: Vec<Measured>,
    /// Guests that ended before a window was over, of which there are no numbers.
    pub ended: Vec<Guest>,
}

/// Windows of a measurement that goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// The guests.
    pub guests: Vec<Guest>,
    /// Windows before the measurement.
    pub settling: Vec<Window>,
    /// Windows of the measurement.
    pub measured: Vec<Window>,
    /// How the settling went.
    pub how: Settling,
}

impl Measurement {
    /// Orders the guests by CPU time, the most expensive first.
    pub fn rank(&mut self) {
        let guests = &mut self.guests;
        guests.sort_by(|a, b| b.cpu_percent.total_cmp(&a.cpu_percent));
    }
}

impl Recording {
    /// Whether each guest has settled.
    #[must_use]
    pub fn has_settled(&self) -> bool {
        let first = self.settling.len().saturating_sub(WINDOWS);
        let last = &self.settling[first..];
        (0..self.guests.len()).all(|place| restless(&of_guest(last, place)).is_none())
    }

    /// Whether each guest has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let last = self.measured.last().or(self.settling.last());
        last.is_some_and(|window| window.guests.iter().all(|guest| guest.has_ended))
    }

    /// The result so far. `exits` has one for each guest. Without a measured window it is that of
    /// the settling.
    #[must_use]
    pub fn result(&self, exits: &[Exits]) -> Measurement {
        let is_of_settling = self.measured.is_empty() && !self.settling.is_empty();
        let (settling, windows) = match is_of_settling {
            true => (&[][..], &self.settling[..]),
            false => (&self.settling[..], &self.measured[..]),
        };
        let measured = self.guests.iter().enumerate().map(|(place, guest)| {
            let exits = exits.get(place).cloned();
            let before = of_guest(settling, place);
            Measured {
                has_settled: matches!(self.how, Settling::Settled { .. })
                    || restless(&before).is_none(),
                settling: before,
                exits: exits.unwrap_or_else(|| Exits::unknown("not looked for")),
                ..Measured::of(guest.clone(), of_guest(windows, place))
            }
        });
        let (measured, ended): (Vec<_>, Vec<_>) =
            measured.partition(|measured| measured.seconds > 0.0);
        Measurement {
            settling: self.how,
            is_of_settling,
            seconds: windows.iter().map(|window| window.host.seconds).sum(),
            host: HostNoise::of(windows.iter().map(|window| window.host).collect()),
            guests: measured,
            ended: ended.into_iter().map(|measured| measured.guest).collect(),
        }
    }
}

fn of_guest(windows: &[Window], place: usize) -> Vec<GuestWindow> {
    let of = |window: &Window| window.guests.get(place).cloned();
    windows.iter().filter_map(of).collect()
}

impl Measured {
    /// Means over windows, each by its length.
    #[must_use]
    pub fn of(guest: Guest, windows: Vec<GuestWindow>) -> Self {
        let lived = || windows.iter().filter(|window| !window.has_ended);
        let seconds: f64 = lived().map(|window| window.seconds).sum();
        let threads = threads(lived(), seconds);
        let sum = |of: fn(&Thread) -> f64| threads.iter().map(of).sum();
        Self {
            guest,
            seconds,
            has_settled: false,
            has_ended: windows.last().is_some_and(|window| window.has_ended),
            cpu_percent: sum(|thread| thread.cpu_percent),
            wakeups_per_second: sum(|thread| thread.wakeups_per_second),
            exits: Exits::unknown("not looked for"),
            threads,
            settling: Vec::new(),
            windows,
        }
    }

    /// CPU time that the host spends on the guest in a day at this rate, in hours of one CPU.
    #[must_use]
    pub fn cpu_hours_per_day(&self) -> f64 {
        self.cpu_percent / 100.0 * 24.0
    }

    /// Whether the roles of its threads are known: QEMU names the threads of virtual CPUs, or they
    /// are known by number.
    #[must_use]
    pub fn has_roles(&self) -> bool {
        self.threads.iter().any(|thread| thread.role.is_vcpu())
    }

    /// Rates by which a cause can be told.
    #[must_use]
    pub fn signature(&self) -> Signature {
        let mut signature = Signature::default();
        if let Exits::PerSecond(rates) = &self.exits {
            signature.exits.clone_from(rates);
        }
        for thread in &self.threads {
            let (cpu, wakeups) = (thread.cpu_percent, thread.wakeups_per_second);
            if matches!(thread.role, Role::Helper(_)) {
                continue;
            }
            signature.cpu += cpu;
            signature.wakeups += wakeups;
            match &thread.role {
                Role::Main => {
                    signature.main_cpu += cpu;
                    signature.main_wakeups += wakeups;
                }
                Role::Vcpu(_) | Role::AllVcpus => {
                    signature.vcpu_cpu.push(cpu);
                    signature.vcpu_wakeups.push(wakeups);
                }
                Role::Iothread(id) => {
                    *signature.iothread_cpu.entry(id.clone()).or_default() += cpu;
                    *signature.iothread_wakeups.entry(id.clone()).or_default() += wakeups;
                }
                Role::Vhost => signature.vhost_cpu += cpu,
                Role::Display => signature.display_cpu += cpu,
                Role::Unnamed => signature.unnamed_cpu += cpu,
                _ => {}
            }
        }
        signature
    }
}

impl HostNoise {
    fn of(windows: Vec<HostWindow>) -> Self {
        let seconds: f64 = windows.iter().map(|window| window.seconds).sum();
        let mean = |of: fn(&HostWindow) -> Option<f64>| {
            let parts = windows
                .iter()
                .map(|window| Some(of(window)? * window.seconds));
            let sum = parts.sum::<Option<f64>>()?;
            (seconds > 0.0).then(|| sum / seconds)
        };
        let others = windows.iter().filter_map(|window| window.other_percent);
        Self {
            mean: HostWindow {
                seconds,
                busy_percent: mean(|window| window.busy_percent),
                other_percent: mean(|window| window.other_percent),
                steal_percent: mean(|window| window.steal_percent),
                load: mean(|window| window.load),
                ksmd_percent: mean(|window| window.ksmd_percent),
                khugepaged_percent: mean(|window| window.khugepaged_percent),
            },
            other_percent_max: others.reduce(f64::max),
            windows,
        }
    }
}

/// Threads of all windows with their means, virtual CPUs first, then by role and number.
fn threads<'a>(windows: impl Iterator<Item = &'a GuestWindow>, seconds: f64) -> Vec<Thread> {
    let mut found: BTreeMap<(u32, u64), Thread> = BTreeMap::new();
    for window in windows {
        let share = window.seconds / seconds.max(f64::MIN_POSITIVE);
        for one in &window.threads {
            let key = (one.tid, one.start_ticks);
            let thread = found.entry(key).or_insert_with(|| nothing_of(one));
            // QEMU names a thread after its start.
            thread.name.clone_from(&one.name);
            thread.role.clone_from(&one.role);
            thread.cpu_percent += one.cpu_percent * share;
            thread.waiting_percent += one.waiting_percent * share;
            thread.wakeups_per_second += one.wakeups_per_second * share;
            thread.preemptions_per_second += one.preemptions_per_second * share;
            if one.life != Life::Whole {
                thread.life = one.life;
            }
        }
    }
    let mut threads: Vec<_> = found.into_values().collect();
    threads.sort_by(|a, b| (&a.role, a.tid).cmp(&(&b.role, b.tid)));
    threads
}

fn nothing_of(one: &ThreadWindow) -> Thread {
    Thread {
        tid: one.tid,
        name: String::new(),
        role: one.role.clone(),
        cpu_percent: 0.0,
        waiting_percent: 0.0,
        wakeups_per_second: 0.0,
        preemptions_per_second: 0.0,
        life: Life::Whole,
    }
}

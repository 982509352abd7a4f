//! CPU time of the whole system while something is measured, and of those that spent it.
//!
//! The headline is the time of all processors less that in which they were idle. The kernel takes
//! idle time from the clock, while the times of interrupts are sampled by ticks, and what a process
//! is charged with misses kernel threads that work for it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Instant;

use brisk_host::proc::Procfs;
use brisk_host::tasks::{HostTimes, Schedule};
use serde::{Deserialize, Serialize};

use super::device::Lines;
use super::energy;

/// Reader of the counters before and after a measurement.
#[derive(Debug, Clone)]
pub(super) struct Watch {
    /// The system's root.
    root: std::path::PathBuf,
    /// Process whose threads are measured, and which reads; it is not among the others.
    own: u32,
}

/// Counters at one moment.
#[derive(Debug, Clone)]
pub(super) struct Counters {
    at: Instant,
    times: HostTimes,
    /// CPU time in interrupts, ticks.
    interrupts: u64,
    /// CPU time of threads of the kernel, nanoseconds.
    kernel_threads: BTreeMap<u32, u64>,
    /// CPU time of processes, ticks.
    processes: BTreeMap<u32, u64>,
    /// Text of `/proc/interrupts`.
    devices: String,
    energy: Vec<energy::Counter>,
}

/// What the processors did between two moments. Times are in seconds, and those of CPUs are the
/// sum over all of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Wall-clock time.
    pub seconds: f64,
    /// Number of processors.
    pub cpus: usize,
    /// Time of processors that were idle or waited for disks.
    pub idle: f64,
    /// Time that a hypervisor below gave to others.
    pub steal: f64,
    /// CPU time in interrupts, as sampled by ticks.
    pub interrupts: f64,
    /// CPU time of threads of the kernel by name; several of one name are summed up.
    pub kernel_threads: BTreeMap<String, f64>,
    /// CPU time of processes other than brisk and those that it measures.
    pub others: f64,
    /// Interrupts of the device; none if there is no device, or its interrupts are not known.
    pub device_interrupts: Option<u64>,
    /// Others on an interrupt line of the device, whose interrupts are not counted.
    #[serde(default)]
    pub shared_with: Option<String>,
    /// Energy of the processor packages, joules; none if it cannot be read.
    pub joules: Option<f64>,
}

impl Window {
    /// CPU time of the whole system: what was not idle. Time that a hypervisor took is not in it.
    #[must_use]
    pub fn busy(&self) -> f64 {
        (self.seconds * self.cpus as f64 - self.idle - self.steal).max(0.0)
    }

    /// CPU time of all threads of the kernel.
    #[must_use]
    pub fn in_kernel_threads(&self) -> f64 {
        // The sum of no numbers is -0.
        self.kernel_threads
            .values()
            .fold(0.0, |sum, time| sum + time)
    }
}

impl Watch {
    /// Of this process, on the system below `root`.
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            own: std::process::id(),
        }
    }

    /// The counters before what is measured begins: what takes long to read is read first.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub(super) fn begin(&self) -> io::Result<Counters> {
        let (kernel_threads, processes) = self.tasks()?;
        let energy = energy::read(&self.root);
        let devices = self.interrupts();
        let (times, interrupts) = self.times()?;
        Ok(Counters {
            at: Instant::now(),
            times,
            interrupts,
            kernel_threads,
            processes,
            devices,
            energy,
        })
    }

    /// The counters after it has ended: what takes long to read is read last.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub(super) fn end(&self) -> io::Result<Counters> {
        let at = Instant::now();
        let (times, interrupts) = self.times()?;
        let devices = self.interrupts();
        let energy = energy::read(&self.root);
        let (kernel_threads, processes) = self.tasks()?;
        Ok(Counters {
            at,
            times,
            interrupts,
            kernel_threads,
            processes,
            devices,
            energy,
        })
    }

    /// Text of `/proc/interrupts`; empty if it cannot be read.
    fn interrupts(&self) -> String {
        fs::read_to_string(self.root.join("proc/interrupts")).unwrap_or_default()
    }

    fn times(&self) -> io::Result<(HostTimes, u64)> {
        let text = fs::read_to_string(self.root.join("proc/stat"))?;
        let times = HostTimes::parse(&text).ok_or(io::ErrorKind::InvalidData)?;
        Ok((times, in_interrupts(&text)))
    }

    /// CPU time of threads of the kernel, in nanoseconds, and of processes, in ticks.
    fn tasks(&self) -> io::Result<(BTreeMap<u32, u64>, BTreeMap<u32, u64>)> {
        let proc = Procfs::below(&self.root);
        let (mut threads, mut processes) = (BTreeMap::new(), BTreeMap::new());
        for (pid, times) in proc.all_process_times()? {
            if pid == KTHREADD || times.parent == KTHREADD {
                let path = self.root.join(format!("proc/{pid}/schedstat"));
                let schedule = fs::read_to_string(path).ok();
                let schedule = schedule.as_deref().and_then(Schedule::parse);
                threads.extend(schedule.map(|schedule| (pid, schedule.on_cpu)));
            } else if pid != self.own && times.parent != self.own {
                processes.insert(pid, times.user + times.system);
            }
        }
        Ok((threads, processes))
    }

    /// What happened between two readings, with the interrupts of devices if there are any.
    pub(super) fn window(&self, begin: &Counters, end: &Counters, lines: Option<&Lines>) -> Window {
        let tick = 1.0 / rustix::param::clock_ticks_per_second() as f64;
        let ticks = |from: u64, to: u64| to.saturating_sub(from) as f64 * tick;
        let mut kernel_threads = BTreeMap::new();
        for (pid, time) in &end.kernel_threads {
            let before = begin.kernel_threads.get(pid).copied().unwrap_or(0);
            let spent = time.saturating_sub(before);
            if spent > 0 {
                let path = self.root.join(format!("proc/{pid}/comm"));
                let name = fs::read_to_string(path).unwrap_or_default();
                *kernel_threads.entry(family(name.trim())).or_insert(0.0) += spent as f64 / 1e9;
            }
        }
        let of_processes = end.processes.iter().map(|(pid, time)| {
            let before = begin.processes.get(pid).copied().unwrap_or(0);
            ticks(before, *time)
        });
        let came = |lines: &Lines| {
            let before = lines.count(&begin.devices);
            lines.count(&end.devices).saturating_sub(before)
        };
        let shared_with = lines.and_then(|lines| lines.shared_with(&end.devices));
        Window {
            seconds: end.at.saturating_duration_since(begin.at).as_secs_f64(),
            cpus: cpus(&self.root),
            idle: ticks(begin.times.idle, end.times.idle),
            steal: ticks(begin.times.steal, end.times.steal),
            interrupts: ticks(begin.interrupts, end.interrupts),
            kernel_threads,
            others: of_processes.sum(),
            device_interrupts: lines
                .map(came)
                .filter(|count| *count > 0 || shared_with.is_none()),
            shared_with,
            joules: energy::joules(&begin.energy, &end.energy),
        }
    }
}

/// The thread that all threads of the kernel are children of.
const KTHREADD: u32 = 2;

/// Processors that are online.
fn cpus(root: &Path) -> usize {
    let online = brisk_host::sysfs::line(root, "devices/system/cpu/online");
    let online = online.and_then(|line| brisk_host::cpu::parse_list(&line));
    online.map_or(1, |list| list.len())
}

/// CPU time in hard and soft interrupts, in ticks: fields 6 and 7 of `cpu` (proc_stat(5)).
fn in_interrupts(text: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with("cpu "));
    let fields = line.unwrap_or_default().split_whitespace().skip(6).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// Name of a thread without the number of its CPU or device: that of all workers of a queue.
fn family(name: &str) -> String {
    match name.split_once('/') {
        Some((kind, rest))
            if rest
                .trim_start_matches('u')
                .starts_with(|first: char| first.is_ascii_digit()) =>
        {
            // A worker says what it works for after `-` or `+`.
            let queue = rest.split_once(['-', '+']).map(|(_, queue)| queue);
            queue.map_or_else(|| kind.to_owned(), |queue| format!("{kind} {queue}"))
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_queue_have_one_name() {
        for (name, expected) in [
            ("ksoftirqd/1", "ksoftirqd"),
            ("kworker/0:1-cryptd", "kworker cryptd"),
            ("kworker/u4:2+events_unbound", "kworker events_unbound"),
            ("virtio0-engine", "virtio0-engine"),
            ("irq/24-qat", "irq qat"),
            ("", ""),
        ] {
            assert_eq!(family(name), expected);
        }
    }

    #[test]
    fn busy_is_what_was_not_idle() {
        let window = Window {
            seconds: 2.0,
            cpus: 2,
            idle: 2.5,
            steal: 0.25,
            ..Window::default()
        };
        assert!((window.busy() - 1.25).abs() < 1e-9);
        assert!(window.in_kernel_threads().is_sign_positive());
        let stat = "cpu  1 2 3 4 5 60 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(in_interrupts(stat), 67);
        assert_eq!(in_interrupts("garbage"), 0);
    }

    /// A process that computes is among the others, and the account adds up to the processors' time.
    #[test]
    fn the_account_of_this_system_adds_up() {
        let watch = Watch::new(Path::new("/"));
        let begin = watch.begin().unwrap();
        let until = Instant::now() + std::time::Duration::from_millis(300);
        while Instant::now() < until {
            std::hint::black_box(0);
        }
        let end = watch.end().unwrap();
        let window = watch.window(&begin, &end, None);
        assert!(window.cpus >= 1);
        assert!(window.seconds >= 0.3, "{window:?}");
        // It ran all the time, less what another hypervisor or a busy machine took.
        assert!(window.busy() > 0.05, "{window:?}");
        assert!(window.busy() <= window.seconds * window.cpus as f64 + 0.1);
    }
}

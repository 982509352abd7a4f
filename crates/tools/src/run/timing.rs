//! Milestones of a run, with times on the host's clock and on the guest's.

use std::time::Instant;

use brisk_measure::{Clock, Environment, Report, Timeline};
use brisk_vm::guest::GuestTimestamp;

/// A milestone of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Milestone {
    /// brisk started.
    Brisk,
    /// QEMU was executed.
    Exec,
    /// QEMU's control channel greeted.
    QemuUp,
    /// A guest restored from a template runs.
    Resumed,
    /// A guest of the warm pool was taken.
    Taken,
    /// The kernel's first line arrived from the console, which it opens a few milliseconds after
    /// its entry.
    Kernel,
    /// Init's first instruction.
    Init,
    /// Modules were loaded.
    Modules,
    /// Init's port was open.
    Port,
    /// The root was ready.
    Root,
    /// The command was executed.
    CommandStart,
    /// The command's first output was read in the guest.
    FirstOutput,
    /// The command ended.
    CommandEnd,
    /// Its exit status arrived.
    Exit,
    /// QEMU was gone.
    QemuGone,
}

impl Milestone {
    /// All of them, in the order of a run.
    const ALL: [Self; 15] = [
        Self::Brisk,
        Self::Exec,
        Self::QemuUp,
        Self::Resumed,
        Self::Taken,
        Self::Kernel,
        Self::Init,
        Self::Modules,
        Self::Port,
        Self::Root,
        Self::CommandStart,
        Self::FirstOutput,
        Self::CommandEnd,
        Self::Exit,
        Self::QemuGone,
    ];

    /// Name in tables and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brisk => "brisk started",
            Self::Exec => "QEMU executed",
            Self::QemuUp => "QEMU up",
            Self::Resumed => "guest resumed",
            Self::Taken => "ready guest taken",
            Self::Kernel => "kernel entry",
            Self::Init => "init started",
            Self::Modules => "modules loaded",
            Self::Port => "channel open",
            Self::Root => "root ready",
            Self::CommandStart => "command started",
            Self::FirstOutput => "first output",
            Self::CommandEnd => "command ended",
            Self::Exit => "exit status received",
            Self::QemuGone => "QEMU ended",
        }
    }

    /// Activity since the milestone before, and its kind.
    const fn phase(self) -> (&'static str, &'static str) {
        match self {
            Self::Brisk => ("", ""),
            Self::Exec => ("prepare", "brisk"),
            Self::QemuUp => ("QEMU starts", "qemu"),
            Self::Resumed => ("state loaded", "qemu"),
            Self::Taken => ("prepare", "brisk"),
            Self::Kernel => ("firmware and kernel entry", "firmware"),
            Self::Init => ("kernel boots", "kernel"),
            Self::Modules => ("modules", "userspace"),
            Self::Port => ("channel", "userspace"),
            Self::Root => ("script and root", "userspace"),
            Self::CommandStart => ("execute", "userspace"),
            Self::FirstOutput => ("command until first output", "command"),
            Self::CommandEnd => ("command", "command"),
            Self::Exit => ("sync and exit status", "shutdown"),
            Self::QemuGone => ("QEMU ends", "shutdown"),
        }
    }

    pub(crate) const fn of_stamp(stamp: GuestTimestamp) -> Option<Self> {
        Some(match stamp {
            GuestTimestamp::Init => Self::Init,
            GuestTimestamp::Modules => Self::Modules,
            GuestTimestamp::Port => Self::Port,
            GuestTimestamp::Root => Self::Root,
            GuestTimestamp::Start => Self::CommandStart,
            GuestTimestamp::Output => Self::FirstOutput,
            GuestTimestamp::End => Self::CommandEnd,
            GuestTimestamp::Config | GuestTimestamp::Exit | GuestTimestamp::Cycles => return None,
        })
    }
}

/// Time of a milestone, with its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    nanos: u64,
    clock: Clock,
}

/// Milestones of one run.
#[derive(Debug, Clone)]
pub struct Timing {
    origin: Instant,
    readings: Vec<(Milestone, Reading)>,
    /// Offset to add to the guest's clock to get the host's, nanoseconds.
    offset: Option<i64>,
}

impl Timing {
    /// Milestones of a run that starts at `origin`.
    #[must_use]
    pub fn new(origin: Instant) -> Self {
        let start = Reading {
            nanos: 0,
            clock: Clock::HostMonotonic,
        };
        Self {
            origin,
            readings: vec![(Milestone::Brisk, start)],
            offset: None,
        }
    }

    /// Records a milestone now, on the host's clock; the first time counts.
    pub(crate) fn now(&mut self, moment: Milestone) {
        let nanos = self.origin.elapsed().as_nanos() as u64;
        self.put(
            moment,
            Reading {
                nanos,
                clock: Clock::HostMonotonic,
            },
        );
    }

    /// Records timestamps of the guest. The last one of a frame is taken just before the frame is
    /// sent, so its arrival ties the two clocks together, to within the frame's travel time: the
    /// quickest frame counts.
    pub(crate) fn stamps(&mut self, stamps: &[(GuestTimestamp, u64)]) {
        let here = self.origin.elapsed().as_nanos() as i64;
        for (stamp, nanos) in stamps {
            if let Some(moment) = Milestone::of_stamp(*stamp) {
                self.put(
                    moment,
                    Reading {
                        nanos: *nanos,
                        clock: Clock::GuestBoot,
                    },
                );
            }
        }
        let times = stamps
            .iter()
            .filter(|(stamp, _)| *stamp != GuestTimestamp::Cycles);
        if let Some(latest) = times.map(|(_, nanos)| *nanos as i64).max() {
            let offset = here.saturating_sub(latest);
            self.offset = Some(self.offset.map_or(offset, |known| known.min(offset)));
        }
    }

    fn put(&mut self, moment: Milestone, reading: Reading) {
        if !self.readings.iter().any(|(known, _)| *known == moment) {
            self.readings.push((moment, reading));
        }
    }

    /// Time of a milestone on the host's clock, nanoseconds since brisk started.
    #[must_use]
    pub fn at(&self, moment: Milestone) -> Option<i64> {
        let reading = self.readings.iter().find(|(known, _)| *known == moment)?.1;
        Some(match reading.clock {
            Clock::GuestBoot => reading.nanos as i64 + self.offset?,
            _ => reading.nanos as i64,
        })
    }

    /// The milestones as a report.
    #[must_use]
    pub fn report(&self, created: String, environment: Environment) -> Report {
        let mut timeline = Timeline::new(Clock::HostMonotonic);
        if let Some(offset) = self.offset {
            timeline.offsets.insert(Clock::GuestBoot, offset);
        }
        let mut previous = None;
        for moment in Milestone::ALL {
            let reading = self.readings.iter().find(|(known, _)| *known == moment);
            let (Some((_, reading)), Some(at)) = (reading, self.at(moment)) else {
                continue;
            };
            timeline.event(moment.name(), reading.nanos, reading.clock);
            let at = at.max(0) as u64;
            if let Some(before) = previous {
                let (phase, kind) = moment.phase();
                timeline.activity(phase, kind, before, at.max(before), Clock::HostMonotonic);
            }
            previous = Some(at.max(previous.unwrap_or(0)));
        }
        let mut report = Report::new("run", created, environment);
        report.timeline = Some(timeline);
        report
    }

    /// Rows for people: each milestone, its time, the time since the one before, its clock.
    #[must_use]
    pub fn rows(&self) -> Vec<[String; 4]> {
        let mut rows = Vec::new();
        let mut previous = 0;
        for moment in Milestone::ALL {
            let reading = self.readings.iter().find(|(known, _)| *known == moment);
            let (Some((_, reading)), Some(at)) = (reading, self.at(moment)) else {
                continue;
            };
            let millis = |nanos: i64| format!("{:.1}", nanos as f64 / 1e6);
            let since = at - previous;
            let clock = reading.clock.name().to_owned();
            rows.push([moment.name().to_owned(), millis(at), millis(since), clock]);
            previous = at;
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn timing() -> Timing {
        let two_seconds_ago = Instant::now().checked_sub(Duration::from_secs(2)).unwrap();
        let mut timing = Timing::new(two_seconds_ago);
        let nanos = 1_000_000;
        timing.put(
            Milestone::Exec,
            Reading {
                nanos,
                clock: Clock::HostMonotonic,
            },
        );
        timing.stamps(&[
            (GuestTimestamp::Init, 500_000_000),
            (GuestTimestamp::Port, 600_000_000),
        ]);
        timing.stamps(&[
            (GuestTimestamp::End, 700_000_000),
            (GuestTimestamp::Exit, 700_000_001),
        ]);
        timing
    }

    #[test]
    fn guest_times_are_placed_by_the_first_frame() {
        let timing = timing();
        let between = |a, b| timing.at(b).unwrap() - timing.at(a).unwrap();
        assert_eq!(between(Milestone::Init, Milestone::Port), 100_000_000);
        assert_eq!(between(Milestone::Port, Milestone::CommandEnd), 100_000_000);
        assert_eq!(timing.at(Milestone::QemuGone), None);
    }

    #[test]
    fn the_quickest_frame_ties_the_clocks() {
        let mut timing = Timing::new(Instant::now());
        timing.stamps(&[(GuestTimestamp::Port, 5)]);
        let late = timing.at(Milestone::Port).unwrap();
        timing.stamps(&[(GuestTimestamp::End, 1_000_000_000_000)]);
        assert!(timing.at(Milestone::Port).unwrap() < late);
    }

    #[test]
    fn rows_name_the_clock() {
        let rows = timing().rows();
        let clock = |name: &str| rows.iter().find(|row| row[0] == name).unwrap()[3].clone();
        assert_eq!(clock("QEMU executed"), Clock::HostMonotonic.name());
        assert_eq!(clock("init started"), Clock::GuestBoot.name());
    }

    #[test]
    fn the_report_leaves_nothing_unexplained_between_moments() {
        let report = timing().report("2026-01-01T00:00:00Z".into(), Environment::default());
        let timeline = report.timeline.unwrap();
        assert!(timeline.gaps().is_empty(), "{:?}", timeline.gaps());
    }
}

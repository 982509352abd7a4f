//! Measures guests that run.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use brisk_sys::wait_for;
use rustix::event::{PollFd, PollFlags};

use super::counters::Counters;
use super::guests::Guest;
use super::measured::{Measurement, Recording};
use super::sampler::Sampler;
use super::settling::{Settling, WINDOWS};
use super::window::{Snapshot, Window};
use brisk_host::interrupt::Interrupt;

/// Length of a window: several periods of what a guest does once a second, and short enough that
/// three of them are not long.
pub const WINDOW: Duration = Duration::from_secs(5);
/// A last window that was cut short counts from this length on.
const SHORTEST: Duration = Duration::from_secs(1);

/// How to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Longest wait until the guests have settled; None to measure at once.
    pub settle: Option<Duration>,
    /// How long to measure; None until interrupted.
    pub time: Option<Duration>,
    /// Connection to the libvirt that has the counters of domains; None for the default of
    /// `virsh`.
    pub connect: Option<String>,
}

/// What a measurement is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It waits until the guests have settled.
    Settling,
    /// It measures.
    Measuring,
}

/// A measurement after a window.
#[derive(Debug)]
pub struct Progress<'a> {
    /// What it is doing.
    pub phase: Phase,
    /// Time in this phase.
    pub elapsed: Duration,
    /// Time that this phase takes at most; None if it has no end.
    pub limit: Option<Duration>,
    /// All windows so far; none at the beginning.
    pub recording: &'a Recording,
}

/// A measurement that is not possible.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// Counters cannot be read.
    #[error("cannot read the counters of threads below /proc")]
    Read(#[source] io::Error),
    /// All guests ended before a window was over.
    #[error("{0} ended before anything was measured")]
    Ended(String),
    /// It was interrupted before a window was over.
    #[error("interrupted before anything was measured")]
    Interrupted,
    /// The system cannot wait.
    #[error("cannot wait")]
    Wait(#[source] io::Error),
}

/// Measures guests in one time. `on_progress` is called at the beginning and after each window.
/// An interrupt ends the measurement early with what there is.
///
/// # Errors
/// If counters cannot be read, or nothing could be measured.
pub fn measure(
    root: &Path,
    guests: &[Guest],
    options: &Options,
    interrupt: &Interrupt,
    on_progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Measurement, MeasureError> {
    let mut guests = guests.to_vec();
    Guest::find_helpers(root, &mut guests);
    let guests = &guests[..];
    let mut clock = Clock {
        sampler: Sampler::new(root, guests),
        began: Instant::now(),
        interrupt,
        recording: Recording {
            guests: guests.to_vec(),
            settling: Vec::new(),
            measured: Vec::new(),
            how: Settling::Skipped,
        },
        last: None,
    };
    clock.last = Some(clock.read()?);
    if let Some(limit) = options.settle {
        clock.settle(limit, on_progress)?;
    }
    let counters = Counters::new(guests, options.connect.as_deref());
    let (before, at) = (counters.read(), Instant::now());
    // libvirt asked QEMU, whose main thread woke for that: that is no cost of the guest's.
    clock.last = Some(clock.read()?);
    clock.measure(options.time, on_progress)?;
    let exits = counters.exits(guests, &before, at);
    let recording = clock.recording;
    if recording.measured.is_empty() && recording.settling.is_empty() {
        return Err(match recording.guests.first() {
            Some(guest) if !interrupt.came() => MeasureError::Ended(guest.label()),
            _ => MeasureError::Interrupted,
        });
    }
    let result = recording.result(&exits);
    match (&*result.guests, &*result.ended) {
        ([], [guest, ..]) => Err(MeasureError::Ended(guest.label())),
        _ => Ok(result),
    }
}

/// Reads windows one after the other.
struct Clock<'a> {
    sampler: Sampler,
    began: Instant,
    interrupt: &'a Interrupt,
    recording: Recording,
    last: Option<Snapshot>,
}

impl Clock<'_> {
    fn read(&mut self) -> Result<Snapshot, MeasureError> {
        let at = self.began.elapsed();
        self.sampler.snapshot(at).map_err(MeasureError::Read)
    }

    /// Waits until the guests have settled, `limit` at most.
    fn settle(
        &mut self,
        limit: Duration,
        on_progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<(), MeasureError> {
        let start = Instant::now();
        let window = WINDOW.min(limit / WINDOWS as u32);
        self.recording.how = Settling::Unsettled {
            after: limit.as_secs_f64(),
        };
        for end in (1..).map(|number| window * number) {
            self.say(Phase::Settling, start, Some(limit), on_progress);
            // A remainder would make a window that is shorter than those it is compared with.
            if end > limit || self.is_over() {
                break;
            }
            let window = self.window(start + end)?;
            self.recording.settling.extend(window);
            if self.recording.has_settled() {
                self.recording.how = Settling::Settled {
                    after: start.elapsed().as_secs_f64(),
                };
                break;
            }
        }
        Ok(())
    }

    /// Measures in windows of equal length.
    fn measure(
        &mut self,
        time: Option<Duration>,
        on_progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<(), MeasureError> {
        let start = Instant::now();
        let parts = time.map(|time| {
            let parts = (time.as_secs_f64() / WINDOW.as_secs_f64()).round();
            (parts as u32).max(1)
        });
        let length = match (time, parts) {
            (Some(time), Some(parts)) => time / parts,
            _ => WINDOW,
        };
        for number in 1..=parts.unwrap_or(u32::MAX) {
            self.say(Phase::Measuring, start, time, on_progress);
            if self.is_over() {
                break;
            }
            let window = self.window(start + length * number)?;
            self.recording.measured.extend(window);
        }
        self.say(Phase::Measuring, start, time, on_progress);
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.interrupt.came() || self.recording.has_ended()
    }

    fn say(
        &self,
        phase: Phase,
        start: Instant,
        limit: Option<Duration>,
        on_progress: &mut dyn FnMut(&Progress<'_>),
    ) {
        on_progress(&Progress {
            phase,
            elapsed: start.elapsed(),
            limit,
            recording: &self.recording,
        });
    }

    /// The window from the last snapshot to `end`; None if an interrupt leaves too little of it.
    fn window(&mut self, end: Instant) -> Result<Option<Window>, MeasureError> {
        let mut fds = [PollFd::new(self.interrupt, PollFlags::IN)];
        wait_for(&mut fds, Some(end)).map_err(MeasureError::Wait)?;
        let now = self.read()?;
        let Some(last) = self.last.replace(now) else {
            return Ok(None);
        };
        let now = self.last.as_ref();
        let window = now.and_then(|now| Window::between(&self.recording.guests, &last, now));
        let is_cut = self.interrupt.came();
        Ok(window.filter(|window| !is_cut || window.host.seconds >= SHORTEST.as_secs_f64()))
    }
}

//! Observation of one boot from the execution of QEMU to the end of the measurement.

mod input;

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use brisk_measure::Clock;
use brisk_sys::wait_for;
use brisk_vm::guest::{Decoder, Exit, GuestTimestamp};
use brisk_vm::qemu::debugger::Debugger;
use brisk_vm::qemu::qmp;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::failure_context::{Kept, with_last_words};
use super::observation::{Ended, Observation, Piece, SCRIPT, SENT, TimedEvent};
use super::ready_condition::{ReadyCondition, Scanner, Until};
use super::running_vm::{RunningVm, Source};
use crate::run::Milestone;
use brisk_host::interrupt::Interrupt;

/// Time for reading the rest of QEMU's output; a program around it may still write.
const REST: Duration = Duration::from_secs(1);
/// Most time for an event of a domain to arrive from QEMU, through libvirt and virsh: QEMU may have
/// ended before that.
const LATE: Duration = Duration::from_secs(5);
/// Name of the event of the ready condition.
pub(crate) const READY: &str = "ready";

/// One boot, with its end.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(crate) observation: Observation,
    pub(crate) ended: Ended,
}

/// Milestone and time limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) until: Until,
    pub(crate) timeout: Duration,
    /// Whether the guest's output is kept.
    pub(crate) keep: bool,
}

/// Observes a boot; the VM has ended afterwards. With a breakpoint the milestone is the kernel's
/// entry.
pub(crate) fn observe(
    machine: RunningVm,
    breakpoint: Option<u64>,
    executed: Instant,
    limits: Limits,
    interrupt: &Interrupt,
) -> io::Result<Pass> {
    let begun = machine.begun();
    let (scanner, qmp_event) = match machine.marker() {
        Some(ReadyCondition::Console(regex)) => (Some(Scanner::new(regex.clone())), None),
        Some(ReadyCondition::Qmp(event)) => (None, Some(event.clone())),
        _ => (None, None),
    };
    let mut watch = Watch {
        machine,
        executed,
        limits,
        scanner,
        qmp_event,
        debugger: breakpoint.map(Debugger::new),
        decoder: Decoder::new(),
        reader: qmp::Reader::default(),
        kept: Kept::default(),
        offset: None,
        observation: Observation {
            clock: Clock::HostMonotonic,
            console: Vec::new(),
            firmware: Vec::new(),
            moments: begun,
            qmp: Vec::new(),
            stamps: Vec::new(),
            guest_offset: None,
            cycles: None,
            entered: None,
            log: String::new(),
        },
    };
    let ended = watch.run(interrupt)?;
    Ok(watch.finish(ended, interrupt))
}

struct Watch {
    machine: RunningVm,
    executed: Instant,
    limits: Limits,
    scanner: Option<Scanner>,
    qmp_event: Option<String>,
    debugger: Option<Debugger>,
    decoder: Decoder,
    reader: qmp::Reader,
    kept: Kept,
    offset: Option<i64>,
    observation: Observation,
}

impl Watch {
    fn run(&mut self, interrupt: &Interrupt) -> io::Result<Ended> {
        self.machine.greet()?;
        if let Some(debugger) = &self.debugger {
            self.machine.send_to_debugger(&debugger.hello());
        }
        let deadline = self.executed.checked_add(self.limits.timeout);
        let mut open = Source::ALL.to_vec();
        loop {
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(Ended::TimedOut);
            }
            let (ready, signalled) = self.wait(&open, interrupt, deadline)?;
            if let Some(signal) = signalled.then(|| interrupt.signal()).flatten() {
                return Ok(Ended::Interrupted(signal));
            }
            if let Some(ended) = self.read_all(ready, &mut open)? {
                return Ok(ended);
            }
            if !open.contains(&self.machine.end_source()) {
                let last = self.read_rest(open, interrupt)?;
                return Ok(last.unwrap_or_else(|| self.gone()));
            }
        }
    }

    /// Reads the rest of QEMU's output when QEMU has ended: it may have a guest's last frame and
    /// the end of its console.
    fn read_rest(
        &mut self,
        mut open: Vec<Source>,
        interrupt: &Interrupt,
    ) -> io::Result<Option<Ended>> {
        let rest = if self.is_expecting() { LATE } else { REST };
        let deadline = Instant::now() + rest;
        while Instant::now() < deadline {
            let until = self.is_expecting().then_some(deadline);
            let until = until.unwrap_or_else(Instant::now);
            let (ready, signalled) = self.wait(&open, interrupt, Some(until))?;
            if let Some(signal) = signalled.then(|| interrupt.signal()).flatten() {
                return Ok(Some(Ended::Interrupted(signal)));
            }
            if ready.is_empty() && !signalled {
                break;
            }
            let ended = self.read_all(ready, &mut open)?;
            if ended.is_some() {
                return Ok(ended);
            }
        }
        Ok(None)
    }

    /// Whether libvirt may still report the event that is waited for.
    fn is_expecting(&self) -> bool {
        let wanted = self.qmp_event.is_some() && self.observation.moment(READY).is_none();
        wanted && matches!(self.machine, RunningVm::Domain(_))
    }

    /// Reads each source once; sources that have ended are closed.
    fn read_all(
        &mut self,
        ready: Vec<Source>,
        open: &mut Vec<Source>,
    ) -> io::Result<Option<Ended>> {
        for source in ready {
            let (more, ended) = self.read(source)?;
            if ended.is_some() {
                return Ok(ended);
            }
            if !more {
                open.retain(|known| *known != source);
            }
        }
        Ok(None)
    }

    /// Result of a boot whose QEMU ended before the milestone.
    fn gone(&self) -> Ended {
        let seen = |moment| self.observation.moment(moment).is_some();
        let missed = match (self.limits.until, &self.machine) {
            (Until::Exit, RunningVm::Guest(..)) => "the command did",
            (Until::Exit, RunningVm::Foreign(..)) if !seen(Milestone::QemuUp.name()) => {
                "it had a guest"
            }
            (Until::Exit, machine) if machine.marker().is_some() && !seen(READY) => "ready",
            (Until::Exit, _) => return Ended::Reached,
            (until, _) => until.name(),
        };
        Ended::Failed(format!("QEMU ended before {missed}"))
    }

    fn wait(
        &self,
        open: &[Source],
        interrupt: &Interrupt,
        deadline: Option<Instant>,
    ) -> io::Result<(Vec<Source>, bool)> {
        let sources: Vec<_> = open
            .iter()
            .filter_map(|source| Some((*source, self.machine.fd(*source)?)))
            .collect();
        let mut fds: Vec<_> = sources
            .iter()
            .map(|(_, fd)| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
            .collect();
        fds.push(PollFd::from_borrowed_fd(interrupt.as_fd(), PollFlags::IN));
        wait_for(&mut fds, deadline)?;
        let signalled = fds.pop().is_some_and(|fd| !fd.revents().is_empty());
        let ready = sources
            .iter()
            .zip(&fds)
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|((source, _), _)| *source)
            .collect();
        Ok((ready, signalled))
    }

    /// Reads the available bytes; whether more can come, and whether the boot is over.
    fn read(&mut self, source: Source) -> io::Result<(bool, Option<Ended>)> {
        if let RunningVm::Domain(domain) = &mut self.machine {
            match source {
                Source::Qmp => {
                    let Some(events) = domain.started.events()? else {
                        let reason = "virsh qemu-monitor-event ended".to_owned();
                        return Ok((false, Some(Ended::Failed(reason))));
                    };
                    return Ok((true, self.take_events(events)));
                }
                Source::Guest => {
                    let answered = domain.started.agent_answered()?;
                    let at = self.now();
                    return Ok((!answered, answered.then(|| self.ready(at)).flatten()));
                }
                Source::Process | Source::Debugger => return Ok((false, None)),
                Source::Console | Source::Firmware => {}
            }
        }
        let mut buffer = [0; 64 * 1024];
        let Some(fd) = self.machine.fd(source) else {
            return Ok((false, None));
        };
        let count = match rustix::io::read(fd, &mut buffer) {
            Ok(0) | Err(Errno::CONNRESET | Errno::IO) => return Ok((false, None)),
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok((true, None)),
            Err(error) => return Err(error.into()),
        };
        let at = self.now();
        let bytes = &buffer[..count];
        let ended = match (source, &self.machine) {
            (Source::Qmp, _) => self.take_qmp(at, bytes)?,
            (Source::Console, _) => self.take_console(at, bytes),
            (Source::Firmware, _) => {
                let text = self.kept.text(bytes);
                let piece = text.map(|text| Piece { at, text });
                self.observation.firmware.extend(piece);
                None
            }
            (Source::Guest, RunningVm::Guest(..)) => self.take_frames(bytes)?,
            (Source::Guest, _) => {
                let ready = self.machine.is_ready(bytes);
                ready.then(|| self.ready(at)).flatten()
            }
            (Source::Debugger, _) => self.take_debugger(bytes),
            (Source::Process, _) => None,
        };
        Ok((true, ended))
    }

    fn now(&self) -> u64 {
        self.executed.elapsed().as_nanos() as u64
    }

    fn moment(&mut self, at: u64, name: &str) {
        if self.observation.moment(name).is_none() {
            let name = name.to_owned();
            self.observation.moments.push(TimedEvent { at, name });
        }
    }

    fn reached(&self, until: Until) -> Option<Ended> {
        (self.limits.until == until).then_some(Ended::Reached)
    }

    fn ready(&mut self, at: u64) -> Option<Ended> {
        self.moment(at, READY);
        self.reached(Until::Ready)
    }

    fn command_ended(&self, exit: Exit) -> Ended {
        match exit {
            Exit::Status(0) => Ended::Reached,
            Exit::Status(status) => Ended::Failed(format!("the command exited with {status}")),
            Exit::Signal(signal) => Ended::Failed(format!("signal {signal} ended the command")),
        }
    }

    /// Records timestamps; the last one of a frame was taken as it was sent: see
    /// [`crate::run::Timing`].
    fn stamps(&mut self, stamps: &[(GuestTimestamp, u64)]) {
        let here = self.now() as i64;
        let mut latest = None;
        for (stamp, value) in stamps {
            if *stamp == GuestTimestamp::Cycles {
                self.observation.cycles = Some(*value);
                continue;
            }
            latest = latest.max(Some(*value as i64));
            let name = match stamp {
                GuestTimestamp::Config => Some(SCRIPT),
                GuestTimestamp::Exit => Some(SENT),
                stamp => Milestone::of_stamp(*stamp).map(Milestone::name),
            };
            if let Some(name) = name {
                self.observation.add_stamp(*value, name);
            }
        }
        if let Some(latest) = latest {
            let offset = here.saturating_sub(latest);
            self.offset = Some(self.offset.map_or(offset, |known| known.min(offset)));
        }
    }

    fn finish(self, ended: Ended, interrupt: &Interrupt) -> Pass {
        let Self {
            machine,
            executed,
            limits,
            offset,
            mut observation,
            ..
        } = self;
        let mut interrupted = None;
        let (crashed, stderr) = machine.end(&ended, limits.until, &mut || {
            interrupted = interrupted.or_else(|| interrupt.signal());
            interrupted.is_some()
        });
        let ended = match (ended, crashed, interrupted) {
            (_, _, Some(signal)) => Ended::Interrupted(signal),
            (Ended::Reached, Some(crash), None) => Ended::Failed(crash),
            (ended, ..) => ended,
        };
        observation.moments.push(TimedEvent {
            at: executed.elapsed().as_nanos() as u64,
            name: Milestone::QemuGone.name().to_owned(),
        });
        observation.guest_offset = offset;
        let ended = match ended {
            Ended::Failed(reason) => {
                Ended::Failed(with_last_words(reason, &stderr, &observation.console))
            }
            other => other,
        };
        if !limits.keep {
            observation.console.clear();
        }
        Pass { observation, ended }
    }
}

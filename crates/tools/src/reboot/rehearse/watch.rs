//! The watch over a VM that is rehearsing.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use brisk_sys::wait_for;
use brisk_vm::launch::Custom;
use brisk_vm::qemu::qmp::{self, Message};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::console::{Console, Ending, Stage};
use brisk_host::interrupt::Interrupt;

/// Time in which a kernel shows a sign of life, at most.
const SILENCE: Duration = Duration::from_secs(120);
/// Longest pause within what a VM writes at its end.
const PAUSE: Duration = Duration::from_millis(250);
/// How often progress is shown.
const TICK: Duration = Duration::from_secs(1);

/// End of a rehearsal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// By what its console says.
    Console(Ending),
    /// The machine reset itself.
    Reset,
    /// The machine powered off.
    PoweredOff,
    /// The time is over.
    TimedOut,
    /// QEMU ended by itself.
    Gone,
    /// Somebody wants an end.
    Interrupted(i32),
}

/// A VM that is watched.
pub(super) struct Watch<'a> {
    pub(super) vm: &'a mut Custom,
    pub(super) console: &'a mut Console,
    pub(super) started: Instant,
    /// Time from the start to the end at most.
    pub(super) limit: Duration,
    pub(super) interrupt: &'a Interrupt,
}

impl Watch<'_> {
    /// Waits for the end.
    pub(super) fn run(&mut self, step: &mut dyn FnMut(Stage, Duration)) -> io::Result<End> {
        let mut reader = qmp::Reader::default();
        // QEMU reports nothing before this.
        (&self.vm.qmp).write_all(&qmp::command("qmp_capabilities"))?;
        loop {
            let now = self.started.elapsed();
            if let Some(ending) = self.console.ended(now) {
                if ending != Ending::Reached {
                    self.read_on()?;
                }
                return Ok(End::Console(self.console.ended(now).unwrap_or(ending)));
            }
            step(self.console.stage, now);
            let is_silent = self.console.stage == Stage::Nothing && now >= SILENCE;
            if is_silent || now >= self.limit {
                return Ok(End::TimedOut);
            }
            let ready = self.wait(now)?;
            if let (true, Some(signal)) = (ready.interrupt, self.interrupt.signal()) {
                return Ok(End::Interrupted(signal));
            }
            if ready.console {
                self.read_console()?;
            }
            let event = if ready.qmp {
                self.event(&mut reader)?
            } else {
                None
            };
            if ready.process || event.is_some() {
                // The last words may say more.
                self.read_rest()?;
                if let Some(ending) = self.console.ended(Duration::ZERO) {
                    return Ok(End::Console(ending));
                }
                return Ok(event.or(self.event(&mut reader)?).unwrap_or(End::Gone));
            }
        }
    }

    fn wait(&self, now: Duration) -> io::Result<Ready> {
        let next = self.console.deadline().unwrap_or(Duration::MAX);
        let wake = next.max(now).min(now + TICK).min(self.limit);
        let [qmp, console, process, interrupt] = [
            self.vm.qmp.as_fd(),
            self.vm.console.as_fd(),
            self.vm.process(),
            self.interrupt.as_fd(),
        ];
        let mut fds = [qmp, console, process, interrupt]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        wait_for(&mut fds, Some(self.started + wake))?;
        let [qmp, console, process, interrupt] = fds.map(|fd| !fd.revents().is_empty());
        Ok(Ready {
            qmp,
            console,
            process,
            interrupt,
        })
    }

    /// Reads what is there; whether there may be more.
    fn read_console(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 64 * 1024];
        match rustix::io::read(&self.vm.console, &mut buffer) {
            Ok(0) | Err(Errno::AGAIN | Errno::INTR | Errno::CONNRESET) => Ok(false),
            Ok(count) => {
                let at = self.started.elapsed();
                self.console.push(&buffer[..count], at);
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads until nothing came for a moment: an end is seen before its line is whole.
    fn read_on(&mut self) -> io::Result<()> {
        let end = Instant::now() + TICK;
        while Instant::now() < end {
            let fd = PollFd::from_borrowed_fd(self.vm.console.as_fd(), PollFlags::IN);
            let count = wait_for(&mut [fd], Some(Instant::now() + PAUSE))?;
            if count == 0 || !self.read_console()? {
                break;
            }
        }
        Ok(())
    }

    /// Reads what is left; a VM that is about to end writes little.
    fn read_rest(&mut self) -> io::Result<()> {
        let most = 1024;
        for _ in 0..most {
            if !self.read_console()? {
                break;
            }
        }
        Ok(())
    }

    /// What QEMU reports: an end, or nothing that matters.
    fn event(&self, reader: &mut qmp::Reader) -> io::Result<Option<End>> {
        let mut buffer = [0; 16 * 1024];
        let count = match rustix::io::read(&self.vm.qmp, &mut buffer) {
            Ok(count) => count,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNRESET) => 0,
            Err(error) => return Err(error.into()),
        };
        let messages = reader.push(&buffer[..count]).map_err(io::Error::other)?;
        let mut ends = messages.into_iter().filter_map(|message| match message {
            Message::Event { name, data } if name == "SHUTDOWN" => {
                Some(match data["reason"].as_str() {
                    Some("guest-shutdown") => End::PoweredOff,
                    Some(reason) if reason.starts_with("guest") => End::Reset,
                    _ => End::Gone,
                })
            }
            _ => None,
        });
        Ok(ends.next())
    }
}

/// What there is something of.
#[derive(Debug, Clone, Copy)]
struct Ready {
    qmp: bool,
    console: bool,
    process: bool,
    interrupt: bool,
}

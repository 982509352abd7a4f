//! One boot of a domain.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use brisk_sys::wait_for;
use rustix::event::{PollFd, PollFlags};

use super::console::Console;
use super::definition::console_path;
use super::domain::Domain;
use super::event::{Event, Lines, agent_connected};
use super::process::{Process, since_boot};
use super::shell::Shell;
use super::virsh::Error;

/// Time limit of libvirt, which usually answers in milliseconds; starting and destroying take
/// longer.
const ANSWER: Duration = Duration::from_secs(60);
/// Interval at which changes without a notification are noticed.
const GLANCE: Duration = Duration::from_millis(20);

/// Ways to end a boot after the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The guest is asked to shut down; if it does not in time, its power is cut.
    Shutdown,
    /// The power is cut.
    Destroy,
}

/// Reason why a domain is shut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Off {
    /// The guest or a user shut it down.
    Orderly,
    /// QEMU ended without a reason.
    Crashed,
}

/// Channels that are watched besides QEMU's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The console; none where the domain has none.
    pub console: bool,
    /// Whether the guest agent answers.
    pub agent: bool,
}

/// A domain that boots. It is shut off when this is dropped.
#[derive(Debug)]
pub struct Started {
    domain: Domain,
    shell: Shell,
    events: Reporter,
    agent: Option<Agent>,
    console: Option<Console>,
    /// `None` until the process was found after libvirt's answer.
    process: Option<Process>,
    /// Events that came before the first call of [`Started::events`].
    early: Vec<Event>,
    /// Time at which libvirt was asked to start the domain, moved by the time that the guest waited
    /// for brisk, so that the time since then is that of the boot.
    pub asked: Instant,
    /// Start of the QEMU process, since libvirt was asked; up to 10 ms too early.
    pub process_began: Duration,
    /// Time at which libvirt had started the domain and the domain waited for brisk.
    pub prepared: Duration,
    /// Time that the domain waited for brisk to open its console. Not part of any time.
    pub waited: Duration,
    /// Offset of the system's clock, which QEMU's events use.
    epoch: SystemTime,
}

/// A `virsh` process that reports events.
#[derive(Debug)]
struct Reporter {
    child: Child,
    output: Option<ChildStdout>,
    lines: Lines,
}

/// Waits for the guest agent, then sends it a ping.
#[derive(Debug)]
struct Agent {
    lifecycle: Reporter,
    ping: Option<Reporter>,
}

impl Domain {
    /// Starts the domain, with its virtual CPUs stopped until its console is open.
    ///
    /// # Errors
    /// If libvirt refuses, or a channel cannot be watched.
    pub fn start(
        &self,
        wanted: Wanted,
        stopped: &mut dyn FnMut() -> bool,
    ) -> Result<Started, Error> {
        let watch = |what| move |source| Error::Watch { what, source };
        let mut shell = Shell::open(&self.virsh)?;
        let report = |words: &[&str]| Reporter::start(self, words);
        let uuid = &*self.uuid;
        let events = report(&["qemu-monitor-event", "--loop", "--domain", uuid])
            .map_err(watch("have virsh report events"))?;
        let lifecycle = [
            "event",
            "--loop",
            "--event",
            "agent-lifecycle",
            "--domain",
            uuid,
        ];
        let agent = wanted.agent.then(|| report(&lifecycle)).transpose();
        let agent = agent.map_err(watch("have virsh report events"))?;
        let asked = Instant::now();
        let asked_since_boot = since_boot();
        // What libvirt has begun it does: an interruption takes effect when it is done.
        shell.call(
            &format!("start {uuid} --paused --autodestroy"),
            ANSWER,
            &mut || false,
        )?;
        let prepared = asked.elapsed();
        let mut started = Started {
            domain: self.clone(),
            shell,
            events,
            agent: agent.map(|lifecycle| Agent {
                lifecycle,
                ping: None,
            }),
            console: None,
            process: None,
            early: Vec::new(),
            asked,
            process_began: Duration::ZERO,
            prepared,
            waited: Duration::ZERO,
            epoch: SystemTime::now() - asked.elapsed(),
        };
        let process = Process::of_domain(uuid).map_err(watch("find its QEMU"))?;
        started.process_began = process.started.saturating_sub(asked_since_boot);
        started.process = Some(process);
        if wanted.console {
            let xml = self.virsh.call(&["dumpxml", "--domain", uuid])?;
            let path = console_path(&xml).map_err(|source| Error::Definition {
                name: self.definition.name.clone(),
                source,
            })?;
            started.console = path
                .map(|path| Console::open(&path, &self.virsh, uuid))
                .transpose()
                .map_err(watch("open its console"))?;
        }
        started.resume(stopped)?;
        Ok(started)
    }
}

impl Started {
    /// Runs the virtual CPUs, and leaves the time that they waited for brisk out of all times.
    fn resume(&mut self, stopped: &mut dyn FnMut() -> bool) -> Result<(), Error> {
        let asked = self.asked.elapsed();
        self.command("resume")?;
        let at = self.until_resumed(stopped)?;
        // The clock may have been set meanwhile; then the time of our asking must do.
        let possible = asked..=self.asked.elapsed();
        let at = if possible.contains(&at) { at } else { asked };
        self.waited = at.saturating_sub(self.prepared);
        self.asked += self.waited;
        self.epoch += self.waited;
        Ok(())
    }

    /// Waits for the event that the guest runs.
    fn until_resumed(&mut self, stopped: &mut dyn FnMut() -> bool) -> Result<Duration, Error> {
        let watch = |source| Error::Watch {
            what: "have virsh report events (virsh qemu-monitor-event)",
            source,
        };
        let deadline = Instant::now() + ANSWER;
        loop {
            let more = self.events.read(&mut self.early).map_err(watch)?;
            if let Some(event) = self.early.iter().find(|event| event.name == "RESUME") {
                return Ok(event.at(self.epoch));
            }
            if !more {
                return Err(watch(io::ErrorKind::UnexpectedEof.into()));
            }
            if Instant::now() >= deadline {
                return Err(watch(io::ErrorKind::TimedOut.into()));
            }
            if stopped() {
                return Err(Error::Interrupted);
            }
            wait(self.events.fd(), GLANCE);
        }
    }

    /// Descriptor that is readable when QEMU has reported events: see [`Started::events`].
    #[must_use]
    pub fn events_fd(&self) -> Option<BorrowedFd<'_>> {
        self.events.fd()
    }

    /// Descriptor of the console, not blocking.
    #[must_use]
    pub fn console_fd(&self) -> Option<BorrowedFd<'_>> {
        self.console.as_ref().map(Console::fd)
    }

    /// Descriptor that is readable when QEMU's process has ended.
    #[must_use]
    pub fn process_fd(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().map(|process| process.fd.as_fd())
    }

    /// Descriptor that is readable when the agent may have answered: see
    /// [`Started::agent_answered`].
    #[must_use]
    pub fn agent_fd(&self) -> Option<BorrowedFd<'_>> {
        let agent = self.agent.as_ref()?;
        agent.ping.as_ref().unwrap_or(&agent.lifecycle).fd()
    }

    /// Events that QEMU has reported since the last call, with QEMU's times since libvirt was
    /// asked. `None` if no more will be reported.
    ///
    /// # Errors
    /// If the pipe fails.
    pub fn events(&mut self) -> io::Result<Option<Vec<(Duration, Event)>>> {
        let mut events = std::mem::take(&mut self.early);
        let more = self.events.read(&mut events)?;
        let latest = self.asked.elapsed();
        let events = events.into_iter().map(|event| {
            let at = event.at(self.epoch).min(latest);
            (at, event)
        });
        let events: Vec<_> = events.collect();
        Ok((more || !events.is_empty()).then_some(events))
    }

    /// Whether the guest agent has answered. libvirt does the synchronisation of its protocol.
    ///
    /// # Errors
    /// If the pipe fails.
    pub fn agent_answered(&mut self) -> io::Result<bool> {
        let Some(agent) = &mut self.agent else {
            return Ok(false);
        };
        if let Some(ping) = &mut agent.ping {
            let mut lines = Vec::new();
            let more = ping.lines(&mut lines)?;
            if lines.iter().any(|line| line.contains("\"return\"")) {
                return Ok(true);
            }
            if !more {
                // It did not answer this time; libvirt reports when it is there again.
                agent.ping = None;
            }
            return Ok(false);
        }
        let mut lines = Vec::new();
        agent.lifecycle.lines(&mut lines)?;
        if lines.iter().any(|line| agent_connected(line)) {
            let ping = r#"{"execute":"guest-ping"}"#;
            let words = ["qemu-agent-command", "--domain", &*self.domain.uuid, ping];
            agent.ping = Some(Reporter::start(&self.domain, &words)?);
        }
        Ok(false)
    }

    /// Ends the boot; the domain is shut off afterwards.
    ///
    /// # Errors
    /// If libvirt does not shut it off; it is destroyed at the latest when brisk ends.
    pub fn end(
        mut self,
        stop: Stop,
        patience: Duration,
        stopped: &mut dyn FnMut() -> bool,
    ) -> Result<Off, Error> {
        if stop == Stop::Shutdown && !self.has_ended() {
            // A guest that cannot is cut off below.
            let _ = self.command("shutdown");
            let deadline = Instant::now() + patience;
            while !self.has_ended()
                && self.is_off().is_none()
                && Instant::now() < deadline
                && !stopped()
            {
                wait(self.process_fd(), GLANCE);
            }
        }
        self.off()
    }

    fn has_ended(&self) -> bool {
        wait(self.process_fd(), Duration::ZERO)
    }

    fn command(&mut self, command: &str) -> Result<String, Error> {
        let line = format!("{command} {}", self.domain.uuid);
        self.shell.call(&line, ANSWER, &mut || false)
    }

    fn is_off(&mut self) -> Option<Off> {
        let state = self.command("domstate --reason").ok()?;
        match state.strip_prefix("shut off")?.trim() {
            "(crashed)" => Some(Off::Crashed),
            _ => Some(Off::Orderly),
        }
    }

    /// Cuts the power and waits until libvirt reports the domain as shut off.
    fn off(&mut self) -> Result<Off, Error> {
        let deadline = Instant::now() + ANSWER;
        // One whose QEMU has ended needs only libvirt's own work.
        let mut result = if self.has_ended() {
            Ok(String::new())
        } else {
            self.command("destroy")
        };
        loop {
            if let Some(off) = self.is_off() {
                return Ok(off);
            }
            // What was refused will not happen.
            result?;
            if Instant::now() >= deadline {
                return Err(Error::TimedOut("destroy".into()));
            }
            result = self.command("domstate");
            wait(None, GLANCE);
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Nothing more can be done: libvirt destroys it when the shell is gone.
        let _ = self.off();
    }
}

impl Event {
    fn at(&self, epoch: SystemTime) -> Duration {
        let at = UNIX_EPOCH + Duration::from_micros(self.micros);
        at.duration_since(epoch).unwrap_or_default()
    }
}

impl Reporter {
    fn start(domain: &Domain, words: &[&str]) -> io::Result<Self> {
        let mut command = domain.virsh.command(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn()?;
        let output = child.stdout.take();
        let reporter = Self {
            child,
            output,
            lines: Lines::default(),
        };
        if let Some(fd) = &reporter.output {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
        Ok(reporter)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.output.as_ref().map(AsFd::as_fd)
    }

    /// Reads the available lines; whether more can come.
    fn lines(&mut self, into: &mut Vec<String>) -> io::Result<bool> {
        let Some(output) = &mut self.output else {
            return Ok(false);
        };
        let mut bytes = Vec::new();
        let more = match output.read_to_end(&mut bytes) {
            Ok(_) => false,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
            Err(error) => return Err(error),
        };
        into.extend(self.lines.push(&bytes));
        if !more {
            self.output = None;
        }
        Ok(more)
    }

    fn read(&mut self, into: &mut Vec<Event>) -> io::Result<bool> {
        let mut lines = Vec::new();
        let more = self.lines(&mut lines)?;
        into.extend(lines.iter().filter_map(|line| Event::parse(line)));
        Ok(more)
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        crate::launch::end(&mut self.child);
    }
}

/// Waits for something to read until the time is over; whether there is something.
fn wait(fd: Option<BorrowedFd<'_>>, patience: Duration) -> bool {
    let mut fds: Vec<_> = fd
        .into_iter()
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    wait_for(&mut fds, Some(Instant::now() + patience)).is_ok_and(|count| count > 0)
}

//! Loop over the guest's channels and brisk's own streams.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use brisk_sys::wait_for;
use brisk_vm::guest::{Decoder, Event, Kind, Step, config_frames, encode, frame};
use brisk_vm::launch::Running;
use brisk_vm::qemu::qmp;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::ending::{Ending, Interrupted};
use super::outbox::{Outbox, STDIN_CHUNK};
use super::peer::{Peer, Script, UNANSWERED, gone, retry};
use super::pretranslation_recorder::Recorder;
use super::streams::{self, Cut, Display, LateTerminal, Output, Terminal};
use super::timing::{Milestone, Timing};
use crate::guest::console::Console;
use crate::guest::error::Error;
use crate::guest::identity::with_identity;
use brisk_host::interrupt::{Signals, is_termination};

/// Most bytes that are read from a console at once: a guest can write faster than anything else is
/// looked at.
const CONSOLE_AT_ONCE: usize = 1 << 20;
/// `SIGPIPE`, for a command whose reader has gone away.
const SIGPIPE: i32 = 13;
const SIGWINCH: i32 = 28;

/// A session that runs.
pub(super) struct Pump {
    pub(super) peer: Peer,
    timing: Timing,
    pub(super) recorder: Option<Recorder>,
    raw: bool,
    pub(super) late: LateTerminal,
    decoder: Decoder,
    pub(super) qmp: qmp::Reader,
    console: Console,
    stdout: Output,
    stderr: Output,
    outbox: Outbox,
    on_resume: Option<Vec<Step>>,
    greeted: Option<Vec<u8>>,
    silence: Option<Instant>,
    stdin_open: bool,
    started: bool,
    paused: bool,
    warms_up: bool,
    signals: Signals,
    interrupted: u32,
}

/// Events of the poll set, in its order.
struct Ready {
    guest: PollFlags,
    qmp: PollFlags,
    console: PollFlags,
    signals: PollFlags,
    stdin: PollFlags,
    stdout: PollFlags,
    stderr: PollFlags,
}

impl Pump {
    pub(super) fn new(
        peer: Peer,
        timing: Timing,
        signals: Signals,
        script: Script,
        recorder: Option<Recorder>,
        display: Display,
    ) -> Self {
        let mut greeted = None;
        let (outbox, on_resume) = match script {
            // The code is read before any other program can run in the guest.
            Script::Now(frames) if matches!(recorder, Some(Recorder::Boot(_))) => {
                greeted = Some(frames);
                (Vec::new(), None)
            }
            Script::Now(frames) => (frames, None),
            Script::Resumed(steps) => (Vec::new(), Some(steps)),
            Script::Greeted(frames) => {
                greeted = Some(frames);
                (frame(Kind::Hail, &[]), None)
            }
        };
        Self {
            silence: peer.patience(),
            peer,
            timing,
            recorder,
            raw: display.raw,
            late: LateTerminal::None,
            decoder: Decoder::new(),
            qmp: qmp::Reader::default(),
            console: Console::new(display.console),
            stdout: Output::new(rustix::stdio::stdout()),
            stderr: Output::new(rustix::stdio::stderr()),
            outbox: Outbox::new(outbox),
            on_resume,
            greeted,
            stdin_open: true,
            started: false,
            paused: false,
            warms_up: false,
            signals,
            interrupted: 0,
        }
    }

    /// Marks commands before a pause as a warm-up, whose end is not the session's.
    pub(super) const fn warm_up(&mut self) {
        self.warms_up = true;
    }

    /// Runs until the session ends, or the guest waits at a pause of its script (`None`).
    pub(super) fn run(&mut self, deadline: Option<Instant>) -> Result<Option<Ending>, Error> {
        while !self.paused {
            let until = self.recorder.as_ref().and_then(Recorder::until);
            let soonest = [deadline, until, self.silence].into_iter().flatten().min();
            let Some(ready) = self.wait(soonest).map_err(Error::Session)? else {
                if self.silence.take_if(|at| *at <= Instant::now()).is_some() {
                    self.stderr.push(UNANSWERED);
                    continue;
                }
                if self.ends_recording() {
                    continue;
                }
                let console = self.console.tail();
                return Ok(Some(Ending::TimedOut {
                    started: self.started,
                    console,
                }));
            };
            if let Some(ending) = self.step(&ready).map_err(Error::Session)? {
                return Ok(Some(ending));
            }
        }
        Ok(None)
    }

    /// Waits for a time beside a guest at a pause of its script; its ending if it ends meanwhile.
    pub(super) fn rest(&mut self, time: Duration) -> Result<Option<Ending>, Error> {
        let end = Instant::now().checked_add(time);
        while let Some(ready) = self.wait(end).map_err(Error::Session)? {
            if let Some(ending) = self.step(&ready).map_err(Error::Session)? {
                return Ok(Some(ending));
            }
        }
        Ok(None)
    }

    /// Waits for events; `None`: the deadline has passed.
    fn wait(&mut self, deadline: Option<Instant>) -> io::Result<Option<Ready>> {
        let stdin = rustix::stdio::stdin();
        let want_stdin = self.started && self.stdin_open && self.outbox.room() > 0;
        let when = |condition: bool, flags| if condition { flags } else { PollFlags::empty() };
        let full = self.stdout.is_full() || self.stderr.is_full();
        let machine = self.peer.machine();
        let mut interest = vec![
            (
                self.peer.guest().as_fd(),
                when(!full, PollFlags::IN) | when(!self.outbox.is_empty(), PollFlags::OUT),
            ),
            (self.signals.as_fd(), PollFlags::IN),
        ];
        if let Some(machine) = machine {
            interest.push((machine.qmp.as_fd(), PollFlags::IN));
            let wanted = self.console.wants_more(self.stderr.is_full());
            interest.push((machine.console.as_fd(), when(wanted, PollFlags::IN)));
        }
        let own = machine.is_some();
        // Descriptors that are not waited for are left out: a hang-up would wake us for nothing.
        let optional: [(bool, BorrowedFd<'_>, PollFlags); 3] = [
            (want_stdin, stdin, PollFlags::IN),
            (!self.stdout.is_empty(), self.stdout.fd(), PollFlags::OUT),
            (!self.stderr.is_empty(), self.stderr.fd(), PollFlags::OUT),
        ];
        interest.extend(
            optional
                .iter()
                .filter(|(on, ..)| *on)
                .map(|(_, fd, flags)| (*fd, *flags)),
        );
        let mut fds: Vec<_> = interest
            .iter()
            .map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags))
            .collect();
        if deadline.is_some_and(|deadline| deadline < Instant::now()) {
            return Ok(None);
        }
        wait_for(&mut fds, deadline)?;
        let mut results = fds.iter().map(PollFd::revents);
        let mut take = |on: bool| {
            if on {
                results.next().unwrap_or(PollFlags::empty())
            } else {
                PollFlags::empty()
            }
        };
        Ok(Some(Ready {
            guest: take(true),
            signals: take(true),
            qmp: take(own),
            console: take(own),
            stdin: take(optional[0].0),
            stdout: take(optional[1].0),
            stderr: take(optional[2].0),
        }))
    }

    fn step(&mut self, ready: &Ready) -> io::Result<Option<Ending>> {
        if !ready.signals.is_empty() {
            if let Some(ending) = self.take_signals() {
                return Ok(Some(ending));
            }
        }
        if !ready.stdout.is_empty() && !self.stdout.write()? {
            self.outbox.send(Kind::Signal, &SIGPIPE.to_le_bytes());
        }
        if !ready.stderr.is_empty() {
            self.stderr.write()?;
        }
        // QEMU greets before there is a kernel.
        if !ready.qmp.is_empty() {
            if let Some(ending) = self.read_qmp()? {
                return Ok(Some(ending));
            }
        }
        if !ready.console.is_empty() {
            self.read_console(false);
            if self.console.halted() {
                return self.qemu_ended().map(Some);
            }
        }
        if !ready.stdin.is_empty() {
            self.read_stdin()?;
        }
        self.flush()?;
        if ready
            .guest
            .intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR)
        {
            return self.read_guest();
        }
        if !ready.qmp.is_empty() {
            let ended = self
                .peer
                .machine_mut()
                .map(Running::has_ended)
                .transpose()?;
            if ended == Some(true) {
                return self.qemu_ended().map(Some);
            }
        }
        Ok(None)
    }

    fn read_guest(&mut self) -> io::Result<Option<Ending>> {
        let mut buffer = [0; 64 * 1024];
        match self.peer.guest().read(&mut buffer) {
            Ok(0) => return self.qemu_ended().map(Some),
            Ok(count) => self.decoder.push(&buffer[..count]),
            Err(error) if retry(&error) => return Ok(None),
            Err(error) if gone(&error) => return self.qemu_ended().map(Some),
            Err(error) => return Err(error),
        }
        while let Some(event) = self.decoder.next_event().map_err(io::Error::other)? {
            if let Some(ending) = self.take_event(event) {
                return Ok(Some(ending));
            }
        }
        Ok(None)
    }

    fn take_event(&mut self, event: Event) -> Option<Ending> {
        match event {
            Event::Hello(stamps) => {
                self.timing.stamps(&stamps);
                // Once the command runs it may be the command that says so.
                if let (Some(Recorder::Boot(boot)), false) = (&mut self.recorder, self.started) {
                    boot.booted();
                }
                self.silence = None;
                self.late.take();
                self.outbox.push(&self.greeted.take().unwrap_or_default());
            }
            Event::Started(stamps) => {
                self.timing.stamps(&stamps);
                if !std::mem::replace(&mut self.started, true) {
                    self.end_boot_trace();
                }
            }
            // Only brisk boot asks for it.
            Event::Log(_) => {}
            Event::Paused => self.paused = true,
            Event::Stdout(bytes) => self.stdout.push(&bytes),
            Event::Stderr(bytes) => self.stderr.push(&bytes),
            Event::Credit(count) => self.outbox.grant(count),
            Event::Exit(..) if self.warms_up => {}
            Event::Exit(exit, stamps) => {
                self.timing.stamps(&stamps);
                self.timing.now(Milestone::Exit);
                return Some(Ending::Command(exit));
            }
            Event::Failure {
                stage,
                errno,
                subject,
            } => {
                self.read_console(true);
                let console = self.console.tail();
                return Some(Ending::Guest {
                    stage,
                    errno,
                    subject,
                    console,
                });
            }
        }
        None
    }

    /// Whether the end of the recording was due, and not the deadline.
    fn ends_recording(&mut self) -> bool {
        let enough = self.recorder.as_mut().and_then(Recorder::enough);
        if let (Some(command), Some(machine)) = (&enough, self.peer.machine_mut()) {
            let _ = machine.qmp.write_all(command);
        }
        enough.is_some()
    }

    /// Ends the recording of the boot.
    fn end_boot_trace(&mut self) {
        let machine = self.peer.machine_mut();
        if let (Some(Recorder::Boot(boot)), Some(machine)) = (&mut self.recorder, machine) {
            // A QEMU that is gone traces nothing more.
            let _ = machine.qmp.write_all(&boot.started());
        }
    }

    /// Reads from the console; of a guest that ends all bytes, which its socket holds.
    fn read_console(&mut self, all: bool) {
        let mut buffer = [0; 16 * 1024];
        let Some(machine) = self.peer.machine_mut() else {
            return;
        };
        let mut total = 0;
        while total < CONSOLE_AT_ONCE && (all || self.console.wants_more(self.stderr.is_full())) {
            let Ok(count @ 1..) = machine.console.read(&mut buffer) else {
                break;
            };
            total += count;
            self.timing.now(Milestone::Kernel);
            let shown = self.console.push(&buffer[..count]);
            self.stderr.push(shown.as_bytes());
        }
    }

    fn read_qmp(&mut self) -> io::Result<Option<Ending>> {
        let mut buffer = [0; 16 * 1024];
        loop {
            let read = self
                .peer
                .machine_mut()
                .map(|machine| machine.qmp.read(&mut buffer));
            let Some(Ok(count @ 1..)) = read else {
                return Ok(None);
            };
            for message in self.qmp.push(&buffer[..count]).map_err(io::Error::other)? {
                match message {
                    qmp::Message::Greeting => self.timing.now(Milestone::QemuUp),
                    qmp::Message::Event { name, .. } if name == "RESUME" => self.resumed()?,
                    qmp::Message::Error(stderr) => {
                        self.read_console(true);
                        let console = self.console.tail();
                        return Ok(Some(Ending::QemuEnded { stderr, console }));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Sends a restored guest the time, its new identity, and its command.
    fn resumed(&mut self) -> io::Result<()> {
        let Some(command) = self.on_resume.take() else {
            return Ok(());
        };
        self.timing.now(Milestone::Resumed);
        let script = encode(&with_identity(command)?).map_err(io::Error::from)?;
        self.outbox.push(&config_frames(&script));
        self.flush()
    }

    fn read_stdin(&mut self) -> io::Result<()> {
        let mut buffer = [0; STDIN_CHUNK];
        // A signal may have filled it since it was asked whether there is input.
        let limit = self.outbox.room();
        if limit == 0 {
            return Ok(());
        }
        match rustix::io::read(rustix::stdio::stdin(), &mut buffer[..limit]) {
            Ok(0) | Err(Errno::BADF | Errno::IO) => {
                self.stdin_open = false;
                self.outbox.send(Kind::StdinEnd, &[]);
            }
            Ok(count) => self.outbox.send_stdin(&buffer[..count]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn take_signals(&mut self) -> Option<Ending> {
        for signal in self.signals.pending() {
            if signal == SIGWINCH {
                if let Some((rows, columns)) = Terminal::window().filter(|_| self.raw) {
                    let [a, b] = rows.to_le_bytes();
                    let [c, d] = columns.to_le_bytes();
                    self.outbox.send(Kind::WindowSize, &[a, b, c, d]);
                }
                continue;
            }
            // The first goes to the command; whoever asks twice for an end means the guest.
            self.interrupted += u32::from(is_termination(signal));
            if !self.started || self.interrupted > 1 {
                return Some(Ending::Interrupted(Interrupted(signal)));
            }
            self.outbox.send(Kind::Signal, &signal.to_le_bytes());
        }
        None
    }

    fn flush(&mut self) -> io::Result<()> {
        self.outbox.flush(&mut self.peer.guest())
    }

    /// Ending of a QEMU that has ended or ends without an exit frame.
    fn qemu_ended(&mut self) -> io::Result<Ending> {
        self.read_console(true);
        let console = self.console.tail();
        if self.console.panicked() {
            return Ok(Ending::Panic { console });
        }
        Ok(Ending::QemuEnded {
            stderr: String::new(),
            console,
        })
    }

    /// Ends the VM, writes the rest of its output, and completes the ending.
    pub(super) fn finish(
        mut self,
        mut ending: Ending,
        deadline: Option<Instant>,
    ) -> Result<(Ending, Timing), Error> {
        let rest = self.peer.end();
        self.timing.now(Milestone::QemuGone);
        match &mut ending {
            Ending::QemuEnded { stderr, .. } => {
                stderr.push('\n');
                stderr.push_str(&rest);
            }
            // A virtiofsd that failed writes here why the guest waits for it.
            Ending::TimedOut { console, .. } | Ending::Guest { console, .. } => {
                console.push_str(&format!("\n{}", rest.trim()));
            }
            _ => {}
        }
        let deadline = match ending {
            // Whoever does not read was given time enough.
            Ending::TimedOut { .. } | Ending::Interrupted(_) => Some(Instant::now()),
            _ => deadline,
        };
        let outputs = [&mut self.stdout, &mut self.stderr];
        let cut = streams::finish(outputs, &mut self.signals, deadline).map_err(Error::Session)?;
        match (cut, &ending) {
            (None, _) | (_, Ending::TimedOut { .. } | Ending::Interrupted(_)) => {}
            (Some(Cut::Signal(signal)), _) => ending = Ending::Interrupted(Interrupted(signal)),
            (Some(Cut::Deadline), _) => {
                let console = String::new();
                ending = Ending::TimedOut {
                    started: true,
                    console,
                };
            }
        }
        Ok((ending, self.timing))
    }
}

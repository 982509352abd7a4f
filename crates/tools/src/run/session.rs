//! Sessions: a plan is started, and run to its end.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use brisk_vm::cache::Cache;
use brisk_vm::guest::{Step, config_frames};
use brisk_vm::launch::Running;
use brisk_vm::qemu::{loading, qmp};

use super::ending::Ending;
use super::peer::{Peer, Script, gone};
use super::pretranslation_recorder::Recorder;
use super::pump::Pump;
use super::streams::{Display, LateTerminal, Terminal};
use super::timing::{Milestone, Timing};
use crate::guest::error::Error;
use crate::guest::facts::Facts;
use crate::guest::identity::with_identity;
use crate::guest::plan::{Plan, encoded};
use crate::guest::serve;
use brisk_host::interrupt::Signals;

/// A running VM.
#[derive(Debug)]
pub struct Session {
    peer: Peer,
    timing: Timing,
    terminal: Option<Terminal>,
    /// Whether the terminal is the command's only when the guest has answered.
    late_terminal: bool,
    signals: Signals,
    script: Script,
    recorder: Option<Recorder>,
}

/// Progress of a session.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The guest waits for the rest of its script.
    Paused(Box<Paused>),
    /// The session has ended.
    Ended(Ending),
}

/// A guest at a pause of its script.
#[derive(Debug)]
pub(crate) struct Paused {
    /// The VM.
    pub(crate) running: Running,
    /// Reader of its control channel.
    pub(crate) qmp: qmp::Reader,
}

impl Session {
    /// Builds the initramfs if it is missing, starts the daemons and the VM.
    ///
    /// # Errors
    /// If any of that fails; nothing is left running then.
    pub fn start(
        mut plan: Plan,
        facts: &Facts,
        cache: &Cache,
        mut timing: Timing,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, Error> {
        plan.pack(cache, progress)?;
        let script = if plan.machine.state.is_some() {
            Script::Resumed(plan.steps())
        } else {
            Script::Now(config_frames(&encoded(&plan.steps())?))
        };
        // From here on there is something to end and a terminal to put back.
        let signals = Signals::new().map_err(Error::Session)?;
        let served = serve(&plan, facts)?;
        progress("");
        timing.now(Milestone::Exec);
        let mut running = Running::start(&plan.machine, served, plan.unprivileged)?;
        running.has_memory().map_err(Error::Session)?;
        let tb_trace = running.tb_trace();
        let recorder =
            tb_trace.and_then(|tb_trace| Recorder::new(tb_trace, &plan.machine, facts, cache));
        let mut commands = qmp::command("qmp_capabilities");
        for (command, arguments) in plan.machine.state.iter().flat_map(loading) {
            commands.extend(qmp::command_with(command, &arguments));
        }
        match running.qmp.write_all(&commands) {
            // QEMU is gone already; the loop finds out how.
            Err(error) if !gone(&error) => return Err(Error::Session(error)),
            _ => {}
        }
        Ok(Self {
            peer: Peer::Machine(Box::new(running)),
            timing,
            terminal: terminal(plan.terminal)?,
            late_terminal: false,
            signals,
            script,
            recorder,
        })
    }

    /// A session for the command of a plan, in a guest that was prepared.
    ///
    /// # Errors
    /// As [`Session::start`].
    pub fn with(running: Running, plan: &Plan, mut timing: Timing) -> Result<Self, Error> {
        timing.now(Milestone::Taken);
        let steps = with_identity(plan.steps()).map_err(Error::Session)?;
        let script = Script::Now(config_frames(&encoded(&steps)?));
        let signals = Signals::new().map_err(Error::Session)?;
        Ok(Self {
            peer: Peer::Machine(Box::new(running)),
            timing,
            terminal: terminal(plan.terminal)?,
            late_terminal: false,
            signals,
            script,
            recorder: None,
        })
    }

    /// A session for a command at a port of a persistent VM.
    ///
    /// # Errors
    /// If a step cannot be written, or signals and terminal cannot be set up.
    pub fn at_port(port: UnixStream, steps: &[Step], on_terminal: bool) -> Result<Self, Error> {
        port.set_nonblocking(true).map_err(Error::Session)?;
        let script = Script::Greeted(config_frames(&encoded(steps)?));
        let signals = Signals::new().map_err(Error::Session)?;
        Ok(Self {
            peer: Peer::Port(port),
            timing: Timing::new(Instant::now()),
            terminal: None,
            late_terminal: on_terminal,
            signals,
            script,
            recorder: None,
        })
    }

    /// Runs the session to its end.
    ///
    /// # Errors
    /// If brisk's own streams fail, or the guest violates the protocol.
    pub fn run(
        self,
        timeout: Option<Duration>,
        show_console: bool,
    ) -> Result<(Ending, Timing), Error> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let (mut pump, terminal) = self.pump(show_console);
        let Some(ending) = pump.run(deadline)? else {
            return Err(Error::Session(io::Error::other(
                "the guest came to a pause that nobody asked for",
            )));
        };
        let terminal = match std::mem::replace(&mut pump.late, LateTerminal::None) {
            LateTerminal::Taken(terminal) => Some(terminal),
            _ => terminal,
        };
        if let Some(terminal) = &terminal {
            terminal.takes_keys();
        }
        let recorder = pump.recorder.take();
        let (ending, timing) = pump.finish(ending, deadline)?;
        // The terminal is the user's again before anything is written to it.
        drop(terminal);
        if let (Some(recorder), Ending::Command(_)) = (recorder, &ending) {
            recorder.keep();
        }
        Ok((ending, timing))
    }

    /// Runs the session until its script pauses, a warm-up before the pause included, and then
    /// waits for the time `rest`.
    pub(crate) fn run_to_pause(self, timeout: Duration, rest: Duration) -> Result<Stop, Error> {
        let deadline = Instant::now().checked_add(timeout);
        let (mut pump, terminal) = self.pump(false);
        pump.warm_up();
        let ending = match pump.run(deadline)? {
            None => pump.rest(rest)?,
            ending => ending,
        };
        drop(terminal);
        Ok(match ending {
            Some(ending) => Stop::Ended(pump.finish(ending, deadline)?.0),
            None => match pump.peer {
                Peer::Machine(running) => Stop::Paused(Box::new(Paused {
                    running: *running,
                    qmp: pump.qmp,
                })),
                Peer::Port(_) => unreachable!("a guest was started"),
            },
        })
    }

    fn pump(self, show_console: bool) -> (Pump, Option<Terminal>) {
        let display = Display {
            raw: self.terminal.is_some() || self.late_terminal,
            console: show_console,
        };
        let mut pump = Pump::new(
            self.peer,
            self.timing,
            self.signals,
            self.script,
            self.recorder,
            display,
        );
        if self.late_terminal {
            pump.late = LateTerminal::Wanted;
        }
        (pump, self.terminal)
    }
}

/// The terminal, if the command runs on one, in raw mode from then on.
fn terminal(wanted: bool) -> Result<Option<Terminal>, Error> {
    let terminal = wanted.then(Terminal::raw).transpose();
    terminal.map_err(Error::Session)
}

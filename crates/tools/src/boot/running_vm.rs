//! The booting VM: sources of its bytes, and its end.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use brisk_vm::guest::config_frames;
use brisk_vm::launch::{Foreign, Running};
use brisk_vm::libvirt::{Off, Started, Stop};
use brisk_vm::qemu::agent::Agent;
use brisk_vm::qemu::qmp;

use super::observation::Ended;
use super::observation::TimedEvent;
use super::ready_condition::{ReadyCondition, Until};
use crate::run::Milestone;

/// Name of the event at which libvirt was asked to start a domain.
pub(crate) const ASKED: &str = "libvirt asked";

/// Time for a QEMU that has closed its control channel to end.
const GOING: Duration = Duration::from_secs(1);

/// A VM that is observed.
#[derive(Debug)]
pub(crate) enum RunningVm {
    /// brisk's guest, with the script for its init (empty if init has it already).
    Guest(Box<Running>, Vec<u8>),
    /// A QEMU of the user's, with its ready condition.
    Foreign(Box<Foreign>, Option<ReadyCondition>, Agent),
    /// A domain of libvirt's.
    Domain(Box<Domain>),
}

/// A domain, its ready condition, and the way to end it.
#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) started: Started,
    pub(crate) marker: Option<ReadyCondition>,
    pub(crate) stop: Stop,
    /// Time limit of its shutdown.
    pub(crate) patience: Duration,
}

/// A source of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Qmp,
    Console,
    Firmware,
    Guest,
    Debugger,
    /// QEMU's process, where it is not brisk's child.
    Process,
}

impl Source {
    /// All sources, in the order of reading.
    pub(crate) const ALL: [Self; 6] = [
        Self::Qmp,
        Self::Console,
        Self::Firmware,
        Self::Guest,
        Self::Debugger,
        Self::Process,
    ];
}

impl RunningVm {
    pub(crate) fn marker(&self) -> Option<&ReadyCondition> {
        match self {
            Self::Guest(..) => None,
            Self::Foreign(_, marker, _) => marker.as_ref(),
            Self::Domain(domain) => domain.marker.as_ref(),
        }
    }

    /// Events before the observation.
    pub(crate) fn begun(&self) -> Vec<TimedEvent> {
        let event = |name: &str, at: Duration| TimedEvent {
            at: at.as_nanos() as u64,
            name: name.to_owned(),
        };
        match self {
            Self::Guest(..) | Self::Foreign(..) => {
                vec![event(Milestone::Exec.name(), Duration::ZERO)]
            }
            Self::Domain(domain) => vec![
                event(ASKED, Duration::ZERO),
                event(Milestone::Exec.name(), domain.started.process_began),
                event(Milestone::QemuUp.name(), domain.started.prepared),
            ],
        }
    }

    /// Asks for events, and gives init its script.
    pub(crate) fn greet(&mut self) -> io::Result<()> {
        let ask = qmp::command("qmp_capabilities");
        // One that is gone already is found to be so when it is read.
        let lenient = |result: io::Result<()>| match result {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        };
        match self {
            Self::Guest(running, script) => {
                lenient(running.qmp.write_all(&ask))?;
                let script = std::mem::take(script);
                if script.is_empty() {
                    return Ok(());
                }
                running.guest.set_nonblocking(false)?;
                let result = running.guest.write_all(&config_frames(&script));
                running.guest.set_nonblocking(true)?;
                lenient(result)
            }
            Self::Foreign(foreign, ..) => lenient(foreign.qmp.write_all(&ask)),
            Self::Domain(_) => Ok(()),
        }
    }

    pub(crate) fn fd(&self, source: Source) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Guest(running, _) => match source {
                Source::Debugger => running.debugger.as_ref().map(AsFd::as_fd),
                Source::Qmp => Some(running.qmp.as_fd()),
                Source::Console => Some(running.console.as_fd()),
                Source::Firmware => running.firmware.as_ref().map(AsFd::as_fd),
                Source::Guest => Some(running.guest.as_fd()),
                Source::Process => None,
            },
            Self::Foreign(foreign, marker, _) => match source {
                Source::Qmp => Some(foreign.qmp.as_fd()),
                Source::Console => foreign.console.as_ref().map(AsFd::as_fd),
                Source::Guest if marker.is_some() => foreign.marker.as_ref().map(AsFd::as_fd),
                Source::Debugger if marker.is_none() => foreign.marker.as_ref().map(AsFd::as_fd),
                _ => None,
            },
            Self::Domain(domain) => match source {
                Source::Qmp => domain.started.events_fd(),
                Source::Console => domain.started.console_fd(),
                Source::Guest => domain.started.agent_fd(),
                Source::Process => domain.started.process_fd(),
                Source::Firmware | Source::Debugger => None,
            },
        }
    }

    /// Sends bytes to the debugger port.
    pub(crate) fn send_to_debugger(&mut self, bytes: &[u8]) {
        let port = match self {
            Self::Guest(running, _) => running.debugger.as_mut(),
            Self::Foreign(foreign, None, _) => foreign.marker.as_mut(),
            Self::Foreign(..) | Self::Domain(_) => None,
        };
        if let Some(port) = port {
            // Fails only when QEMU goes, which is seen.
            let _ = port.write_all(bytes);
        }
    }

    /// Sends a command to QEMU; the answer comes as all messages do.
    pub(crate) fn ask(&mut self, command: &str) {
        let channel = match self {
            Self::Guest(running, _) => &mut running.qmp,
            Self::Foreign(foreign, ..) => &mut foreign.qmp,
            Self::Domain(_) => return,
        };
        // Fails only when QEMU goes, which is seen.
        let _ = channel.write_all(&qmp::command(command));
    }

    /// The source that closes when QEMU ends: the control channel, where brisk has it.
    pub(crate) const fn end_source(&self) -> Source {
        match self {
            Self::Guest(..) | Self::Foreign(..) => Source::Qmp,
            Self::Domain(_) => Source::Process,
        }
    }

    /// Sends the first message to the guest agent, which has opened its port.
    pub(crate) fn ask_agent(&mut self) {
        if let Self::Foreign(foreign, Some(ReadyCondition::Agent), agent) = self {
            if let Some(port) = &mut foreign.marker {
                // Fails only when QEMU goes, which is seen.
                let _ = port.write_all(&agent.hello());
            }
        }
    }

    /// Whether bytes from the port of the ready condition say that the guest is ready.
    pub(crate) fn is_ready(&mut self, bytes: &[u8]) -> bool {
        match self {
            Self::Foreign(_, Some(ReadyCondition::Agent), agent) => agent.push(bytes),
            _ => true,
        }
    }

    /// Ends the VM. The result is its status, if it had ended by itself with an error, and its
    /// stderr.
    pub(crate) fn end(
        self,
        ended: &Ended,
        until: Until,
        stopped: &mut dyn FnMut() -> bool,
    ) -> (Option<String>, String) {
        match self {
            Self::Guest(running, _) => (None, running.kill()),
            Self::Foreign(foreign, ..) => {
                let goes = *ended == Ended::Reached && until == Until::Exit;
                let (status, stderr) = foreign.end(if goes { GOING } else { Duration::ZERO });
                let signal = status.and_then(|status| status.signal()).filter(|_| goes);
                (
                    signal.map(|signal| format!("signal {signal} ended QEMU")),
                    stderr,
                )
            }
            Self::Domain(domain) => {
                // One that does not do what it should is not asked.
                let stop = match ended {
                    Ended::Reached => domain.stop,
                    _ => Stop::Destroy,
                };
                match domain.started.end(stop, domain.patience, stopped) {
                    Ok(Off::Crashed) => (Some("QEMU crashed".to_owned()), String::new()),
                    Ok(Off::Orderly) => (None, String::new()),
                    Err(error) => (None, error.to_string()),
                }
            }
        }
    }
}

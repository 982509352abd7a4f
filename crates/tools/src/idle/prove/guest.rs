//! A guest that is started for one measurement.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use brisk_host::files;
use brisk_sys::{die_with_parent, wait_for};
use brisk_vm::cache::Cache;
use brisk_vm::libvirt::{self, Defined, Trial};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::super::text::Text;
use crate::vm::{self, VmPaths};
use brisk_host::interrupt::Interrupt;

/// How long QEMU may take to end when it is asked to.
const ENDING: Duration = Duration::from_secs(5);
/// Bytes of QEMU's messages that are kept for an error.
const TAIL: u64 = 2000;

/// What starts a guest.
#[derive(Debug, Clone)]
pub enum Start {
    /// The words of its command line.
    Command,
    /// libvirt. The definition of the domain stays as it is.
    Domain {
        /// The domain.
        domain: Box<Defined>,
        /// How long it may take to shut down before its power is cut; zero to cut it at once.
        patience: Duration,
    },
    /// brisk. The definition of the VM stays as it is.
    Vm {
        /// The VM.
        paths: Box<VmPaths>,
        /// Kernels and initramfs that were made for boots.
        cache: Cache,
        /// How long it may take to shut down before its power is cut; zero to cut it at once.
        patience: Duration,
    },
}

/// A guest that cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// QEMU cannot be started.
    #[error("cannot start {program}")]
    Program {
        /// The program.
        program: String,
        /// Error of the system.
        source: io::Error,
    },
    /// There is no program in the command line.
    #[error("the command line has no program")]
    NoProgram,
    /// It goes into the background, where it is not a child.
    #[error("-daemonize has QEMU leave: take it out of the command line")]
    Daemon,
    /// libvirt cannot start or end the domain.
    #[error(transparent)]
    Libvirt(#[from] libvirt::Error),
    /// The VM cannot be started or ended.
    #[error(transparent)]
    Vm(#[from] vm::Error),
    /// What describes the guest is of another kind than what starts it.
    #[error("the description of the guest is of another kind than what is to start it")]
    Unlike,
    /// The system cannot wait.
    #[error("cannot wait for the guest")]
    Wait(#[source] io::Error),
    /// The program is not a QEMU, such as a script that starts one.
    #[error("{0} is not a QEMU: give the program itself, and not a script that starts it")]
    Other(String),
    /// It ended.
    #[error("QEMU ended before it was measured: {0}")]
    Ended(String),
}

/// A guest that runs. QEMU ends when this is dropped.
#[derive(Debug)]
pub(crate) enum Running {
    Command {
        child: Child,
        messages: File,
    },
    Domain {
        trial: Option<Trial>,
        patience: Duration,
    },
    Vm {
        paths: Box<VmPaths>,
        pid: u32,
        patience: Duration,
    },
}

impl Start {
    /// Starts the guest.
    pub(crate) fn start(&self, text: &Text, interrupt: &Interrupt) -> Result<Running, Error> {
        match (self, text) {
            (Self::Domain { domain, patience }, Text::Xml(xml)) => Ok(Running::Domain {
                trial: Some(domain.try_out(xml, &mut || interrupt.signal().is_some())?),
                patience: *patience,
            }),
            (
                Self::Vm {
                    paths,
                    cache,
                    patience,
                },
                Text::Vm { text, .. },
            ) => {
                let definition = paths.parse(text)?;
                let cancelled = || interrupt.came();
                let ending = vm::Ending {
                    limit: vm::BOOT,
                    cancelled: &cancelled,
                };
                let pid = vm::start_as(paths, &definition, cache, ending, &mut |_| {})?;
                Ok(Running::Vm {
                    pid,
                    paths: paths.clone(),
                    patience: *patience,
                })
            }
            (Self::Command, Text::Arguments(words)) => command(words),
            _ => Err(Error::Unlike),
        }
    }
}

fn command(words: &[OsString]) -> Result<Running, Error> {
    let (program, words) = words.split_first().ok_or(Error::NoProgram)?;
    if words
        .iter()
        .any(|word| word == "-daemonize" || word == "--daemonize")
    {
        return Err(Error::Daemon);
    }
    let failed = |source| Error::Program {
        program: program.to_string_lossy().into_owned(),
        source,
    };
    let messages = tempfile::tempfile().map_err(failed)?;
    let mut command = Command::new(program);
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(messages.try_clone().map_err(failed)?)
        // A terminal's Ctrl-C is for brisk, which then ends it.
        .process_group(0);
    let child = die_with_parent(&mut command).spawn().map_err(failed)?;
    Ok(Running::Command { child, messages })
}

impl Running {
    /// Number of QEMU's process.
    pub(super) fn pid(&self) -> u32 {
        match self {
            Self::Command { child, .. } => child.id(),
            Self::Domain { trial, .. } => trial.as_ref().map_or(0, |trial| trial.pid),
            Self::Vm { pid, .. } => *pid,
        }
    }

    /// Waits for so long, unless it ends or the user interrupts.
    pub(super) fn wait(&mut self, time: Duration, interrupt: &Interrupt) -> Result<(), Error> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        let gone = || Error::Ended("it has no process".into());
        let process = pidfd_open(pid.ok_or_else(gone)?, PidfdFlags::empty()).map_err(|_| gone())?;
        let mut fds = [
            PollFd::new(interrupt, PollFlags::IN),
            PollFd::new(&process, PollFlags::IN),
        ];
        wait_for(&mut fds, Some(Instant::now() + time)).map_err(Error::Wait)?;
        let has_ended = fds[1].revents().contains(PollFlags::IN);
        match has_ended {
            true => Err(self.end_message()),
            false => Ok(()),
        }
    }

    /// Why it ended, as far as QEMU says.
    pub(super) fn end_message(&mut self) -> Error {
        let (child, messages) = match self {
            Self::Command { child, messages } => (child, messages),
            Self::Domain { .. } => return Error::Ended("libvirt's log has more".into()),
            Self::Vm { paths, .. } => {
                let name = &paths.name;
                return Error::Ended(format!("brisk vm log {name} has more"));
            }
        };
        let status = match child.try_wait() {
            Ok(Some(status)) => status.to_string(),
            Ok(None) => return Error::Other(format!("process {}", child.id())),
            Err(error) => error.to_string(),
        };
        // Without its messages the status has to do.
        let text = files::tail(messages, TAIL).unwrap_or_default();
        let text = text.trim().replace('\n', "; ");
        Error::Ended(match &*text {
            "" => status,
            text => format!("{status}: {text}"),
        })
    }

    /// Ends it.
    pub(super) fn end(mut self) -> Result<(), Error> {
        match &mut self {
            Self::Domain { trial, patience } => match trial.take() {
                Some(trial) => Ok(trial.end(*patience)?),
                None => Ok(()),
            },
            Self::Vm {
                paths,
                pid,
                patience,
            } => {
                if !patience.is_zero() {
                    let stopped = vm::stop_process(paths, *pid, *patience);
                    if stopped.is_ok() || vm::pid(paths).is_none() {
                        return Ok(stopped?);
                    }
                }
                Ok(vm::kill_process(paths, *pid)?)
            }
            // Dropping ends it.
            Self::Command { .. } => Ok(()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let child = match self {
            Self::Command { child, .. } => child,
            // libvirt's guard ends it.
            Self::Domain { .. } => return,
            Self::Vm { paths, pid, .. } => {
                // There is nobody to tell; the log of the VM says what became of it.
                let _ = vm::kill_process(paths, *pid);
                return;
            }
        };
        let pid = Pid::from_child(child);
        if let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) {
            // It may have ended by itself.
            let _ = kill_process_group(pid, Signal::TERM);
            let mut fds = [PollFd::new(&process, PollFlags::IN)];
            let _ = wait_for(&mut fds, Some(Instant::now() + ENDING));
        }
        let _ = child.kill();
        // What a script started, too: the group has its number until it is reaped.
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = child.wait();
    }
}

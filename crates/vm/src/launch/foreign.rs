//! Start of a QEMU with the user's own command line, to watch it.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use brisk_host::program::Program;
use brisk_sys::wait_for;
use command_fds::{CommandFdExt, FdMapping};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{PidfdFlags, pidfd_open};

use super::Error;
use super::processes::Leader;
use crate::qemu::Fds;
use crate::qemu::watch::{Console, Extra, watch};

/// A QEMU and the channels that were added to it. It ends when this is dropped.
#[derive(Debug)]
pub struct Foreign {
    child: Leader,
    /// Control channel.
    pub qmp: UnixStream,
    /// Console, if it can be read.
    pub console: Option<OwnedFd>,
    /// Channel of the ready condition: bytes that the guest writes to the added port, or the agent.
    pub marker: Option<UnixStream>,
}

impl Foreign {
    /// Starts `program` with `words` and the options for watching it.
    ///
    /// # Errors
    /// If the program cannot be started, or the channels cannot be had.
    pub fn start(program: &Path, words: &[OsString], extra: Option<Extra>) -> Result<Self, Error> {
        let prepare = |what| move |source| Error::Prepare { what, source };
        let watched = watch(words, extra);
        let mut mappings = Vec::new();
        let mut channel = |child_fd| -> Result<UnixStream, Error> {
            let (ours, theirs) = UnixStream::pair().map_err(prepare("channels"))?;
            ours.set_nonblocking(true).map_err(prepare("channels"))?;
            mappings.push(FdMapping {
                parent_fd: theirs.into(),
                child_fd,
            });
            Ok(ours)
        };
        let qmp = channel(Fds::QMP)?;
        let added = (watched.console == Console::Added)
            .then(|| channel(Fds::CONSOLE))
            .transpose()?;
        let marker = extra.map(|_| channel(Fds::GUEST)).transpose()?;
        let start = |source| Error::Start {
            program: program.to_owned(),
            source,
        };
        let mut command = Program::at(program).args(watched.words).command();
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        command.stdout(if watched.console == Console::Stdout {
            Stdio::piped()
        } else {
            Stdio::null()
        });
        command.process_group(0);
        command
            .fd_mappings(mappings)
            .map_err(|error| start(io::Error::other(error)))?;
        brisk_sys::die_with_parent(&mut command);
        let mut child = command.spawn().map_err(start)?;
        let piped = child.stdout.take().map(OwnedFd::from);
        if let Some(fd) = &piped {
            rustix::io::ioctl_fionbio(fd, true)
                .map_err(|error| prepare("the console")(error.into()))?;
        }
        Ok(Self {
            child: Leader::new(child),
            qmp,
            console: piped.or(added.map(OwnedFd::from)),
            marker,
        })
    }

    /// Whether QEMU has ended.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.child.status()?.is_some())
    }

    /// Waits up to `patience` for QEMU to end by itself, then ends it; the result is its exit
    /// status, if it ended by itself, and its stderr.
    pub fn end(mut self, patience: Duration) -> (Option<ExitStatus>, String) {
        let status = self.status(patience).ok().flatten();
        self.child.end();
        (status, super::stderr_of([self.child.stderr()]))
    }

    fn status(&mut self, patience: Duration) -> io::Result<Option<ExitStatus>> {
        let process = pidfd_open(self.child.pid(), PidfdFlags::empty())?;
        let mut fds = [PollFd::new(&process, PollFlags::IN)];
        wait_for(&mut fds, Some(Instant::now() + patience))?;
        self.child.status()
    }
}

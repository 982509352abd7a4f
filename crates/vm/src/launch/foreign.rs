//! Starting a QEMU by somebody else's command line, to watch it.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};

use brisk_host::program::Program;
use command_fds::{CommandFdExt, FdMapping};

use super::Error;
use crate::qemu::Fds;
use crate::qemu::watch::{Console, Extra, watch};

/// A QEMU and the channels that were added to it. It ends when this is dropped.
#[derive(Debug)]
pub struct Foreign {
    child: Child,
    /// Control channel.
    pub qmp: UnixStream,
    /// Console, if it can be read.
    pub console: Option<OwnedFd>,
    /// What the guest writes to the port that was added, or the agent says.
    pub marker: Option<UnixStream>,
}

impl Foreign {
    /// Starts `program` with `words` and what watching it takes.
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
            child,
            qmp,
            console: piped.or(added.map(OwnedFd::from)),
            marker,
        })
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// If the system cannot tell.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// With all that it started: the command line may be a script's.
    fn end(&mut self) {
        let group = i32::try_from(self.child.id()).ok();
        if let Some(group) = group.and_then(rustix::process::Pid::from_raw) {
            // Fails only for one that has ended and been reaped.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        super::end(&mut self.child);
    }

    /// Ends it now and returns what it wrote to stderr.
    pub fn kill(mut self) -> String {
        self.end();
        super::said([self.child.stderr.take()])
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.end();
    }
}

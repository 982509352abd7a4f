//! Start of a QEMU whose command line its caller has written, with descriptors that it names.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

use brisk_host::program::Program;
use command_fds::{CommandFdExt, FdMapping};
use rustix::process::{PidfdFlags, pidfd_open};

use super::processes::{Leader, stderr_of};
use super::user::User;
use super::{Error, Unprivileged, inputs};
use crate::qemu::Fds;

/// A file that QEMU inherits.
#[derive(Debug)]
pub struct Descriptor {
    /// The file.
    pub file: File,
    /// Its number in QEMU.
    pub number: i32,
    /// Whether QEMU opens it anew, by its name below `/proc/self/fd`. Its user can then read it: of
    /// a file that only others may read it gets a copy in memory.
    pub by_name: bool,
}

/// A QEMU with a control channel and a console. It ends when this is dropped.
#[derive(Debug)]
pub struct Custom {
    child: Leader,
    process: OwnedFd,
    /// Control channel: QEMU has its end as [`Fds::QMP`].
    pub qmp: UnixStream,
    /// Console: QEMU has its end as [`Fds::CONSOLE`].
    pub console: UnixStream,
}

impl Custom {
    /// Starts `program`, of low priority, with `words` and these descriptors.
    ///
    /// # Errors
    /// If a channel, a user or the program cannot be had.
    pub fn start(
        program: &Path,
        words: &[String],
        descriptors: Vec<Descriptor>,
        unprivileged: Option<Unprivileged>,
    ) -> Result<Self, Error> {
        let prepare = |what| move |source| Error::Prepare { what, source };
        let mut user = unprivileged.map(User::take).transpose()?;
        let mut mappings = Vec::new();
        let mut map = |parent_fd: OwnedFd, child_fd| {
            mappings.push(FdMapping {
                parent_fd,
                child_fd,
            });
        };
        let mut ends = Vec::new();
        for number in [Fds::QMP, Fds::CONSOLE] {
            let (ours, theirs) = UnixStream::pair().map_err(prepare("channels"))?;
            ours.set_nonblocking(true).map_err(prepare("channels"))?;
            map(theirs.into(), number);
            ends.push(ours);
        }
        if let Some(lock) = user.as_mut().and_then(|user| user.lock.take()) {
            map(lock, Fds::USER);
        }
        for descriptor in descriptors {
            let file = match descriptor.by_name {
                true => inputs::accessible(descriptor.file, user.as_ref())
                    .map_err(prepare("the guest's files"))?,
                false => descriptor.file.into(),
            };
            map(file, descriptor.number);
        }
        let start = |source| Error::Start {
            program: program.to_owned(),
            source,
        };
        // Ctrl-C on the terminal is for brisk to act on, not for QEMU.
        let mut command = Program::at(program).args(words).command();
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::piped()).process_group(0);
        command
            .fd_mappings(mappings)
            .map_err(|error| start(io::Error::other(error)))?;
        if let Some(user) = &user {
            command.uid(user.ids.user).gid(user.ids.group);
        }
        brisk_sys::nice(&mut command);
        brisk_sys::die_with_parent(&mut command);
        let child = Leader::new(command.spawn().map_err(start)?);
        let process = pidfd_open(child.pid(), PidfdFlags::empty())
            .map_err(|error| prepare("a process")(error.into()))?;
        let [qmp, console] = match <[UnixStream; 2]>::try_from(ends) {
            Ok(ends) => ends,
            Err(_) => unreachable!("two channels were made"),
        };
        Ok(Self {
            child,
            process,
            qmp,
            console,
        })
    }

    /// Is readable when QEMU has ended.
    #[must_use]
    pub fn process(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    /// Ends QEMU now; the result is what it wrote to stderr.
    pub fn end(mut self) -> String {
        self.child.end();
        stderr_of([self.child.stderr()])
    }
}

//! Starting QEMU with its channels, and making sure that it ends.

mod detached;
mod faults;
mod foreign;
mod memory;
mod tmpfs;
mod wiring;

pub use detached::{Places, start_detached};
pub use foreign::Foreign;

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ExitStatus, Stdio};

use rustix::io::ioctl_fionbio;

use crate::qemu::{Fds, MachinePlan};
use crate::virtiofs::Served;
use memory::Filling;
use wiring::Wiring;

/// Why QEMU was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Sockets, memory.
    #[error("cannot prepare {what} for QEMU")]
    Prepare {
        /// What was being made.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel, the initramfs or a disk image.
    #[error("cannot open {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The program.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A user for QEMU to be, instead of root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Unprivileged {
    /// User number.
    pub user: u32,
    /// Group number.
    pub group: u32,
}

/// A QEMU and what serves it. All end when this is dropped.
#[derive(Debug)]
pub struct Running {
    /// QEMU.
    qemu: Child,
    daemons: Vec<Child>,
    /// Control channel.
    pub qmp: UnixStream,
    /// Console.
    pub console: UnixStream,
    /// The port of our init.
    pub guest: UnixStream,
    /// Debug console of the firmware, if the plan has one.
    pub firmware: Option<UnixStream>,
    /// Debugger port, if the plan has one.
    pub debugger: Option<UnixStream>,
    filling: Option<Filling>,
    ended: Option<ExitStatus>,
}

impl Running {
    /// Starts `plan`; `served` are its virtiofs directories in order.
    ///
    /// # Errors
    /// If a channel, a disk or the program cannot be had.
    pub fn start(
        plan: &MachinePlan,
        served: Vec<Served>,
        unprivileged: Option<Unprivileged>,
    ) -> Result<Self, Error> {
        let (mut daemons, sockets): (Vec<_>, Vec<_>) = served
            .into_iter()
            .map(|served| (served.daemon, served.socket))
            .unzip();
        let started = Self::spawn(plan, sockets, unprivileged);
        if started.is_err() {
            daemons.iter_mut().for_each(end);
        }
        let mut running = started?;
        running.daemons = daemons;
        Ok(running)
    }

    /// Without daemons.
    fn spawn(
        plan: &MachinePlan,
        sockets: Vec<OwnedFd>,
        unprivileged: Option<Unprivileged>,
    ) -> Result<Self, Error> {
        let mut wiring = Wiring::new(plan);
        let mut ends = Vec::new();
        for fd in [Fds::QMP, Fds::CONSOLE, Fds::GUEST] {
            ends.push(wiring.channel(fd)?);
        }
        let firmware = plan
            .firmware_log
            .then(|| wiring.channel(Fds::FIRMWARE))
            .transpose()?;
        let debugger = plan
            .debugger
            .then(|| wiring.channel(Fds::DEBUGGER))
            .transpose()?;
        for (fd, socket) in (Fds::FILESYSTEMS..).zip(sockets) {
            wiring.map(socket, fd);
        }
        wiring.files()?;
        let filling = wiring.filling.take();
        let mut command = wiring.command(unprivileged, None)?;
        command.stderr(Stdio::piped());
        // Ctrl-C on the terminal is for us to forward, not for QEMU.
        command.process_group(0);
        brisk_sys::die_with_parent(&mut command);
        let qemu = command.spawn().map_err(|source| Error::Start {
            program: plan.program.clone(),
            source,
        })?;
        let [qmp, console, guest] = match <[UnixStream; 3]>::try_from(ends) {
            Ok(ends) => ends,
            Err(_) => unreachable!("three channels were made"),
        };
        Ok(Self {
            qemu,
            daemons: Vec::new(),
            qmp,
            console,
            guest,
            firmware,
            debugger,
            filling,
            ended: None,
        })
    }

    /// Returns when the guest's memory is what the plan says it is: a copy takes a moment, which
    /// QEMU uses to start.
    ///
    /// # Errors
    /// If it could not be copied.
    pub fn has_memory(&mut self) -> io::Result<()> {
        match self.filling.take().map(Filling::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("the copy of its memory failed")),
        }
    }

    /// Process number of QEMU.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.qemu.id()
    }

    /// How QEMU ended, if it has.
    ///
    /// # Errors
    /// If the system cannot tell.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.qemu.try_wait()?;
        }
        Ok(self.ended)
    }

    /// Ends QEMU now and returns what it and its daemons wrote to stderr.
    pub fn kill(mut self) -> String {
        self.end_all();
        let streams = std::iter::once(&mut self.qemu).chain(&mut self.daemons);
        said(streams.map(|child| child.stderr.take()))
    }

    /// All are told before any is waited for: they give their memory back side by side.
    fn end_all(&mut self) {
        let qemu = self.ended.is_none().then_some(&mut self.qemu);
        let mut all: Vec<_> = qemu.into_iter().chain(&mut self.daemons).collect();
        for child in &mut all {
            // Fails only for one that has ended and been reaped.
            let _ = child.kill();
        }
        for child in all {
            let _ = child.wait();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end_all();
    }
}

/// What processes that have ended wrote to stderr.
fn said(streams: impl IntoIterator<Item = Option<ChildStderr>>) -> String {
    let mut text = String::new();
    for stderr in streams.into_iter().flatten() {
        let mut bytes = Vec::new();
        // What they wrote is there. A program that they started may still be, and writes nothing
        // that is waited for: a wrapper around QEMU has one.
        if ioctl_fionbio(&stderr, true).is_ok() {
            let _ = stderr.take(64 * 1024).read_to_end(&mut bytes);
        }
        text.push_str(&String::from_utf8_lossy(&bytes));
    }
    text
}

fn end(child: &mut Child) {
    // Fails only for one that has ended and been reaped.
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_read_though_somebody_could_say_more() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&writer, b"no such disk").unwrap();
        assert_eq!(said([Some(ChildStderr::from(reader))]), "no such disk");
        drop(writer);
    }
}

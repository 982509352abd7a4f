//! Starting QEMU with its channels, and making sure that it ends.

mod foreign;
mod memory;

pub use foreign::Foreign;

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ExitStatus, Stdio};

use brisk_host::program::Program;
use command_fds::{CommandFdExt, FdMapping};

use crate::qemu::{Fds, MachinePlan, Ram, argv};
use crate::virtiofs::Served;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
        let (qemu, [qmp, console, guest], firmware) = started?;
        Ok(Self {
            qemu,
            daemons,
            qmp,
            console,
            guest,
            firmware,
            ended: None,
        })
    }

    fn spawn(
        plan: &MachinePlan,
        sockets: Vec<OwnedFd>,
        unprivileged: Option<Unprivileged>,
    ) -> Result<(Child, [UnixStream; 3], Option<UnixStream>), Error> {
        let pair = || UnixStream::pair();
        let prepare = |what| move |source| Error::Prepare { what, source };
        let mut mappings = Vec::new();
        let mut map = |parent_fd: OwnedFd, child_fd| {
            mappings.push(FdMapping {
                parent_fd,
                child_fd,
            })
        };
        let mut ends = Vec::new();
        for fd in [Fds::QMP, Fds::CONSOLE, Fds::GUEST] {
            let (ours, theirs) = pair().map_err(prepare("channels"))?;
            ours.set_nonblocking(true).map_err(prepare("channels"))?;
            map(theirs.into(), fd);
            ends.push(ours);
        }
        let mut firmware = None;
        if plan.firmware_log {
            let (ours, theirs) = pair().map_err(prepare("channels"))?;
            ours.set_nonblocking(true).map_err(prepare("channels"))?;
            map(theirs.into(), Fds::FIRMWARE);
            firmware = Some(ours);
        }
        let open = |path: &Path, options: &mut OpenOptions| {
            let path = path.to_owned();
            options
                .open(&path)
                .map_err(|source| Error::Open { path, source })
        };
        let bytes = plan.memory_mib << 20;
        match &plan.ram {
            Ram::Private => {}
            Ram::Shared => map(memory::file(bytes).map_err(prepare("memory"))?, Fds::RAM),
            Ram::Kept(path) => {
                let file = open(path, File::options().read(true).write(true))?;
                map(file.into(), Fds::RAM);
            }
            Ram::Template(path) => map(open(path, File::options().read(true))?.into(), Fds::RAM),
        }
        if let Some(state) = &plan.state {
            map(
                open(&state.path, File::options().read(true))?.into(),
                Fds::STATE,
            );
        }
        for (fd, disk) in (Fds::DISKS..).zip(&plan.disks) {
            let file = open(&disk.path, File::options().read(true).write(disk.writable))?;
            map(file.into(), fd);
        }
        for (fd, socket) in (Fds::FILESYSTEMS..).zip(sockets) {
            map(socket, fd);
        }
        // The cache may lie where only its owner can go; a descriptor needs no path.
        let mut plan = plan.clone();
        for (fd, path) in [
            (Fds::KERNEL, &mut plan.kernel),
            (Fds::INITRAMFS, &mut plan.initramfs),
        ] {
            map(open(path, File::options().read(true))?.into(), fd);
            *path = PathBuf::from(format!("/proc/self/fd/{fd}"));
        }
        let start = |source| Error::Start {
            program: plan.program.clone(),
            source,
        };
        let words = argv(&plan).into_iter().flat_map(|part| part.words);
        let mut command = Program::at(&plan.program).args(words).command();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        // Ctrl-C on the terminal is for us to forward, not for QEMU.
        command.process_group(0);
        command
            .fd_mappings(mappings)
            .map_err(|error| start(io::Error::other(error)))?;
        if let Some(Unprivileged { user, group }) = unprivileged {
            command.uid(user).gid(group);
        }
        brisk_sys::die_with_parent(&mut command);
        let qemu = command.spawn().map_err(start)?;
        let ends: [UnixStream; 3] = match ends.try_into() {
            Ok(ends) => ends,
            Err(_) => unreachable!("three channels were made"),
        };
        Ok((qemu, ends, firmware))
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
        // All writers have ended, so this does not block.
        let _ = stderr.take(64 * 1024).read_to_end(&mut bytes);
        text.push_str(&String::from_utf8_lossy(&bytes));
    }
    text
}

fn end(child: &mut Child) {
    // Fails only for one that has ended and been reaped.
    let _ = child.kill();
    let _ = child.wait();
}

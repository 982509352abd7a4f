//! Start of QEMU with its channels, with a guarantee that it ends.

mod custom;
mod daemon_watch;
mod detached;
mod faults;
mod foreign;
mod handover;
mod inputs;
mod memory;
mod processes;
mod tb_trace;
mod tmpfs;
mod user;
mod wiring;

pub use custom::{Custom, Descriptor};
pub use detached::{RuntimeFiles, start_detached};
pub use foreign::Foreign;
pub use handover::HandedOver;
pub use memory::{has_huge_pages, without_name};
pub use tb_trace::TbTrace;
pub use user::why_one_user;

use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;

use crate::qemu::{Fds, VmConfig};
use crate::virtiofs::Served;
use handover::PoolProcess;
use memory::Filling;
pub(crate) use processes::end;
use processes::{Daemons, Processes, stderr_of};
use wiring::Wiring;
pub use wiring::open_backing;

/// Most bytes of a process's stderr that are read.
const MAX_STDERR: u64 = 64 * 1024;

/// Error of starting QEMU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Sockets, memory.
    #[error("cannot prepare {what} for QEMU")]
    Prepare {
        /// The object that was being made.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// The kernel, the initramfs, firmware or a disk image.
    #[error("cannot open {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A block device that the guest is to write to.
    #[error("{} is in use on this host: mounted, swap, or part of another device", path.display())]
    InUse {
        /// The device.
        path: PathBuf,
    },
    /// `BRISK_UID_RANGE`.
    #[error("BRISK_UID_RANGE is {text}, which is no range of users such as 2100000000-2100065535")]
    Range {
        /// Its value.
        text: String,
    },
    /// A user of its own for QEMU.
    #[error(
        "every user from {first} to {last} has an account or a process; set BRISK_UID_RANGE to \
         others that have none"
    )]
    NoUser {
        /// The first of the range.
        first: u32,
        /// The last of the range.
        last: u32,
    },
    /// Memory that is to be locked.
    #[error(
        "QEMU would lock up to {needed} MiB of memory, and this user may lock {allowed} MiB: raise \
         memlock in /etc/security/limits.d (limits.conf(5)) or LimitMEMLOCK= of the service"
    )]
    Locked {
        /// Memory that is to be locked at most, MiB.
        needed: u64,
        /// The limit, MiB.
        allowed: u64,
    },
    /// The program.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// The user that QEMU runs as instead of root. Each QEMU gets a user of its own; where none are
/// free, all run as the user that is named here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Unprivileged {
    /// User number.
    pub user: u32,
    /// Group number.
    pub group: u32,
}

/// A QEMU and its daemons. All end when this is dropped.
#[derive(Debug)]
pub struct Running {
    owner: Owner,
    /// Control channel.
    pub qmp: UnixStream,
    /// Console.
    pub console: UnixStream,
    /// The port of brisk's init.
    pub guest: UnixStream,
    /// Debug console of the firmware, if the plan has one.
    pub firmware: Option<UnixStream>,
    /// Debugger port, if the plan has one.
    pub debugger: Option<UnixStream>,
    filling: Option<Filling>,
    tb_trace: Option<TbTrace>,
}

/// The parent of the processes.
#[derive(Debug)]
enum Owner {
    /// This process.
    ThisProcess(Processes),
    /// A process that ends them when it is asked to, or when this process is gone.
    PoolProcess(PoolProcess),
}

impl Running {
    /// Starts QEMU with the configuration `plan`; `served` are its virtiofs directories in order.
    ///
    /// # Errors
    /// If a channel, a disk or the program cannot be had.
    pub fn start(
        plan: &VmConfig,
        served: Vec<Served>,
        unprivileged: Option<Unprivileged>,
    ) -> Result<Self, Error> {
        let (daemons, sockets): (Vec<_>, Vec<_>) = served
            .into_iter()
            .map(|served| (served.daemon, served.socket))
            .unzip();
        let daemons = Daemons(daemons);
        let mut wiring = Wiring::new(plan, unprivileged)?;
        let mut ends = Vec::new();
        for fd in [Fds::QMP, Fds::CONSOLE, Fds::GUEST] {
            ends.push(wiring.channel(fd)?);
        }
        let firmware = plan
            .debugging
            .firmware_log
            .then(|| wiring.channel(Fds::FIRMWARE))
            .transpose()?;
        let debugger = plan
            .debugging
            .debugger
            .then(|| wiring.channel(Fds::DEBUGGER))
            .transpose()?;
        for (fd, socket) in (Fds::FILESYSTEMS..).zip(sockets) {
            wiring.map(socket, fd);
        }
        wiring.files()?;
        let filling = wiring.filling.take();
        let tb_trace = wiring.tb_trace.take();
        let mut command = wiring.command(None)?;
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
            owner: Owner::ThisProcess(Processes::new(qemu, daemons)),
            qmp,
            console,
            guest,
            firmware,
            debugger,
            filling,
            tb_trace,
        })
    }

    /// The trace for TB pretranslation, once, if `plan` asks for it.
    pub fn tb_trace(&mut self) -> Option<TbTrace> {
        self.tb_trace.take()
    }

    /// Waits until the guest's memory is filled: its copy is made while QEMU starts.
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

    /// Whether QEMU has ended.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        match &mut self.owner {
            Owner::ThisProcess(processes) => processes.has_ended(),
            Owner::PoolProcess(parent) => parent.has_ended(),
        }
    }

    /// Ends QEMU now; the result is what it and its daemons wrote to stderr.
    pub fn kill(self) -> String {
        match self.owner {
            Owner::ThisProcess(processes) => processes.kill(),
            Owner::PoolProcess(parent) => parent.end(),
        }
    }
}

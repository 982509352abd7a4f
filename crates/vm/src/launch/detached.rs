//! Start of a QEMU that outlives brisk.

use std::fs::{DirBuilder, File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, fchown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use brisk_host::files::append;

use super::wiring::{Wiring, open, prepare};
use super::{Error, Unprivileged};
use crate::qemu::{Channels, Fds, VmConfig};

/// Sockets and files of a detached VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeFiles {
    /// Directory of the sockets, which only its owner may enter.
    pub dir: PathBuf,
    /// File that the kernel's console output is appended to.
    pub console: PathBuf,
    /// File that QEMU's messages are appended to.
    pub errors: PathBuf,
}

impl RuntimeFiles {
    /// Path of the control channel.
    #[must_use]
    pub fn qmp(&self) -> PathBuf {
        self.dir.join("qmp.sock")
    }

    /// Path of the port that sets the guest up.
    #[must_use]
    pub fn guest(&self) -> PathBuf {
        self.dir.join("init.sock")
    }

    /// Path of the socket that QEMU makes for postcopy memory.
    #[must_use]
    pub fn late(&self) -> PathBuf {
        self.dir.join("late")
    }

    /// Path of a port for commands; the first is 0.
    #[must_use]
    pub fn port(&self, index: u32) -> PathBuf {
        self.dir.join(format!("port{index}.sock"))
    }
}

/// Starts QEMU with the configuration `plan` and with its channels at `files`; `directories` are
/// the sockets of its virtiofs directories in order. The result is QEMU's process number.
///
/// # Errors
/// If a socket, a file or the program cannot be had.
pub fn start_detached(
    plan: &VmConfig,
    directories: Vec<OwnedFd>,
    files: &RuntimeFiles,
    unprivileged: Option<Unprivileged>,
) -> Result<u32, Error> {
    let mut wiring = Wiring::new(plan, unprivileged)?;
    let listen = |path: &Path| {
        // One that an earlier VM left would be in the way.
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path).map_err(prepare("a socket"))?;
        let private = Permissions::from_mode(0o600);
        std::fs::set_permissions(path, private).map_err(prepare("a socket"))?;
        Ok::<_, Error>(listener.into())
    };
    wiring.map(listen(&files.qmp())?, Fds::QMP);
    wiring.map(listen(&files.guest())?, Fds::GUEST);
    if let Channels::Listening { ports } = plan.channels {
        for (index, fd) in (0..ports).zip(Fds::PORTS..) {
            wiring.map(listen(&files.port(index))?, fd);
        }
    }
    let added = |path: &Path| match append(path) {
        Ok(file) => Ok(OwnedFd::from(file)),
        Err(source) => Err(Error::Open {
            path: path.to_owned(),
            source,
        }),
    };
    wiring.map(added(&files.console)?, Fds::CONSOLE);
    for (fd, socket) in (Fds::FILESYSTEMS..).zip(directories) {
        wiring.map(socket, fd);
    }
    wiring.files()?;
    let errors = added(&files.errors)?;
    if plan.memory.postcopy {
        wiring.map(late(&files.late(), wiring.user())?, Fds::POSTCOPY);
        let (ours, theirs) = UnixStream::pair().map_err(prepare("channels"))?;
        wiring.map(ours.into(), Fds::OOB);
        wiring.map(theirs.into(), Fds::OOB_PEER);
    }
    let mut command = wiring.command(Some(&files.dir))?;
    command.stderr(Stdio::from(errors));
    brisk_sys::own_session(&mut command);
    let child = command.spawn().map_err(|source| Error::Start {
        program: plan.program.clone(),
        source,
    })?;
    Ok(child.id())
}

/// A directory in which QEMU may make the socket for postcopy memory.
fn late(path: &Path, unprivileged: Option<Unprivileged>) -> Result<OwnedFd, Error> {
    let made = DirBuilder::new().mode(0o700).create(path);
    made.map_err(prepare("a directory"))?;
    let directory = open(path, File::options().read(true))?;
    if let Some(Unprivileged { user, group }) = unprivileged {
        fchown(&directory, Some(user), Some(group)).map_err(prepare("a directory"))?;
    }
    Ok(directory)
}

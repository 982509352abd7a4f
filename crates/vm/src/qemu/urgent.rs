//! The way to a QEMU that waits for its guest's memory.
//!
//! Its main loop may be what waits, and then no ordinary command is executed. The protocol has
//! urgent ones, on a channel where both sides have agreed on that; and to agree needs the main
//! loop. So the channel is made before the guest runs, and must not be lost when the process ends
//! that made it: QEMU itself keeps both of its ends, and whoever may trace QEMU can take one.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde_json::json;

use super::control::{Control, Error};
use super::machine::Fds;
use super::qmp::Reader;

/// How long QEMU may take for an answer, or to notice that a source is gone.
const PATIENCE: Duration = Duration::from_secs(30);
/// The socket in the directory [`Fds::LATE`].
const SOCKET: &str = "memory.sock";

/// A channel for urgent commands.
#[derive(Debug)]
pub struct Urgent {
    stream: UnixStream,
}

impl Urgent {
    /// Of a QEMU whose memory comes late, by its process number.
    ///
    /// # Errors
    /// If it is gone, or is not to be traced.
    pub fn of(pid: u32) -> io::Result<Self> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let number = number.ok_or(io::ErrorKind::NotFound)?;
        let process = pidfd_open(number, PidfdFlags::empty())?;
        let end: OwnedFd = pidfd_getfd(&process, Fds::URGENT_PEER, PidfdGetfdFlags::empty())?;
        Ok(Self { stream: end.into() })
    }

    /// Agrees on urgent commands; once, before the guest runs.
    ///
    /// # Errors
    /// If QEMU refuses or ends.
    pub fn agree(&self) -> Result<(), Error> {
        let arguments = json!({ "enable": ["oob"] });
        self.control().execute("qmp_capabilities", &arguments)?;
        Ok(())
    }

    /// Connects to a QEMU that has lost the source of its memory.
    ///
    /// `directory` is the one it has as [`Fds::LATE`].
    ///
    /// # Errors
    /// If QEMU ends, or refuses because it still has a source or needs none.
    pub fn reconnect(&self, directory: &Path) -> Result<UnixStream, Error> {
        let uri = format!("unix:/proc/self/fd/{}/{SOCKET}", Fds::LATE);
        let mut control = self.control();
        control.execute_urgently("migrate-recover", &json!({ "uri": uri }))?;
        UnixStream::connect(socket(directory)).map_err(Error::Channel)
    }

    /// Waits until QEMU says something of its memory. That may be what others were told already.
    ///
    /// # Errors
    /// If it ends, or says nothing.
    pub fn wait(&self) -> Result<(), Error> {
        self.control().event("MIGRATION").map(drop)
    }

    fn control(&self) -> Control<'_> {
        Control::new(&self.stream, Reader::default(), PATIENCE)
    }
}

fn socket(directory: &Path) -> PathBuf {
    directory.join(SOCKET)
}

//! Handover of a VM from the process that started it to another one. The first stays the parent of
//! the VM's processes, and ends them when the second asks for it or is gone.
//!
//! The two processes have one socket. The parent sends a byte with the descriptors of the VM's
//! channels, and when all has ended, the stderr of the VM's processes; the other process shuts its
//! half down when it is done.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use brisk_sys::wait_for;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg,
};
use rustix::process::{PidfdFlags, pidfd_open};

use super::processes::Processes;
use super::{MAX_STDERR, Owner, Running};

/// Number of channels: control channel, console, the port of brisk's init.
const CHANNELS: usize = 3;
/// Most time for a parent to hand its VM over. If the parent has ended, that is noticed at once.
const PATIENCE: Duration = Duration::from_secs(10);
/// Message that comes with the channels.
const HERE: &[u8] = b"!";

/// The parent's side of a VM that was handed over.
#[derive(Debug)]
pub struct HandedOver {
    processes: Processes,
    other: UnixStream,
}

impl Running {
    /// Hands the VM over to the process at the other end of a socket.
    ///
    /// # Errors
    /// If the VM is not this process's, or the other process is gone; the VM has ended then.
    pub fn hand_over(self, other: UnixStream) -> io::Result<HandedOver> {
        let Owner::ThisProcess(processes) = self.owner else {
            return Err(io::Error::other("the VM is another process's"));
        };
        other.set_nonblocking(false)?;
        let channels = [self.qmp.as_fd(), self.console.as_fd(), self.guest.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(CHANNELS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&channels));
        let bytes = [IoSlice::new(HERE)];
        sendmsg(&other, &bytes, &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(HandedOver { processes, other })
    }

    /// Takes a VM over from its parent; `None` if the parent has none (any more).
    ///
    /// # Errors
    /// If a system call fails.
    pub fn take_over(parent: UnixStream) -> io::Result<Option<Self>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(CHANNELS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut bytes = [IoSliceMut::new(&mut byte)];
        parent.set_read_timeout(Some(PATIENCE))?;
        let message = match recvmsg(&parent, &mut bytes, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) => message,
            Err(Errno::CONNRESET | Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        parent.set_read_timeout(None)?;
        let channels: Vec<OwnedFd> = ancillary
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => Some(fds),
                _ => None,
            })
            .flatten()
            .collect();
        let channels = <[OwnedFd; CHANNELS]>::try_from(channels);
        let (1.., Ok([qmp, console, guest])) = (message.bytes, channels) else {
            return Ok(None);
        };
        Ok(Some(Self {
            owner: Owner::PoolProcess(PoolProcess(parent)),
            qmp: qmp.into(),
            console: console.into(),
            guest: guest.into(),
            firmware: None,
            debugger: None,
            filling: None,
            tb_trace: None,
        }))
    }
}

impl HandedOver {
    /// Waits until the other process is done with the VM, QEMU has ended, or there is something to
    /// read at `stop`; then ends all processes that are left.
    ///
    /// # Errors
    /// If waiting fails.
    pub fn serve(self, stop: BorrowedFd<'_>) -> io::Result<()> {
        let Self {
            processes,
            mut other,
        } = self;
        let qemu = pidfd_open(processes.qemu.pid(), PidfdFlags::empty())?;
        let mut fds = [
            PollFd::new(&other, PollFlags::IN),
            PollFd::new(&qemu, PollFlags::IN),
            PollFd::from_borrowed_fd(stop, PollFlags::IN),
        ];
        wait_for(&mut fds, None)?;
        let stderr = processes.kill();
        // Whoever is gone does not want to know.
        let _ = other.write_all(stderr.as_bytes());
        Ok(())
    }
}

/// The process that is the parent of the VM's processes. They have ended when this is dropped.
#[derive(Debug)]
pub(super) struct PoolProcess(UnixStream);

impl PoolProcess {
    /// Whether the processes have ended: only then the parent sends anything or closes its end.
    pub(super) fn has_ended(&self) -> io::Result<bool> {
        match recv(&self.0, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok(_) | Err(Errno::CONNRESET) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Has the parent end the processes; the result is their stderr, and nothing the second time.
    pub(super) fn end(&self) -> String {
        let mut stderr = Vec::new();
        // Fails where it is gone, and the VM with it: its processes die with it.
        let _ = self.0.shutdown(Shutdown::Write);
        let _ = (&self.0).take(MAX_STDERR).read_to_end(&mut stderr);
        String::from_utf8_lossy(&stderr).into_owned()
    }
}

impl Drop for PoolProcess {
    fn drop(&mut self) {
        self.end();
    }
}

//! A VM's QEMU: its process and its control channel.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use brisk_host::proc::Procfs;
use brisk_sys::wait_for;
use brisk_vm::qemu::control::{self, Control};
use brisk_vm::qemu::qmp;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::json;

use super::error::{Error, file};
use super::paths::VmPaths;

/// How long QEMU may take for an answer.
const ANSWER: Duration = Duration::from_secs(30);
/// How often it is looked whether QEMU has room for a connection.
const AGAIN: Duration = Duration::from_millis(10);
/// How long QEMU may take to end.
const END: Duration = Duration::from_secs(10);
/// How long it may take where an answer is only nice to have.
pub(super) const GLANCE: Duration = Duration::from_secs(2);

/// Whether there is a QEMU, whatever it is doing.
pub(super) fn is_there(paths: &VmPaths) -> Result<bool, Error> {
    Ok(pid(paths).is_some() || connect(paths)?.is_some())
}

/// Ends QEMU, and forgets what it had.
///
/// # Errors
/// If it does not end.
pub(super) fn end(paths: &VmPaths) -> Result<(), Error> {
    end_process(paths)?;
    paths.clear();
    Ok(())
}

/// Ends QEMU.
///
/// # Errors
/// If it does not end.
pub(super) fn end_process(paths: &VmPaths) -> Result<(), Error> {
    if let Some(pid) = pid(paths).and_then(|pid| Pid::from_raw(pid as i32)) {
        // Fails only if it has ended by itself meanwhile.
        let _ = kill_process(pid, Signal::KILL);
    } else if let Some(stream) = connect(paths)? {
        // Whoever started it was killed before it noted the number.
        control(&stream)?.execute("quit", &json!(null))?;
    }
    match wait_for_end(paths, END) {
        true => Ok(()),
        false => Err(Error::state(
            &paths.name,
            format!("did not end within {} s", END.as_secs()),
            "its process may wait for a disk that does not answer",
        )),
    }
}

/// The control channel of a VM that is there.
pub(super) fn connect(paths: &VmPaths) -> Result<Option<UnixStream>, Error> {
    connect_within(paths, ANSWER)
}

/// A connection for who has so much time: QEMU listens to one at a time, and has room for few more.
pub(super) fn connect_within(
    paths: &VmPaths,
    limit: Duration,
) -> Result<Option<UnixStream>, Error> {
    connect_to(&paths.runtime_files().qmp(), limit)
}

fn connect_to(path: &Path, limit: Duration) -> Result<Option<UnixStream>, Error> {
    let deadline = Instant::now() + limit;
    loop {
        match connect_now(path) {
            Ok(stream) => return Ok(Some(stream)),
            Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
            Err(Errno::AGAIN) if Instant::now() < deadline => thread::sleep(AGAIN),
            Err(Errno::AGAIN) => {
                let command = "a connection".to_owned();
                return Err(control::Error::Silent { command, limit }.into());
            }
            Err(errno) => return Err(file("connect to", path)(errno.into())),
        }
    }
}

/// A connection that does not wait for room (`EAGAIN` of connect(2)), and never waits for bytes.
fn connect_now(path: &Path) -> Result<UnixStream, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// A socket of a QEMU, if that is there. One that stands still takes no connections.
pub(super) fn reach(path: &Path) -> Result<Option<UnixStream>, Error> {
    let stream = connect_to(path, ANSWER)?;
    if let Some(stream) = &stream {
        let waits = stream.set_nonblocking(false);
        waits.map_err(file("connect to", path))?;
    }
    Ok(stream)
}

/// The control channel for questions whose answers are only nice to have; it is not agreed on anything yet.
pub(super) fn glance(stream: &UnixStream) -> Control<'_> {
    Control::new(stream, qmp::Reader::default(), GLANCE)
}

/// The control channel, ready for commands.
pub(super) fn control<'a>(stream: &'a UnixStream) -> Result<Control<'a>, Error> {
    let mut control = Control::new(stream, qmp::Reader::default(), ANSWER);
    control.execute("qmp_capabilities", &json!(null))?;
    Ok(control)
}

/// Number of a VM's QEMU process, if it lives.
#[must_use]
pub fn pid(paths: &VmPaths) -> Option<u32> {
    // The directory of its sockets may be gone, as /run/user/UID is when that user has logged out.
    let proc = Procfs::default();
    proc.recorded(&paths.pid())
        .or_else(|| proc.recorded(&paths.process()))
}

/// Notes QEMU's process.
pub(super) fn set_pid(paths: &VmPaths, pid: u32) -> Result<(), Error> {
    for path in [paths.process(), paths.pid()] {
        let recorded = Procfs::default().record(pid, &path);
        recorded.map_err(file("write", path))?;
    }
    Ok(())
}

/// Waits until QEMU has ended.
pub(super) fn wait_for_end(paths: &VmPaths, limit: Duration) -> bool {
    let Some(pid) = pid(paths).and_then(|pid| Pid::from_raw(pid as i32)) else {
        // Its number was not noted, or is lost.
        return match connect_within(paths, limit) {
            Ok(None) => true,
            Ok(Some(stream)) => wait_at([PollFd::new(&stream, PollFlags::HUP)], limit),
            Err(_) => false,
        };
    };
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return true;
    };
    wait_at([PollFd::new(&process, PollFlags::IN)], limit)
}

fn wait_at(mut fds: [PollFd<'_>; 1], limit: Duration) -> bool {
    matches!(wait_for(&mut fds, Some(Instant::now() + limit)), Ok(1..))
}

//! State of a VM, as its QEMU reports it.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use brisk_host::proc::Procfs;
use brisk_image::State;
use brisk_sys::wait_for;
use brisk_vm::qemu::control::{self, Control};
use brisk_vm::qemu::qmp;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::json;

use super::ended::{note_end, note_end_if_idle};
use super::error::{Error, file};
use super::lifecycle::Running;
use super::log_size;
use super::page_service::look_after;
use super::paths::VmPaths;
use super::suspend_record;

/// Time limit of QEMU for an answer.
const ANSWER: Duration = Duration::from_secs(30);
/// Time limit of QEMU for its state, where a command depends on it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time limit of QEMU where the answer is not essential.
const GLANCE: Duration = Duration::from_secs(2);
/// Interval at which it is checked whether QEMU accepts a connection.
const AGAIN: Duration = Duration::from_millis(10);
/// Time limit of QEMU to end.
const END: Duration = Duration::from_secs(10);

/// State of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// No QEMU runs, and there is no image.
    Off,
    /// The VM is in an image.
    Suspended,
    /// The VM is in an image that is missing.
    Missing,
    /// A guest may have run from the image, and no process reads from it any more.
    CutOff,
    /// The virtual CPUs run.
    Running,
    /// The virtual CPUs are stopped: a command was killed in the middle, or works on the VM.
    Paused,
    /// QEMU is there and does not answer: a command talks to it.
    Busy,
}

impl Condition {
    /// Name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Suspended => "suspended",
            Self::Missing => "image missing",
            Self::CutOff => "resume cut off",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Busy => "busy",
        }
    }
}

/// Present state of a VM.
///
/// # Errors
/// If its definition is wrong.
pub fn condition(paths: &VmPaths) -> Result<Condition, Error> {
    note_end_if_idle(paths);
    log_size::look_after(paths);
    condition_within(paths, GLANCE)
}

/// Present state of a VM, where QEMU may take `limit` to answer.
fn condition_within(paths: &VmPaths, limit: Duration) -> Result<Condition, Error> {
    let filling = look_after(paths)?;
    let stream = match connect_within(paths, limit) {
        Err(Error::Control(control::Error::Silent { .. })) => return Ok(Condition::Busy),
        other => other?,
    };
    if let Some(stream) = stream {
        let mut control = Control::new(&stream, qmp::Reader::default(), limit);
        let status = control
            .execute("qmp_capabilities", &json!(null))
            .and_then(|_| control.execute("query-status", &json!(null)));
        match status {
            Ok(status) if status["running"] == json!(true) => return Ok(Condition::Running),
            // A command was ended after the image was durable and before QEMU was, or before
            // QEMU had all of it: what counts is in the image.
            Ok(_) if !filling && in_image(paths)? => return Ok(Condition::Suspended),
            Ok(_) => return Ok(Condition::Paused),
            Err(_) if pid(paths).is_some() => return Ok(Condition::Busy),
            // It has ended meanwhile.
            Err(_) => {}
        }
    }
    if !paths.runtime().exists() && pid(paths).is_some() {
        return Ok(Condition::Busy);
    }
    Ok(match in_image(paths)? {
        true => Condition::Suspended,
        false if suspend_record::missing(paths).is_some() => Condition::Missing,
        false if suspend_record::is_cut_off(paths, &paths.image_now()?) => Condition::CutOff,
        false => Condition::Off,
    })
}

/// Whether there is an image that no guest has run from.
fn in_image(paths: &VmPaths) -> Result<bool, Error> {
    let image = paths.image_now()?;
    let there = matches!(
        brisk_image::state(&image),
        Ok(State::Ready | State::Resuming { .. })
    );
    // Where it cannot be told whose it is, resume will see.
    Ok(there && suspend_record::is_own(paths, &image) != Some(false))
}

/// Present state of a VM, for the command that has its lock: a stopped QEMU beside its image does
/// not count, and is ended.
pub(super) fn settle(paths: &VmPaths) -> Result<Condition, Error> {
    note_end(paths);
    let now = condition_within(paths, PATIENCE)?;
    if now == Condition::Suspended && is_there(paths)? {
        paths.note("Ending what a command that was killed left standing still");
        end(paths)?;
    }
    if let Some(what) = unready(paths) {
        paths.note(match what {
            Unready::Booting => "Ending what a command that was killed was booting",
            Unready::Nameless => {
                "Ending a clone that a command which was killed has not told who it is"
            }
        });
        end(paths)?;
        return condition(paths);
    }
    Ok(now)
}

/// Reason why no command may be let into a VM: the command that makes it works on it, or was
/// killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unready {
    /// The guest has not got its script yet.
    Booting,
    /// The guest is a clone that has not got its identity yet.
    Nameless,
}

/// Reason why no command may be let into the VM; `None` if it is ready.
pub(super) fn unready(paths: &VmPaths) -> Option<Unready> {
    let running = Running::of(paths).ok()?;
    match (running.booting, running.nameless) {
        (true, _) => Some(Unready::Booting),
        (false, true) => Some(Unready::Nameless),
        (false, false) => None,
    }
}

/// Whether there is a QEMU, in whatever state.
pub(super) fn is_there(paths: &VmPaths) -> Result<bool, Error> {
    Ok(pid(paths).is_some() || connect(paths)?.is_some())
}

/// Ends QEMU, and removes the VM's runtime files.
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
        if !wait_for_end(paths, END) {
            return Err(Error::state(
                &paths.name,
                format!("did not end within {} s", END.as_secs()),
                "its process may wait for a disk that does not answer",
            ));
        }
    } else if let Some(stream) = connect(paths)? {
        // Whoever started it was killed before it noted the number.
        control(&stream)?.execute("quit", &json!(null))?;
        let gone = [PollFd::new(&stream, PollFlags::HUP)];
        wait_at(gone, END);
    }
    Ok(())
}

/// Connects to the control channel of a VM; `None` if it has no QEMU.
pub(super) fn connect(paths: &VmPaths) -> Result<Option<UnixStream>, Error> {
    connect_within(paths, ANSWER)
}

/// Connects within a time: QEMU listens to one connection at a time, and queues few more.
pub(super) fn connect_within(
    paths: &VmPaths,
    limit: Duration,
) -> Result<Option<UnixStream>, Error> {
    let path = paths.runtime_files().qmp();
    let deadline = Instant::now() + limit;
    loop {
        match connect_now(&path) {
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

/// Connects without waiting for room (`EAGAIN` of connect(2)); the socket never waits for bytes.
fn connect_now(path: &Path) -> Result<UnixStream, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// Connects to a socket of a QEMU; `None` if the socket does not exist.
pub(super) fn reach(path: &Path) -> Result<Option<UnixStream>, Error> {
    match UnixStream::connect(path) {
        Ok(stream) => Ok(Some(stream)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(file("connect to", path)(error)),
    }
}

/// A control channel for answers that are not essential, without negotiation.
pub(super) fn glance(stream: &UnixStream) -> Control<'_> {
    Control::new(stream, qmp::Reader::default(), GLANCE)
}

/// A control channel that is ready for commands.
pub(super) fn control<'a>(stream: &'a UnixStream) -> Result<Control<'a>, Error> {
    let mut control = Control::new(stream, qmp::Reader::default(), ANSWER);
    control.execute("qmp_capabilities", &json!(null))?;
    Ok(control)
}

/// Process number of QEMU, if it lives.
pub(super) fn pid(paths: &VmPaths) -> Option<u32> {
    // The directory of its sockets may be gone, as /run/user/UID is when that user has logged out.
    let proc = Procfs::default();
    proc.recorded(&paths.pid())
        .or_else(|| proc.recorded(&paths.process()))
}

/// Records QEMU's process number.
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
        return true;
    };
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return true;
    };
    wait_at([PollFd::new(&process, PollFlags::IN)], limit)
}

fn wait_at(mut fds: [PollFd<'_>; 1], limit: Duration) -> bool {
    matches!(wait_for(&mut fds, Some(Instant::now() + limit)), Ok(1..))
}

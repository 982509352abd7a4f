//! Requests to init at the ports of a running VM.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use brisk_vm::guest::{Decoder, Event, Kind, Step, config_frames, encode, frame};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::error::{Error, file};
use super::live::{Condition, Unready, condition, reach, unready};
use super::page_service::looking_after;
use super::paths::VmPaths;
use crate::guest::variables;
use crate::run::{Ending, Session};

/// Most commands that run in a VM at once.
const PORTS: u32 = 4;
/// All ports: one more, for brisk's own requests.
pub(super) const ALL: u32 = PORTS + 1;

/// Most bytes of an answer of init.
const TOLD: usize = 4096;
/// Interval at which it is checked whether a command has ended that another one waits for.
const GLANCE: Duration = Duration::from_millis(100);

/// A command that [`exec`] runs in a VM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// The words of the command, in a line.
    pub command: String,
    /// Number of the process on this host that waits for its end.
    pub process: u32,
}

impl std::fmt::Display for Execution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (process {})", self.command, self.process)
    }
}

/// A command and its surroundings.
#[derive(Debug, Clone, Default)]
pub struct ExecRequest {
    /// Program and arguments; empty: a shell.
    pub command: Vec<OsString>,
    /// `NAME=VALUE`, besides the usual ones.
    pub env: Vec<OsString>,
    /// Working directory.
    pub workdir: Option<String>,
    /// Rows and columns of the terminal it runs on; `None`: pipes.
    pub terminal: Option<(u16, u16)>,
}

impl ExecRequest {
    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        if let Some((rows, columns)) = self.terminal {
            steps.push(Step::Terminal { rows, columns });
        }
        let more = self.env.iter().cloned();
        steps.extend(variables("/root", self.terminal.is_some(), more));
        let directory = self.workdir.clone().unwrap_or_else(|| "/".into());
        steps.push(Step::Directory {
            path: directory.into_bytes(),
        });
        let shell = [OsString::from("/bin/sh")];
        let words = if self.command.is_empty() {
            &shell[..]
        } else {
            &self.command
        };
        steps.extend(words.iter().map(|word| Step::Argument {
            text: word.clone().into_vec(),
        }));
        steps
    }
}

/// Runs a command in a VM. If the most that can run at once do, it waits for one of them to end;
/// `waits` is called with them.
///
/// # Errors
/// If the VM does not run.
pub fn exec(
    paths: &VmPaths,
    words: &ExecRequest,
    timeout: Option<Duration>,
    waits: &mut dyn FnMut(&[Execution]),
) -> Result<Ending, Error> {
    let mut told = false;
    let port = loop {
        is_ready(paths)?;
        if let Some(port) = Port::free(paths, 0..PORTS)? {
            break port;
        }
        if !told {
            told = true;
            waits(&executions(paths));
        }
        std::thread::sleep(GLANCE);
    };
    let command = match words.command.is_empty() {
        true => "a shell".to_owned(),
        false => words
            .command
            .iter()
            .map(|word| word.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" "),
    };
    port.is_for(&Execution {
        command,
        process: std::process::id(),
    });
    let session = Session::at_port(port.stream, &words.steps(), words.terminal.is_some())?;
    Ok(looking_after(paths, || session.run(timeout, false))??.0)
}

/// The commands that [`exec`] runs in a VM.
#[must_use]
pub fn executions(paths: &VmPaths) -> Vec<Execution> {
    let paths = (0..PORTS).map(|index| Port::lock_of(paths, index));
    let running = paths.filter_map(|path| {
        let file = File::open(path).ok()?;
        // Shared, so that two who ask do not take each other for a command.
        if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
            return None;
        }
        let mut text = String::new();
        (&file).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    });
    running.collect()
}

/// Waits until no command runs in a VM, and lets none begin as long as the result lives. `still` is
/// asked repeatedly whether to wait on.
pub(super) fn quiet(
    paths: &VmPaths,
    still: &dyn Fn() -> Result<(), Error>,
) -> Result<Vec<File>, Error> {
    let mut held = Vec::new();
    for index in 0..PORTS {
        let path = Port::lock_of(paths, index);
        let lock = Port::open_lock(&path).map_err(file("open", &path))?;
        while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            still()?;
            std::thread::sleep(GLANCE);
        }
        held.push(lock);
    }
    Ok(held)
}

/// Checks that commands can be let into a VM.
fn is_ready(paths: &VmPaths) -> Result<(), Error> {
    let now = condition(paths)?;
    if !matches!(now, Condition::Running | Condition::Busy) {
        return Err(Error::not_running(&paths.name, now));
    }
    if let Some(why) = unready(paths) {
        let (what, does) = match why {
            Unready::Booting => ("is booting", "starts"),
            Unready::Nameless => ("is a clone that does not know yet who it is", "clones"),
        };
        let hint = format!(
            "wait for the command that {does} it; if that was killed, brisk vm kill ends it"
        );
        return Err(Error::state(&paths.name, what, hint));
    }
    Ok(())
}

/// Has init execute a script without a command; the result is what init sent.
pub(super) fn tell(paths: &VmPaths, steps: &[Step], limit: Duration) -> Result<Vec<u8>, Error> {
    tell_while(paths, steps, limit, &|| Ok(()))
}

/// Has init execute a script as [`tell`] does; `still` is asked repeatedly whether to wait on.
pub(super) fn tell_while(
    paths: &VmPaths,
    steps: &[Step],
    limit: Duration,
    still: &dyn Fn() -> Result<(), String>,
) -> Result<Vec<u8>, Error> {
    let port = Port::free(paths, PORTS..ALL)?.ok_or_else(|| {
        let what = "is told something by another command of brisk's";
        Error::state(&paths.name, what, "try again when that has ended")
    })?;
    let said = converse(&port.stream, steps, true, limit, still);
    said.map_err(|reason| Error::Guest {
        reason,
        console: paths.runtime_files().console,
    })
}

/// A port that no other process uses.
struct Port {
    stream: UnixStream,
    lock: File,
}

impl Port {
    fn lock_of(paths: &VmPaths, index: u32) -> PathBuf {
        paths.runtime().join(format!("port{index}.lock"))
    }

    fn open_lock(path: &Path) -> io::Result<File> {
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600);
        options.open(path)
    }

    /// A free one of these ports, if there is one.
    fn free(paths: &VmPaths, range: Range<u32>) -> Result<Option<Self>, Error> {
        let off = || Error::not_running(&paths.name, Condition::Off);
        for index in range {
            let path = Self::lock_of(paths, index);
            let lock = match Self::open_lock(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(off()),
                other => other.map_err(file("open", &path))?,
            };
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            // Nobody takes it for the command before.
            let _ = lock.set_len(0);
            let socket = paths.runtime_files().port(index);
            return Ok(Some(Self {
                stream: reach(&socket)?.ok_or_else(off)?,
                lock,
            }));
        }
        Ok(None)
    }

    /// Records in the lock which command the port is for.
    fn is_for(&self, execution: &Execution) {
        let written = self.lock.set_len(0).and_then(|()| {
            let text = serde_json::to_vec(execution)?;
            (&self.lock).write_all(&text)
        });
        // It runs all the same.
        let _ = written;
    }
}

/// Receives the bytes that have come, or none after a moment.
fn listen(mut stream: &UnixStream, decoder: &mut Decoder) -> Result<(), String> {
    let mut buffer = [0; 4096];
    match stream.read(&mut buffer) {
        Ok(0) => return Err("QEMU ended".into()),
        Ok(count) => decoder.push(&buffer[..count]),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) => {}
        Err(error) => return Err(error.to_string()),
    }
    Ok(())
}

/// Sends a script and waits until init reports that it is executed, or that the command runs; the
/// result is the content of [`Step::SendFile`]. `still` is asked repeatedly whether to wait on.
pub(super) fn converse(
    mut stream: &UnixStream,
    steps: &[Step],
    hail: bool,
    limit: Duration,
    still: &dyn Fn() -> Result<(), String>,
) -> Result<Vec<u8>, String> {
    let script = encode(steps).map_err(|errno| format!("its script cannot be written: {errno}"))?;
    let text = |error: io::Error| error.to_string();
    stream.set_nonblocking(false).map_err(text)?;
    let glance = Some(Duration::from_millis(100));
    stream.set_read_timeout(glance).map_err(text)?;
    if hail {
        stream.write_all(&frame(Kind::Hail, &[])).map_err(text)?;
    }
    let mut script = Some(config_frames(&script));
    let mut decoder = Decoder::new();
    let mut told = Vec::new();
    let deadline = Instant::now() + limit;
    loop {
        while let Some(event) = decoder.next_event().map_err(|error| error.to_string())? {
            match event {
                Event::Hello(_) => {
                    if let Some(script) = script.take() {
                        stream.write_all(&script).map_err(text)?;
                    }
                }
                Event::Stdout(bytes) if told.len() + bytes.len() <= TOLD => told.extend(bytes),
                Event::Stdout(_) => return Err(format!("it told more than {TOLD} bytes")),
                Event::Started(_) => return Ok(told),
                Event::Failure {
                    stage,
                    errno,
                    subject,
                } => {
                    let reason = io::Error::from_raw_os_error(errno);
                    return Err(format!("init failed at {stage:?} of {subject}: {reason}"));
                }
                _ => {}
            }
        }
        still()?;
        if Instant::now() > deadline {
            return Err(format!("it said nothing for {} s", limit.as_secs()));
        }
        listen(stream, &mut decoder)?;
    }
}

/// Connects to a socket that a QEMU that was just started serves.
pub(super) fn connect(path: &Path) -> Result<UnixStream, Error> {
    UnixStream::connect(path).map_err(file("connect to", path))
}

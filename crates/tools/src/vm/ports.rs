//! Requests to init at the ports of a running VM.

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use brisk_host::files;
use brisk_vm::guest::{Decoder, Event, Kind, MAX_PAYLOAD, Step, config_frames, encode, frame};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;

use super::condition::Condition;
use super::error::{Error, file};
use super::paths::VmPaths;
use super::process::reach;

/// How many commands can run in a VM at once.
pub(super) const PORTS: u32 = 4;
/// One more, for what brisk itself asks of init.
pub(super) const ALL: u32 = PORTS + 1;

/// Most bytes of an answer of init: what it sends of one file.
pub(super) const MAX_ANSWER: usize = MAX_PAYLOAD;

/// Has init execute a script without a command; the result is what init sent.
pub(super) fn run_steps(
    paths: &VmPaths,
    steps: &[Step],
    limit: Duration,
) -> Result<Vec<u8>, Error> {
    run_steps_while(paths, steps, limit, &|| Ok(()))
}

/// Has init do something, with `still` asked from time to time whether that is still wanted.
pub(super) fn run_steps_while(
    paths: &VmPaths,
    steps: &[Step],
    limit: Duration,
    still: &dyn Fn() -> Result<(), String>,
) -> Result<Vec<u8>, Error> {
    let port = Port::free(paths, PORTS..ALL)?.ok_or_else(|| {
        let what = "executes steps of another command of brisk";
        Error::state(&paths.name, what, "try again when that has ended")
    })?;
    let answer = converse(&port.stream, steps, true, limit, still);
    answer.map_err(|reason| Error::Guest {
        reason,
        console: paths.runtime_files().console,
    })
}

/// A port nobody else uses.
pub(super) struct Port {
    pub(super) stream: UnixStream,
    lock: File,
}

impl Port {
    pub(super) fn lock_of(paths: &VmPaths, index: u32) -> PathBuf {
        paths.runtime().join(format!("port{index}.lock"))
    }

    /// One of these that nobody uses, if there is one.
    pub(super) fn free(paths: &VmPaths, range: Range<u32>) -> Result<Option<Self>, Error> {
        let off = || Error::not_running(&paths.name, Condition::Off);
        for index in range {
            let path = Self::lock_of(paths, index);
            let lock = match files::open_lock(&path) {
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

    /// Says for whom it is taken, to whoever looks into the lock.
    pub(super) fn is_for(&self, execution: &impl Serialize) {
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
    let mut answer = Vec::new();
    let deadline = Instant::now() + limit;
    loop {
        while let Some(event) = decoder.next_event().map_err(|error| error.to_string())? {
            match event {
                Event::Hello(_) => {
                    if let Some(script) = script.take() {
                        stream.write_all(&script).map_err(text)?;
                    }
                }
                Event::Stdout(bytes) if answer.len() + bytes.len() <= MAX_ANSWER => {
                    answer.extend(bytes)
                }
                Event::Stdout(_) => return Err(format!("it sent more than {MAX_ANSWER} bytes")),
                Event::Started(_) => return Ok(answer),
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
            return Err(format!("it sent nothing for {} s", limit.as_secs()));
        }
        listen(stream, &mut decoder)?;
    }
}

/// Connects to a socket that a QEMU that was just started serves.
pub(super) fn connect(path: &Path) -> Result<UnixStream, Error> {
    UnixStream::connect(path).map_err(file("connect to", path))
}

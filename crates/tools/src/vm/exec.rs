//! Commands that run in a VM, each at a port of its init.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use brisk_host::files;
use brisk_vm::guest::Step;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::error::{Error, file};
use super::live::{Unready, condition, unready};
use super::page_service::looking_after;
use super::paths::VmPaths;
use super::ports::{PORTS, Port};
use crate::guest::variables;
use crate::run::{Ending, Session};

/// How often it is looked whether a command has ended that another one waits for.
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
    /// Rows and columns of the terminal it runs on; none: pipes.
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

/// Runs a command in a VM. If as many run already as can at once, it waits for one of them to
/// end; `waits` is called with them.
///
/// # Errors
/// If the VM does not run.
pub fn exec(
    paths: &VmPaths,
    words: &ExecRequest,
    timeout: Option<Duration>,
    waits: &mut dyn FnMut(&[Execution]),
) -> Result<Ending, Error> {
    let mut notified = false;
    let port = loop {
        is_ready(paths)?;
        if let Some(port) = Port::free(paths, 0..PORTS)? {
            break port;
        }
        if !notified {
            notified = true;
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
        let file = files::open_regular(&path).ok()?;
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

/// Waits until no command runs in a VM, and lets none begin as long as the value lives.
/// `still` is asked from time to time whether that is still wanted.
pub(super) fn quiet(
    paths: &VmPaths,
    still: &dyn Fn() -> Result<(), Error>,
) -> Result<Vec<File>, Error> {
    let mut held = Vec::new();
    for index in 0..PORTS {
        let path = Port::lock_of(paths, index);
        let lock = files::open_lock(&path).map_err(file("open", &path))?;
        while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            still()?;
            std::thread::sleep(GLANCE);
        }
        held.push(lock);
    }
    Ok(held)
}

/// Whether commands can be let into a VM.
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

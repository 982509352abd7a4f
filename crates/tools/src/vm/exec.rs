//! Commands that run in a VM, each at a port of its init.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, Instant};

use brisk_host::files;
use brisk_vm::guest::Step;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::error::{Error, file};
use super::live::{Unready, condition, unready};
use super::page_service::looking_after;
use super::paths::VmPaths;
use super::ports::{ALL, MAX_ANSWER, PORTS, Port, converse};
use crate::guest::user::{self, Identity, Lone};
use crate::guest::{User, variables};
use crate::run::{Ending, Session};

/// How often it is looked whether a command has ended that another one waits for.
const GLANCE: Duration = Duration::from_millis(100);

/// Time that a guest has to send a file; a busy host takes seconds.
const ANSWER: Duration = Duration::from_secs(60);

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
    /// Its user, by the accounts of the VM; none: root.
    pub user: Option<User>,
    /// Rows and columns of the terminal it runs on; none: pipes.
    pub terminal: Option<(u16, u16)>,
}

impl ExecRequest {
    fn steps(&self, identity: Option<&Identity>) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut home = "/root";
        if let Some(identity) = identity {
            home = identity.home.as_deref().unwrap_or("/");
            steps.push(Step::User {
                user: identity.user,
                group: identity.group,
            });
        }
        if let Some((rows, columns)) = self.terminal {
            steps.push(Step::Terminal { rows, columns });
        }
        let more = self.env.iter().cloned();
        steps.extend(variables(home, self.terminal.is_some(), more));
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

/// A list of users or groups of a VM, as it is now.
struct List {
    text: String,
    /// Whether it is longer than what init sends.
    is_cut: bool,
}

impl List {
    /// None if that takes longer than `limit`.
    fn read(paths: &VmPaths, name: &str, limit: Instant) -> Result<Option<Self>, Error> {
        let path = format!("/etc/{name}");
        let steps = [Step::SendFile { path: path.clone() }];
        let port = loop {
            if let Some(port) = Port::free(paths, PORTS..ALL)? {
                break port;
            }
            if Instant::now() > limit {
                return Ok(None);
            }
            // Another command of brisk's asks for something.
            std::thread::sleep(GLANCE);
            is_ready(paths)?;
        };
        let left = limit.saturating_duration_since(Instant::now());
        let answer = converse(&port.stream, &steps, true, left, &|| Ok(()));
        let mut answer = match answer {
            Err(_) if Instant::now() > limit => return Ok(None),
            answer => answer.map_err(|reason| {
                let what = format!("does not show its {path}: {reason}");
                Error::state(
                    &paths.name,
                    &what,
                    "brisk vm console shows its last messages",
                )
            })?,
        };
        let is_cut = answer.len() == MAX_ANSWER;
        if is_cut {
            let end = answer.iter().rposition(|byte| *byte == b'\n');
            answer.truncate(end.unwrap_or_default());
        }
        let text = String::from_utf8_lossy(&answer).into_owned();
        Ok(Some(Self { text, is_cut }))
    }
}

/// Numbers and home of a user in a VM, by its files as they are now; None if that takes longer than
/// `limit`.
fn identity(paths: &VmPaths, who: &User, limit: Instant) -> Result<Option<Identity>, Error> {
    let Some(passwd) = List::read(paths, "passwd", limit)? else {
        return Ok(None);
    };
    let of_name = |name: &Option<String>| {
        name.as_ref()
            .is_some_and(|name| name.parse::<u32>().is_err())
    };
    let group = match of_name(&who.group) {
        true => List::read(paths, "group", limit)?,
        false => Some(List {
            text: String::new(),
            is_cut: false,
        }),
    };
    let Some(group) = group else {
        return Ok(None);
    };
    let unknown = |kind: &str, name: &str| {
        let (file, list) = match kind {
            "user" => ("passwd", &passwd),
            _ => ("group", &group),
        };
        let (part, hint) = match list.is_cut {
            true => (
                "the first 32 KiB of ",
                "give the numbers of user and group, USER:GROUP",
            ),
            false => ("", "give one that is there, or a number"),
        };
        let what = format!("has no {kind} {name:?} in {part}its /etc/{file}");
        Error::state(&paths.name, &what, hint)
    };
    let lone = match passwd.is_cut {
        true => Lone::NotKnown,
        false => Lone::Same,
    };
    user::find(who, &passwd.text, || Ok(group.text.clone()), lone, unknown).map(Some)
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
    is_ready(paths)?;
    // Root needs no account.
    let is_other = |who: &&User| who.user != "root" || who.group.is_some();
    let mut who = None;
    if let Some(user) = words.user.as_ref().filter(is_other) {
        let limit = timeout.map_or(ANSWER, |timeout| timeout.min(ANSWER));
        who = identity(paths, user, Instant::now() + limit)?;
        if who.is_none() {
            let what = "did not say in time who its users are";
            let hint = "brisk vm console shows its last messages";
            return match timeout {
                Some(timeout) if timeout < ANSWER => Ok(Ending::TimedOut {
                    started: false,
                    console: String::new(),
                }),
                _ => Err(Error::state(&paths.name, what, hint)),
            };
        }
    }
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
    let session = Session::at_port(
        port.stream,
        &words.steps(who.as_ref()),
        words.terminal.is_some(),
    )?;
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

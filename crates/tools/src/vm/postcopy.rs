//! Resuming with memory that comes later: the command's side.
//!
//! All is done by a process of its own, `brisk vm fill`, because it stays when the command ends:
//! it starts the machine, says that the guest runs, and serves memory until all is there.

use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use brisk_sys::wait_for;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::background::{self, Priority};
use super::error::{Error, file};
use super::lifecycle::Running;
use super::live::{Condition, condition};
use super::page_service::{is_postcopying, look_after};
use super::paths::VmPaths;
use super::resume::Resumed;

/// How often it is looked whether the user wants no more.
const GLANCE: Duration = Duration::from_millis(50);

/// How a lazy resume went.
#[derive(Debug, Clone, PartialEq)]
pub enum Postcopied {
    /// The guest runs.
    Runs(Resumed),
    /// It is not possible on this host, and nothing was done.
    Unable(String),
}

/// What the process says, in one line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Word {
    /// The guest runs: after how long, and its memory.
    Runs { running: Duration, memory: u64 },
    /// This host cannot.
    Unable(String),
    /// The user wanted no more.
    Interrupted,
    /// It failed.
    Failed(String),
    /// It was ended.
    Ended(String),
}

/// Goes on from a machine's image at once; its memory comes as the guest asks for it, and the
/// rest in the background, after this has returned. The image is used up by that.
///
/// # Errors
/// As of [`resume`](super::resume).
pub fn resume_postcopy(
    paths: &VmPaths,
    control: brisk_image::Control<'_>,
) -> Result<Postcopied, Error> {
    paths.definition()?;
    let begun = Instant::now();
    let command = background::command(&["vm", "fill", &paths.name], Priority::Usual);
    let mut command = command.map_err(file("find", "this program"))?;
    // Its first word; what it says later is in the machine's log.
    let started = command.stdout(Stdio::piped()).spawn();
    let mut child = started.map_err(file("start", command.get_program()))?;
    match listen(&mut child, control)? {
        Word::Runs { running, memory } => Ok(Postcopied::Runs(Resumed {
            running,
            memory,
            loading: Duration::ZERO,
        })),
        Word::Unable(reason) => {
            // It may still hold the lock.
            let _ = child.wait();
            Ok(Postcopied::Unable(reason))
        }
        Word::Interrupted => Err(Error::Interrupted),
        Word::Failed(text) => Err(Error::Told(text)),
        Word::Ended(text) => match runs_all_the_same(paths, control)? {
            true => Ok(Postcopied::Runs(Resumed {
                running: begun.elapsed(),
                memory: Running::of(paths)?.machine.memory.mib << 20,
                loading: Duration::ZERO,
            })),
            false => Err(Error::Told(text)),
        },
    }
}

/// Whether the guest runs though who resumed it was ended; another one serves it then.
fn runs_all_the_same(paths: &VmPaths, control: brisk_image::Control<'_>) -> Result<bool, Error> {
    while is_postcopying(paths)? && !control.cancelled() {
        if condition(paths)? == Condition::Running {
            return Ok(true);
        }
        std::thread::sleep(GLANCE);
    }
    Ok(condition(paths)? == Condition::Running)
}

/// Waits for its word; tells it when the user wants no more.
fn listen(child: &mut Child, control: brisk_image::Control<'_>) -> Result<Word, Error> {
    let said = |error| file("hear from", "the process that resumes")(error);
    let Some(mut stdout) = child.stdout.take() else {
        return Err(said(io::ErrorKind::BrokenPipe.into()));
    };
    let mut text = Vec::new();
    let mut told = false;
    loop {
        if control.cancelled() && !told {
            told = true;
            if let Some(pid) = Pid::from_raw(child.id() as i32) {
                // Fails only if it has ended.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        if !readable(&stdout).map_err(said)? {
            continue;
        }
        let mut buffer = [0; 4096];
        match stdout.read(&mut buffer).map_err(said)? {
            0 => break,
            count => text.extend(&buffer[..count]),
        }
        if text.ends_with(b"\n") {
            break;
        }
    }
    serde_json::from_slice(&text).or_else(|_| {
        let status = child.wait().map_err(said)?;
        let how = match status.signal() {
            Some(signal) => format!("was ended by signal {signal}"),
            None => "ended without a word".to_owned(),
        };
        Ok(Word::Ended(format!("the process that resumes {how}")))
    })
}

fn readable(stdout: &ChildStdout) -> io::Result<bool> {
    let mut fds = [PollFd::new(stdout, PollFlags::IN)];
    Ok(wait_for(&mut fds, Some(Instant::now() + GLANCE))? > 0)
}

/// A machine whose memory still comes cannot be saved.
pub(super) fn wait_until_filled(
    paths: &VmPaths,
    control: brisk_image::Control<'_>,
) -> Result<(), Error> {
    let mut said = false;
    while look_after(paths)? {
        if !said {
            said = true;
            paths.note("Waiting for the rest of its memory");
        }
        if control.cancelled() {
            return Err(Error::Interrupted);
        }
        std::thread::sleep(GLANCE);
    }
    Ok(())
}

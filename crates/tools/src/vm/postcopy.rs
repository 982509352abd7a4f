//! Postcopy resume, the command's side.
//!
//! The page server, the process `brisk vm fill`, does all of the work, because it lives longer than
//! the command: it starts the VM, reports that the guest runs, and serves memory until all has been
//! copied.

use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use brisk_host::files;
use brisk_sys::wait_for;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::background::{self, Priority};
use super::condition::Condition;
use super::error::{Error, file};
use super::live::condition;
use super::page_service::{is_postcopying, look_after};
use super::paths::VmPaths;
use super::resume::Resumed;
use super::running::Running;

/// Interval at which an interruption is noticed.
const GLANCE: Duration = Duration::from_millis(50);

/// Result of a postcopy resume.
#[derive(Debug, Clone, PartialEq)]
pub enum Postcopied {
    /// The guest runs.
    Runs(Resumed),
    /// It is not possible on this host, and nothing was done.
    Unable(String),
}

/// Report of the page server, in one line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Word {
    /// The guest runs: the time until then, and its memory.
    Runs { running: Duration, memory: u64 },
    /// This host does not support postcopy.
    Unable(String),
    /// The user cancelled.
    Interrupted,
    /// It failed.
    Failed(String),
    /// The process was ended.
    Ended(String),
}

/// Resumes a VM from its image at once; its memory is copied as the guest touches it, the rest in
/// the background, after this has returned. The image is used up.
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
    // Its first word; what it says later is in the VM's log.
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
        Word::Failed(text) => Err(Error::Reported(text)),
        Word::Ended(text) => match runs_all_the_same(paths, control)? {
            true => Ok(Postcopied::Runs(Resumed {
                running: begun.elapsed(),
                memory: Running::of(paths)?.machine.memory.mib << 20,
                loading: Duration::ZERO,
            })),
            false => Err(Error::Reported(text)),
        },
    }
}

/// Whether the guest runs though the process that resumed it was ended; another one serves it then.
fn runs_all_the_same(paths: &VmPaths, control: brisk_image::Control<'_>) -> Result<bool, Error> {
    while is_postcopying(paths)? && !control.cancelled() {
        if condition(paths)? == Condition::Running {
            return Ok(true);
        }
        std::thread::sleep(GLANCE);
    }
    Ok(condition(paths)? == Condition::Running)
}

/// Waits for the report; passes a cancellation on.
fn listen(child: &mut Child, control: brisk_image::Control<'_>) -> Result<Word, Error> {
    let failed = |error| file("hear from", "the process that resumes")(error);
    let Some(mut stdout) = child.stdout.take() else {
        return Err(failed(io::ErrorKind::BrokenPipe.into()));
    };
    let mut text = Vec::new();
    let mut notified = false;
    loop {
        if control.cancelled() && !notified {
            notified = true;
            if let Some(pid) = Pid::from_raw(child.id() as i32) {
                // Fails only if it has ended.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        if !readable(&stdout).map_err(failed)? {
            continue;
        }
        let mut buffer = [0; 4096];
        match stdout.read(&mut buffer).map_err(failed)? {
            0 => break,
            count => text.extend(&buffer[..count]),
        }
        if text.ends_with(b"\n") {
            break;
        }
    }
    serde_json::from_slice(&text).or_else(|_| {
        let status = child.wait().map_err(failed)?;
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

/// Checks that memory which is still to be copied can be read from the image.
///
/// # Errors
/// If the image is damaged.
pub(super) fn can_be_filled(paths: &VmPaths) -> Result<(), Error> {
    match files::read_regular_text(&paths.damaged()) {
        Ok(reason) => {
            let what = format!("cannot be suspended, as it lacks memory: {reason}");
            Err(Error::state(
                &paths.name,
                what,
                "brisk vm info says so, too",
            ))
        }
        Err(_) => Ok(()),
    }
}

/// Waits until all memory has been copied: before that a VM cannot be suspended.
pub(super) fn wait_until_filled(
    paths: &VmPaths,
    control: brisk_image::Control<'_>,
) -> Result<(), Error> {
    let mut noted = false;
    while look_after(paths)? {
        if !noted {
            noted = true;
            paths.note("Waiting for the rest of its memory");
        }
        can_be_filled(paths)?;
        if control.cancelled() {
            return Err(Error::Interrupted);
        }
        std::thread::sleep(GLANCE);
    }
    Ok(())
}

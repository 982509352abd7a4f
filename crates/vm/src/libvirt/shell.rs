//! A `virsh` process that reads commands from a pipe: a command takes a millisecond, and a domain
//! that was started with `--autodestroy` ends with the process, however brisk ends.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use brisk_sys::wait_for;
use rustix::event::{PollFd, PollFlags};

use super::virsh::{Error, Virsh};

/// Line that marks the end of a command's output. In the command that prints it, which `virsh`
/// echoes, the two words are quoted.
const DONE: &[u8] = b"brisk: done";
const SAY_DONE: &str = "echo 'brisk:' 'done'";
/// Interval at which an interruption by the user is noticed.
const GLANCE: Duration = Duration::from_millis(50);

/// Callback during a long command: whether to give up.
pub(super) type Stopped<'a> = &'a mut dyn FnMut() -> bool;

#[derive(Debug)]
pub(super) struct Shell {
    child: Child,
    /// `None` when the process is to end.
    input: Option<ChildStdin>,
}

impl Shell {
    pub(super) fn open(virsh: &Virsh) -> Result<Self, Error> {
        let watch = |source| Error::Watch {
            what: "start virsh",
            source,
        };
        let mut command = virsh.command(&[]);
        // Nothing of the user's set-up of readline, and no history.
        command
            .env("INPUTRC", "/dev/null")
            .env("VIRSH_HISTSIZE", "0");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(watch)?;
        let input = child.stdin.take();
        let mut shell = Self { child, input };
        for fd in [
            shell.child.stdout.as_ref().map(AsFd::as_fd),
            shell.child.stderr.as_ref().map(AsFd::as_fd),
        ] {
            let fd = fd.ok_or_else(|| watch(io::ErrorKind::BrokenPipe.into()))?;
            rustix::io::ioctl_fionbio(fd, true).map_err(|error| watch(error.into()))?;
        }
        // It has connected when it has answered.
        shell.call("uri", Duration::from_secs(30), &mut || false)?;
        Ok(shell)
    }

    /// Runs a command; the result is its output.
    pub(super) fn call(
        &mut self,
        command: &str,
        patience: Duration,
        stopped: Stopped<'_>,
    ) -> Result<String, Error> {
        let lost = |source| Error::Watch {
            what: "speak to virsh",
            source,
        };
        let input = self.input.as_mut();
        let input = input.ok_or_else(|| lost(io::ErrorKind::BrokenPipe.into()))?;
        let written = input.write_all(format!("{command}\n{SAY_DONE}\n").as_bytes());
        let deadline = Instant::now().checked_add(patience);
        let mut output = Vec::new();
        let mut errors = Vec::new();
        while memchr::memmem::find(&output, DONE).is_none() {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Error::TimedOut(command.to_owned()));
            }
            if stopped() {
                return Err(Error::Interrupted);
            }
            self.wait().map_err(lost)?;
            let more = take(self.child.stdout.as_mut(), &mut output).map_err(lost)?;
            take(self.child.stderr.as_mut(), &mut errors).map_err(lost)?;
            if !more {
                // What it had to say before it went is the reason.
                break;
            }
        }
        // What it complains of is written before it is done.
        take(self.child.stderr.as_mut(), &mut errors).map_err(lost)?;
        let reason = String::from_utf8_lossy(&errors);
        let ended = memchr::memmem::find(&output, DONE).is_none();
        if ended || reason.lines().any(|line| line.starts_with("error:")) {
            let reason = reason.trim().replace("error: ", "").replace('\n', ": ");
            return Err(Error::Refused {
                command: command.to_owned(),
                reason: if reason.is_empty() {
                    "it ended".into()
                } else {
                    reason
                },
            });
        }
        written.map_err(lost)?;
        Ok(reply(&String::from_utf8_lossy(&output), command))
    }

    fn wait(&self) -> io::Result<()> {
        let fds = [
            self.child.stdout.as_ref().map(AsFd::as_fd),
            self.child.stderr.as_ref().map(AsFd::as_fd),
        ];
        let mut fds: Vec<_> = fds
            .into_iter()
            .flatten()
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        wait_for(&mut fds, Some(Instant::now() + GLANCE)).map(drop)
    }
}

impl Drop for Shell {
    /// Ends the process: libvirt notices that, and destroys the domains that it started.
    fn drop(&mut self) {
        drop(self.input.take());
        crate::launch::end(&mut self.child);
    }
}

/// Reads the available bytes; whether more can come.
fn take(source: Option<&mut impl Read>, into: &mut Vec<u8>) -> io::Result<bool> {
    let Some(source) = source else {
        return Ok(false);
    };
    match source.read_to_end(into) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
    }
}

/// The output without prompts and echoes.
fn reply(output: &str, command: &str) -> String {
    output
        .lines()
        .map(|line| line.strip_prefix("virsh # ").unwrap_or(line).trim())
        .filter(|line| !line.is_empty() && *line != command && !line.starts_with("echo 'brisk:'"))
        .filter(|line| !line.starts_with("brisk: done"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of virsh 11.3.
    #[test]
    fn what_a_command_printed_is_told_from_prompts_and_echoes() {
        let output =
            "virsh # domstate plain\npaused\nvirsh # echo 'brisk:' 'done'\nbrisk: donevirsh # ";
        assert_eq!(reply(output, "domstate plain"), "paused");
        let later = "domstate plain\nshut off\n\nvirsh # echo 'brisk:' 'done'\nbrisk: done";
        assert_eq!(reply(later, "domstate plain"), "shut off");
        assert!(memchr::memmem::find(SAY_DONE.as_bytes(), DONE).is_none());
    }
}

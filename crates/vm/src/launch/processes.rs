//! QEMU and its daemons as children, with a guarantee that they end.

use std::io::{self, Read};
use std::process::{Child, ChildStderr, ExitStatus};

use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::daemon_watch::DaemonWatch;

/// A child that leads a process group. The whole group ends when the child does, or when this is
/// dropped: the program may be a script around QEMU.
#[derive(Debug)]
pub(super) struct Leader {
    child: Child,
    status: Option<ExitStatus>,
}

impl Leader {
    pub(super) fn new(child: Child) -> Self {
        Self {
            child,
            status: None,
        }
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Exit status of the child, if it has ended.
    pub(super) fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if self.status.is_none() && waitid(WaitId::Pid(self.pid()), look)?.is_some() {
            // Its number is its own until it is waited for.
            self.kill();
            self.status = Some(self.child.wait()?);
        }
        Ok(self.status)
    }

    fn kill(&self) {
        if self.status.is_none() {
            // Fails only if all have ended.
            let _ = kill_process_group(self.pid(), Signal::KILL);
        }
    }

    /// Ends the group now.
    pub(super) fn end(&mut self) {
        self.kill();
        self.status = self.child.wait().ok();
    }

    pub(super) fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.end();
    }
}

/// QEMU and its daemons. All end when this is dropped.
#[derive(Debug)]
pub(super) struct Processes {
    pub(super) qemu: Leader,
    daemons: Daemons,
    watch: DaemonWatch,
}

/// Daemons of a QEMU. All end when this is dropped.
#[derive(Debug)]
pub(super) struct Daemons(pub(super) Vec<Child>);

impl Drop for Daemons {
    fn drop(&mut self) {
        end_all(&mut self.0);
    }
}

impl Processes {
    pub(super) fn new(qemu: Child, daemons: Daemons) -> Self {
        let qemu = Leader::new(qemu);
        let watch = DaemonWatch::new(qemu.pid(), &daemons.0);
        Self {
            qemu,
            daemons,
            watch,
        }
    }

    pub(super) fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.qemu.status()?.is_some())
    }

    /// Ends all and returns their stderr.
    pub(super) fn kill(mut self) -> String {
        let failure = self.watch.failure().unwrap_or_default();
        self.end_all();
        let daemons = self.daemons.0.iter_mut().map(|child| child.stderr.take());
        failure + &stderr_of(std::iter::once(self.qemu.stderr()).chain(daemons))
    }

    fn end_all(&mut self) {
        self.qemu.kill();
        end_all(&mut self.daemons.0);
        self.qemu.end();
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.end_all();
    }
}

/// Stderr of processes that have ended.
pub(super) fn stderr_of(streams: impl IntoIterator<Item = Option<ChildStderr>>) -> String {
    let mut text = String::new();
    for stderr in streams.into_iter().flatten() {
        let mut bytes = Vec::new();
        // What they wrote is there. A program that they started may still be, and writes nothing
        // that is waited for: a wrapper around QEMU has one.
        if ioctl_fionbio(&stderr, true).is_ok() {
            let _ = stderr.take(super::MAX_STDERR).read_to_end(&mut bytes);
        }
        text.push_str(&String::from_utf8_lossy(&bytes));
    }
    text
}

/// Ends a child that has no state to save.
pub(crate) fn end(child: &mut Child) {
    end_all(std::slice::from_mut(child));
}

/// Ends children. All get the signal before any is waited for: they free their memory in parallel.
fn end_all(children: &mut [Child]) {
    for child in &mut *children {
        // Fails only for one that has ended and been reaped.
        let _ = child.kill();
    }
    for child in children {
        let _ = child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::wait_for;
    use rustix::event::{PollFd, PollFlags};
    use rustix::process::{PidfdFlags, pidfd_open};
    use std::io::BufRead;
    use std::os::fd::OwnedFd;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    /// A script that ends before what it started, and that.
    fn script() -> (Leader, OwnedFd) {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 >/dev/null & echo $!"]);
        let command = command.process_group(0).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        io::BufReader::new(output).read_line(&mut line).unwrap();
        let started = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        let started = pidfd_open(started, PidfdFlags::empty()).unwrap();
        (Leader::new(child), started)
    }

    /// Whether a process ends within a minute.
    fn ends(process: &OwnedFd) -> bool {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut fds = [PollFd::new(process, PollFlags::IN)];
        wait_for(&mut fds, Some(deadline)).unwrap() > 0
    }

    #[test]
    fn what_a_script_leaves_behind_ends_with_it() {
        let (mut leader, started) = script();
        let own = pidfd_open(leader.pid(), PidfdFlags::empty()).unwrap();
        assert!(ends(&own));
        let status = leader.status().unwrap();
        assert!(status.unwrap().success());
        assert!(ends(&started));
        // The number is not its own any more.
        assert_eq!(leader.status().unwrap(), status);
    }

    #[test]
    fn what_a_script_leaves_behind_ends_when_nobody_asked() {
        let (leader, started) = script();
        drop(leader);
        assert!(ends(&started));
    }

    #[test]
    fn what_was_said_is_read_though_somebody_could_say_more() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&writer, b"no such disk").unwrap();
        assert_eq!(stderr_of([Some(ChildStderr::from(reader))]), "no such disk");
        drop(writer);
    }
}

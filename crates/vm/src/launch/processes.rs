//! QEMU and its daemons as children, and making sure that they end.

use std::io::{self, Read};
use std::process::{Child, ChildStderr};

use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, kill_process_group};

/// All end when this is dropped.
#[derive(Debug)]
pub(super) struct Processes {
    pub(super) qemu: Child,
    daemons: Daemons,
    ended: bool,
}

/// What serves a QEMU. All end when this is dropped.
#[derive(Debug)]
pub(super) struct Daemons(pub(super) Vec<Child>);

impl Drop for Daemons {
    fn drop(&mut self) {
        end_all(self.0.iter_mut());
    }
}

impl Processes {
    pub(super) fn new(qemu: Child, daemons: Daemons) -> Self {
        Self {
            qemu,
            daemons,
            ended: false,
        }
    }

    pub(super) fn has_ended(&mut self) -> io::Result<bool> {
        self.ended = self.ended || self.qemu.try_wait()?.is_some();
        Ok(self.ended)
    }

    /// Ends all and returns what they wrote to stderr.
    pub(super) fn kill(mut self) -> String {
        self.end_all();
        let streams = std::iter::once(&mut self.qemu).chain(&mut self.daemons.0);
        said(streams.map(|child| child.stderr.take()))
    }

    fn end_all(&mut self) {
        let qemu = (!self.ended).then_some(&mut self.qemu);
        if let Some(qemu) = &qemu {
            kill_group(qemu);
        }
        end_all(qemu.into_iter().chain(&mut self.daemons.0));
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.end_all();
    }
}

/// What processes that have ended wrote to stderr.
pub(super) fn said(streams: impl IntoIterator<Item = Option<ChildStderr>>) -> String {
    let mut text = String::new();
    for stderr in streams.into_iter().flatten() {
        let mut bytes = Vec::new();
        // What they wrote is there. A program that they started may still be, and writes nothing
        // that is waited for: a wrapper around QEMU has one.
        if ioctl_fionbio(&stderr, true).is_ok() {
            let _ = stderr.take(super::SAID).read_to_end(&mut bytes);
        }
        text.push_str(&String::from_utf8_lossy(&bytes));
    }
    text
}

/// Kills a child that leads a process group and has not been waited for, with all that it started:
/// what is called QEMU may be a script around it.
pub(super) fn kill_group(leader: &Child) {
    // Fails only for one that has ended.
    let _ = kill_process_group(Pid::from_child(leader), Signal::KILL);
}

/// Ends a child of ours that has nothing to lose.
pub(crate) fn end(child: &mut Child) {
    end_all([child]);
}

/// All are told before any is waited for: they give their memory back side by side.
fn end_all<'a>(children: impl IntoIterator<Item = &'a mut Child>) {
    let mut children: Vec<_> = children.into_iter().collect();
    for child in &mut children {
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

    #[test]
    fn what_was_said_is_read_though_somebody_could_say_more() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&writer, b"no such disk").unwrap();
        assert_eq!(said([Some(ChildStderr::from(reader))]), "no such disk");
        drop(writer);
    }
}

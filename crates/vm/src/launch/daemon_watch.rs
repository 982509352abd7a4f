//! End of a QEMU whose daemon has failed.
//!
//! A guest waits for the answer of a virtiofsd that is gone, and its kernel ends no wait of that
//! kind: without its daemon it is of no use.

use std::fmt::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, pidfd_open, pidfd_send_signal,
    waitid,
};

/// Watches daemons until all have ended.
#[derive(Debug)]
pub(super) struct DaemonWatch(Receiver<WaitIdStatus>);

impl DaemonWatch {
    /// Kills `qemu` when one of the daemons fails. Where a pidfd cannot be had nothing is watched.
    pub(super) fn new(qemu: Pid, daemons: &[Child]) -> Self {
        let (sender, failures) = mpsc::channel();
        let open = |pid| pidfd_open(pid, PidfdFlags::empty());
        let all: Result<Vec<OwnedFd>, _> = daemons
            .iter()
            .map(|daemon| open(Pid::from_child(daemon)))
            .collect();
        if let (Ok(daemons), Ok(qemu)) = (all, open(qemu)) {
            thread::spawn(move || {
                if let Some(failure) = first_failure(daemons) {
                    // Before QEMU ends: who sees that asks why.
                    let _ = sender.send(failure);
                    // Fails only if it has ended.
                    let _ = pidfd_send_signal(&qemu, Signal::KILL);
                }
            });
        }
        Self(failures)
    }

    /// What to say of a daemon that has failed so far.
    pub(super) fn failure(&self) -> Option<String> {
        let status = self.0.try_recv().ok()?;
        let mut text = "virtiofsd, which serves directories of the host, ".to_owned();
        let _ = match (status.terminating_signal(), status.exit_status()) {
            (Some(signal), _) => writeln!(text, "was ended by signal {signal}"),
            (None, Some(status)) => writeln!(text, "failed with exit status {status}"),
            (None, None) => writeln!(text, "ended"),
        };
        Some(text)
    }
}

/// Status of the first daemon that fails; `None` if all end in order, as they do when QEMU has
/// closed their sockets.
fn first_failure(mut daemons: Vec<OwnedFd>) -> Option<WaitIdStatus> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while !daemons.is_empty() {
        let mut fds: Vec<_> = daemons
            .iter()
            .map(|daemon| PollFd::new(daemon, PollFlags::IN))
            .collect();
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
        let mut failed = None;
        daemons.retain(|daemon| match waitid(WaitId::PidFd(daemon.as_fd()), look) {
            Ok(None) => true,
            Ok(Some(status)) => {
                if status.exit_status() != Some(0) {
                    failed = Some(status);
                }
                false
            }
            // Somebody has waited for it: QEMU and its daemons are being ended.
            Err(_) => false,
        });
        if failed.is_some() {
            return failed;
        }
    }
    None
}

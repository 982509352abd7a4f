//! Processes that are ended by force.

use std::path::Path;

use brisk_host::proc::Procfs;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::Live;
use crate::reboot::quiesce::action::Action;

/// Whether the process of an [`Action::End`] lives: one that is not reaped has closed its files.
pub(super) fn lives(root: &Path, action: &Action) -> bool {
    let Action::End {
        pid, start_ticks, ..
    } = action
    else {
        return false;
    };
    let stat = Procfs::below(root).stat(*pid);
    stat.is_ok_and(|stat| stat.start_ticks == *start_ticks && !matches!(stat.state, 'Z' | 'X'))
}

impl Live {
    /// Ends a process by SIGTERM, and by SIGKILL if that takes half of the time.
    pub(super) fn end(&self, action: &Action) -> Result<(), String> {
        let Action::End { pid, .. } = action else {
            return Ok(());
        };
        let number = i32::try_from(*pid).ok().and_then(Pid::from_raw);
        let number = number.ok_or("it is no process number")?;
        let Ok(process) = pidfd_open(number, PidfdFlags::empty()) else {
            return Ok(());
        };
        // The descriptor stands for the process that has the number now.
        if !lives(&self.root, action) {
            return Ok(());
        }
        for signal in [Signal::TERM, Signal::KILL] {
            pidfd_send_signal(&process, signal).map_err(|error| error.to_string())?;
            let half = self.limit / 2;
            if self.wait(half, &self.interrupt, || !lives(&self.root, action)) {
                return Ok(());
            }
            if self.interrupt.came() {
                return Err("interrupted".to_owned());
            }
        }
        Err("it does not end by SIGKILL".to_owned())
    }
}

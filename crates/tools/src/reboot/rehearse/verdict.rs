//! What a rehearsal has shown.

use std::time::Duration;

use serde::Serialize;

use super::attachment::Bus;
use super::cmdline::Departure;
use super::console::Stage;
use super::goal::Goal;
use super::signs::Cause;
use crate::reboot::Target;

/// How a rehearsal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It reached the goal.
    Reached,
    /// The kernel panicked.
    Panicked,
    /// The file is no kernel that kexec takes, or is not whole.
    NoKernel,
    /// The kernel could not be decompressed.
    Corrupt,
    /// A shell for repairs waits for commands.
    Shell,
    /// Somebody has to type a passphrase.
    Passphrase,
    /// The kernel wrote nothing.
    Silent,
    /// It was not at the goal in time.
    Stopped,
    /// The machine reset itself.
    Reset,
    /// The machine powered off.
    PoweredOff,
}

/// What follows for a warm reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// Nothing speaks against it.
    Passed,
    /// It would end badly.
    Failed,
    /// A rehearsal cannot say it.
    Undecided,
}

impl Outcome {
    /// What follows from it.
    #[must_use]
    pub const fn judgement(self) -> Judgement {
        match self {
            Self::Reached => Judgement::Passed,
            Self::Passphrase => Judgement::Undecided,
            _ => Judgement::Failed,
        }
    }
}

/// A disk of a rehearsal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RehearsedDisk {
    /// Path of the image or device.
    pub path: String,
    /// What it was attached to in the VM.
    pub bus: Bus,
    /// Driver of this machine for it, if the VM has nothing for that.
    pub unlike: Option<String>,
    /// Bytes that this machine wrote to it meanwhile; none of an image.
    pub written_meanwhile: Option<u64>,
}

/// The VM of a rehearsal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RehearsedVm {
    /// Accelerator.
    pub accelerator: &'static str,
    /// Memory, MiB.
    pub memory_mib: u64,
    /// CPUs.
    pub cpus: u32,
    /// Disks.
    pub disks: Vec<RehearsedDisk>,
    /// Words that its command line has besides the target's.
    pub departures: Vec<Departure>,
}

/// What a rehearsal has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What was started.
    pub target: Target,
    /// What was to be reached.
    pub goal: Goal,
    /// How it ended.
    pub outcome: Outcome,
    /// How far it came.
    pub stage: Stage,
    /// Time from the start of QEMU to the end.
    pub took: Duration,
    /// The line that says it best, or why the file is no kernel.
    pub line: Option<String>,
    /// What the reason may be, with the lines that say so.
    pub causes: Vec<(Cause, String)>,
    /// The init of the root that was executed.
    pub init: Option<String>,
    /// What the kernel executed last, where it says so.
    pub program: Option<String>,
    /// The last lines of the console.
    pub last_lines: Vec<String>,
    /// The VM.
    pub vm: RehearsedVm,
    /// What to know of this rehearsal, one sentence each.
    pub notes: Vec<String>,
}

impl Verdict {
    /// What follows for a warm reboot.
    #[must_use]
    pub const fn judgement(&self) -> Judgement {
        self.outcome.judgement()
    }

    /// How it ended, a sentence without its end.
    #[must_use]
    pub fn sentence(&self) -> String {
        let goal = &self.goal;
        match self.outcome {
            Outcome::Reached => match (&self.init, goal) {
                (Some(init), Goal::Init) => format!("{init} of the root runs"),
                (None, Goal::Init) => "the root's init runs".to_owned(),
                (_, Goal::Userspace) => "systemd has started all of the root".to_owned(),
                (_, Goal::Unit(unit)) => format!("systemd has started {unit} of the root"),
            },
            Outcome::Panicked => "the kernel panics".to_owned(),
            Outcome::NoKernel => "the file is no kernel, or not a whole one".to_owned(),
            Outcome::Corrupt => "the kernel cannot be decompressed: its file is damaged".to_owned(),
            Outcome::Shell => format!("{} ends in a shell for repairs", self.stage.name()),
            Outcome::Passphrase => {
                "it asks for a passphrase: what comes after cannot be rehearsed".to_owned()
            }
            Outcome::Silent => "the kernel shows no sign of life".to_owned(),
            Outcome::Stopped => format!("it does not get beyond {} in time", self.stage.name()),
            Outcome::Reset => format!("the machine resets itself in {}", self.stage.name()),
            Outcome::PoweredOff => format!("the machine powers off in {}", self.stage.name()),
        }
    }

    /// What to do, of a rehearsal that did not pass.
    #[must_use]
    pub fn advice(&self) -> Option<String> {
        let unlike = self.vm.disks.iter().find_map(|disk| disk.unlike.as_ref());
        let cause = self.causes.first().map(|(cause, _)| *cause);
        let text = match (self.outcome, cause) {
            (Outcome::Reached, _) => return None,
            (Outcome::NoKernel | Outcome::Corrupt, _) => "install the kernel again",
            (Outcome::Passphrase, _) => {
                "what was proven is the kernel, and the initial RAM disk as far as the question; \
                 somebody has to type the passphrase after a warm reboot, too"
            }
            (Outcome::Silent, _) => {
                "install the kernel again; if it does not start in a VM either way, restart through \
                 the firmware and watch"
            }
            (_, Some(Cause::RootMissing)) if unlike.is_some() => {
                "compare root= with blkid; if it is right, this may be the VM's fault, which has not \
                 the disk's controller: rehearse with --disk, or restart through the firmware"
            }
            (_, Some(cause)) => cause.advice(),
            (Outcome::Stopped, None) => {
                "see the last lines; give it more time with --timeout if it was on its way"
            }
            (_, None) => "see the last lines; restart through the firmware, and watch",
        };
        Some(text.to_owned())
    }
}

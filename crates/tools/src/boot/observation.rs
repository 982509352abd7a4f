//! Observation: the record of one boot, which is the input of every analysis. Recorded observations
//! of real boots are test data.

use brisk_measure::Clock;
use serde::{Deserialize, Serialize};

/// Bytes that arrived together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Time, in ticks of [`Observation::clock`] since QEMU was executed.
    pub at: u64,
    /// Text. Hostile; bytes that are not UTF-8 are replaced.
    pub text: String,
}

/// An event with its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedEvent {
    /// Time, in ticks of its clock.
    pub at: u64,
    /// Name.
    pub name: String,
}

/// Name of the timestamp at which init had its script.
pub(crate) const SCRIPT: &str = "script received";
/// Name of the timestamp at which init sent the exit status.
pub(crate) const SENT: &str = "exit status sent";

/// One boot, from the execution of QEMU to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Clock of everything but the guest's own times: the host's, or instructions.
    pub clock: Clock,
    /// The serial console, firmware and kernel alike, in pieces as they arrived.
    #[serde(default)]
    pub console: Vec<Piece>,
    /// The firmware's debug console (port 0x402), where there is one.
    #[serde(default)]
    pub firmware: Vec<Piece>,
    /// Events of brisk, by the names of [`crate::run::Milestone::name`]: `QEMU executed` (at 0),
    /// `QEMU up`, `exit status received`, `QEMU ended`; and `ready` for the ready condition.
    #[serde(default)]
    pub moments: Vec<TimedEvent>,
    /// Events of QMP by their names.
    #[serde(default)]
    pub qmp: Vec<TimedEvent>,
    /// Timestamps of brisk's init, by the names of [`crate::run::Milestone::name`] and also `script
    /// received` and `exit status sent`, in nanoseconds of the guest's `CLOCK_MONOTONIC`, which is
    /// that of printk.
    #[serde(default)]
    pub stamps: Vec<TimedEvent>,
    /// Offset to add to the guest's times to get those of [`Observation::clock`], if known.
    #[serde(default)]
    pub guest_offset: Option<i64>,
    /// Time stamp counter at the timestamp `init started`; with the instruction clock, the
    /// instructions executed until then.
    #[serde(default)]
    pub cycles: Option<u64>,
    /// Instructions executed until the kernel was entered, if there was a breakpoint.
    #[serde(default)]
    pub entered: Option<u64>,
    /// Records of `/dev/kmsg`, each a line `priority,sequence,microseconds,flags;text`, as init
    /// read them when the command had ended. Empty if they were not asked for. With
    /// `initcall_debug` they have the kernel's initcalls; init's steps are lines `brisk: begin
    /// WHAT` and `brisk: end WHAT`.
    #[serde(default)]
    pub log: String,
}

/// Most QEMU events that are kept: a boot has less than a hundred, and some of them a guest can
/// cause without end.
const MOST_EVENTS: usize = 4096;

impl Observation {
    /// Time of the first event of this name, among brisk's own.
    #[must_use]
    pub fn moment(&self, name: &str) -> Option<u64> {
        find(&self.moments, name)
    }

    /// Time of init's timestamp of this name, on the guest's clock.
    #[must_use]
    pub fn stamp(&self, name: &str) -> Option<u64> {
        find(&self.stamps, name)
    }

    /// Adds a timestamp of init's. The first of each name counts: a guest can send them without
    /// end.
    pub(super) fn add_stamp(&mut self, at: u64, name: &str) {
        if self.stamp(name).is_none() {
            let name = name.to_owned();
            self.stamps.push(TimedEvent { at, name });
        }
    }

    /// Adds a QEMU event, if there are not too many of them.
    pub(super) fn add_event(&mut self, at: u64, name: String) {
        if self.qmp.len() < MOST_EVENTS {
            self.qmp.push(TimedEvent { at, name });
        }
    }
}

fn find(list: &[TimedEvent], name: &str) -> Option<u64> {
    list.iter()
        .find(|event| event.name == name)
        .map(|event| event.at)
}

/// End of a boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The milestone was reached.
    Reached,
    /// The boot failed, with the reason.
    Failed(String),
    /// The time limit passed.
    TimedOut,
    /// The user interrupted.
    Interrupted(i32),
}

//! What one boot showed, as it was seen: the input of every analysis, and what is kept of a real
//! boot to test one.

use brisk_measure::Clock;
use serde::{Deserialize, Serialize};

/// Bytes that arrived together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// When, in ticks of [`Observation::clock`] since QEMU was executed.
    pub at: u64,
    /// What. Hostile text; bytes that are no UTF-8 are replaced.
    pub text: String,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedEvent {
    /// When, in ticks of its clock.
    pub at: u64,
    /// What.
    pub name: String,
}

/// When init had its script, among the stamps.
pub(crate) const SCRIPT: &str = "script received";
/// When init sent the exit status, among the stamps.
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
    /// What brisk did or saw, by the names of [`crate::run::Milestone::name`]: `QEMU executed` (at
    /// 0), `QEMU up`, `exit status received`, `QEMU ended`; and `ready` for the ready marker.
    #[serde(default)]
    pub moments: Vec<TimedEvent>,
    /// Events of QMP by their names.
    #[serde(default)]
    pub qmp: Vec<TimedEvent>,
    /// What brisk's init noted, by the names of [`crate::run::Milestone::name`] and, besides, `script
    /// received` and `exit status sent`, in nanoseconds of
    /// the guest's `CLOCK_MONOTONIC`, which is that of printk.
    #[serde(default)]
    pub stamps: Vec<TimedEvent>,
    /// What to add to the guest's times to get those of [`Observation::clock`], if known.
    #[serde(default)]
    pub guest_offset: Option<i64>,
    /// The time stamp counter at the stamp `init started`; with the clock of instructions, those
    /// executed until then.
    #[serde(default)]
    pub cycles: Option<u64>,
    /// Instructions executed until the kernel was entered, if there was a breakpoint.
    #[serde(default)]
    pub entered: Option<u64>,
    /// Records of `/dev/kmsg`, each a line `priority,sequence,microseconds,flags;text`, as init
    /// read them when the command had ended. Empty if it was not asked to. With `initcall_debug`
    /// the kernel's initcalls are among them; what init did is there as lines `brisk: begin WHAT`
    /// and `brisk: end WHAT`.
    #[serde(default)]
    pub log: String,
}

impl Observation {
    /// When the first event of this name was, among brisk's own.
    #[must_use]
    pub fn moment(&self, name: &str) -> Option<u64> {
        find(&self.moments, name)
    }

    /// When init noted this, on the guest's clock.
    #[must_use]
    pub fn stamp(&self, name: &str) -> Option<u64> {
        find(&self.stamps, name)
    }
}

fn find(list: &[TimedEvent], name: &str) -> Option<u64> {
    list.iter()
        .find(|event| event.name == name)
        .map(|event| event.at)
}

//! Rehearses a restart: boots the kernel, initial RAM disks and command line of a target in a VM, on
//! the disks of this machine, of which nothing is changed.
//!
//! The VM reads the disks, and what it writes goes to a layer in memory. [`rehearse`] watches its
//! console until the root's init runs, or a unit of its systemd, and returns a [`Verdict`] with what
//! it saw. The kernel is made to report the programs that it executes, by which the init of the root
//! is told from that of the initial RAM disk.

mod argv;
mod attachment;
mod cmdline;
mod console;
mod disks;
mod emulator;
mod files;
mod goal;
mod layer;
mod notes;
mod report;
mod request;
mod run;
mod signs;
mod verdict;
mod watch;

pub use attachment::{Attachment, Bus};
pub use cmdline::Departure;
pub use console::Stage;
pub use disks::{DisksError, HostDisk};
pub use goal::{Goal, NoGoal};
pub use report::SCHEMA;
pub use request::{Origin, RehearseError, Request, Step};
pub use run::rehearse;
pub use signs::Cause;
pub use verdict::{Judgement, Outcome, RehearsedDisk, RehearsedVm, Verdict};

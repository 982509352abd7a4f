//! A machine of several NUMA nodes in QEMU, with a kernel that replicates its text.
//!
//! [`BuiltKernel`] is what `setup/ktext-kernel` leaves, [`Plan`] the machine, and [`Machine`] one that
//! runs: its only program takes steps from brisk, see [`worker`](super::worker).

mod argv;
mod console;
mod initramfs;
mod kernel;
mod machine;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use brisk_vm::launch;
use brisk_vm::qemu::ChoiceError;

pub use argv::Plan;
pub use kernel::BuiltKernel;
pub(super) use machine::{FILES, Machine, Plugin};

use super::FormatError;
use super::worker::WorkerError;

/// Nodes of an emulated machine.
pub const NODES: std::ops::RangeInclusive<u32> = 1..=8;
/// CPUs of all its nodes at most: those of the kernel of `kernel/ktext/config`.
pub const MOST_CPUS: u32 = 16;

/// Why there is no such machine, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum EmulationError {
    /// No kernel is named, and none is where set-up puts it.
    #[error(
        "no kernel with replication is built here: run make kernel in brisk's source, or name the \
         directory of one with --kernel"
    )]
    NoKernel,
    /// A file of the kernel's directory.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The plugin runs in QEMU.
    #[error(
        "{} can be changed by other users, and QEMU would run it: take the rights from them, or build \
         the kernel elsewhere", .0.display()
    )]
    Untrusted(PathBuf),
    /// What was asked for does not fit.
    #[error("{0}")]
    Unfit(String),
    /// There is no QEMU.
    #[error("no QEMU for the machine")]
    Qemu(#[from] ChoiceError),
    /// There is too little memory.
    #[error(
        "the machine takes {} MiB of memory, and {} MiB are available: fewer nodes, or --node-memory",
        needed >> 20, available >> 20
    )]
    Memory {
        /// Memory that it takes, bytes.
        needed: u64,
        /// Available memory, bytes.
        available: u64,
    },
    /// Memory or files of the machine.
    #[error("cannot prepare the machine")]
    Prepare(#[source] io::Error),
    /// QEMU cannot be started.
    #[error(transparent)]
    Launch(#[from] launch::Error),
    /// The machine cannot be watched.
    #[error("cannot watch the machine")]
    Watch(#[source] io::Error),
    /// QEMU failed before its guest did something.
    #[error("QEMU ended by itself: {0}")]
    OfQemu(String),
    /// The guest was off before it should be.
    #[error("the guest ended by itself. Its console ends with:\n{0}")]
    Ended(String),
    /// A step did not end.
    #[error("the guest hangs: \"{step}\" took more than {} s. Its console ends with:\n{console}", limit.as_secs())]
    Hangs {
        /// What it was to do.
        step: String,
        /// The limit.
        limit: Duration,
        /// The last lines.
        console: String,
    },
    /// The kernel has no replication.
    #[error(
        "the kernel in {} has no replication of its text, or no debugfs: build it with make kernel",
        .0.display()
    )]
    NotBuilt(PathBuf),
    /// It has, and does not replicate.
    #[error("the guest's kernel does not replicate its text: {0}")]
    Off(String),
    /// A file of the guest's kernel.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The guest's program.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// A signal asked for the end.
    #[error("interrupted")]
    Interrupted(i32),
}

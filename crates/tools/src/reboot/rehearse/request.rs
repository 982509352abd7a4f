//! A request, the progress that is shown, and reasons why nothing can be rehearsed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use brisk_vm::launch;
use brisk_vm::qemu::ChoiceError;

use super::console::Stage;
use super::disks::DisksError;
use super::goal::Goal;
use crate::reboot::Target;
use crate::reboot::load::LoadError;

/// The disks of a rehearsal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Those that this machine's system is on.
    System,
    /// These images and block devices.
    Named(Vec<PathBuf>),
}

/// A rehearsal that is asked for.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Kernel that is started. Its paths are opened as they are.
    pub target: &'a Target,
    /// Disks.
    pub disks: Origin,
    /// How far it goes.
    pub goal: Goal,
    /// Time from the start of the VM to the goal, at most.
    pub limit: Duration,
    /// Memory of the VM, MiB; none: 1 GiB, more for a large initial RAM disk, less on a small host.
    pub memory_mib: Option<u64>,
    /// CPUs of the VM.
    pub cpus: u32,
}

/// Activity of a rehearsal, for people who wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// Before the VM runs.
    Preparing(&'a str),
    /// The VM runs.
    Running {
        /// How far it has come.
        stage: Stage,
        /// Time since its start.
        since: Duration,
    },
}

/// Reason why nothing was rehearsed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RehearseError {
    /// The disks are not known.
    #[error(transparent)]
    Disks(#[from] DisksError),
    /// A disk that was named.
    #[error("cannot use a disk")]
    Image(#[source] brisk_rootfs::Error),
    /// A disk cannot be opened.
    #[error("cannot open {} to read it{}", path.display(), as_root(source))]
    Open {
        /// The disk.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The kernel or an initial RAM disk.
    #[error(transparent)]
    Files(#[from] LoadError),
    /// There is no QEMU.
    #[error("no QEMU to rehearse in")]
    Qemu(#[from] ChoiceError),
    /// The command line gets too long.
    #[error(
        "the command line has {length} bytes with the words that make the VM talk, and the kernel \
         takes {most}: it cannot be rehearsed unless it is shorter"
    )]
    CommandLine {
        /// Its length, bytes.
        length: usize,
        /// Length that the kernel takes, bytes.
        most: usize,
    },
    /// There is too little memory.
    #[error(
        "a rehearsal takes up to {} MiB of memory, and {} MiB are available: give the VM less with \
         --memory, or stop something", needed >> 20, available >> 20
    )]
    Memory {
        /// Memory that it takes, bytes.
        needed: u64,
        /// Available memory, bytes.
        available: u64,
    },
    /// The layer in memory.
    #[error("cannot have memory for what the VM writes")]
    Layer(#[source] io::Error),
    /// QEMU cannot be started.
    #[error(transparent)]
    Launch(#[from] launch::Error),
    /// The VM cannot be watched.
    #[error("cannot watch the VM")]
    Watch(#[source] io::Error),
    /// QEMU failed.
    #[error("QEMU ended by itself: {0}")]
    Ended(String),
    /// A signal asked for the end.
    #[error("interrupted")]
    Interrupted(i32),
}

fn as_root(error: &io::Error) -> &'static str {
    let is_root = rustix::process::geteuid().is_root();
    match error.kind() {
        io::ErrorKind::PermissionDenied if is_root => {
            "; a container or a security module forbids it to root: rehearse on the machine itself"
        }
        io::ErrorKind::PermissionDenied => "; rehearse as root",
        _ => "",
    }
}

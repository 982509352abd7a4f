//! Errors of commands on persistent VMs.

use std::io;
use std::path::{Path, PathBuf};

use brisk_vm::launch;
use brisk_vm::libvirt;
use brisk_vm::qemu::control;
use rustix::io::Errno;

use super::condition::Condition;
use super::definition::DefinitionError;
use super::late::Late;
use crate::guest;

/// Error of a command on a persistent VM.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such VM.
    #[error("there is no VM {name}; brisk vm list shows those there are")]
    Unknown {
        /// Name of the VM.
        name: String,
    },
    /// The VM's definition is gone, and other files of it exist.
    #[error(
        "{} is not there, the definition of {name}: it was renamed or removed, and what {name} has \
         otherwise was not; put it back, or remove the rest with brisk vm kill and brisk vm rm",
        path.display()
    )]
    Undefined {
        /// Name of the VM.
        name: String,
        /// Path that the definition had.
        path: PathBuf,
    },
    /// There is a VM of this name.
    #[error("there is a VM {name} already; choose another name, or remove it with brisk vm rm")]
    Exists {
        /// Name of the VM.
        name: String,
    },
    /// No VM can have this name.
    #[error(
        "{name:?} cannot name a VM: write letters, digits, - _ and ., up to 64, a letter or digit first"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The definition is wrong.
    #[error("{}", path.display())]
    Definition {
        /// The file.
        path: PathBuf,
        /// The defect.
        source: DefinitionError,
    },
    /// Another command works on the VM.
    #[error("another command works on {name}: {holder}; wait for it to end")]
    Busy {
        /// Name of the VM.
        name: String,
        /// The other command.
        holder: String,
    },
    /// The VM is in another state than the command needs.
    #[error("{name} {what}; {hint}")]
    State {
        /// Name of the VM.
        name: String,
        /// Its state.
        what: String,
        /// Hint for the user.
        hint: String,
    },
    /// This host's key is gone, and images are encrypted to it.
    #[error(
        "this host's key {} is not there, and images of VMs are encrypted to it ({names}): put it \
         back from its backup; where there is none, brisk vm discard gives these VMs up, and the \
         next suspend makes a new key",
        key.display()
    )]
    KeyLost {
        /// The key's file.
        key: PathBuf,
        /// Names of the VMs.
        names: String,
    },
    /// The VM is suspended, and no record says so.
    #[error(
        "{name} is suspended to {}, and that could not be noted: no other guest is kept from its disks",
        image.display()
    )]
    NotNoted {
        /// Name of the VM.
        name: String,
        /// Its image.
        image: PathBuf,
        /// Why not.
        source: Box<Self>,
    },
    /// A file of the VM cannot be read or written.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// The action.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A copy of a disk would not fit.
    #[error(
        "{} has {} MB free, and the clone's own disk needs {} MB; free some space there",
        path.display(), free / 1_000_000, needed.div_ceil(1_000_000)
    )]
    Space {
        /// The directory.
        path: PathBuf,
        /// Bytes that would be copied.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// QEMU ended.
    #[error("QEMU ended: {stderr}")]
    QemuEnded {
        /// The end of its stderr.
        stderr: String,
    },
    /// The guest did not boot.
    #[error("the guest did not come up: {reason}; its console is in {}", console.display())]
    Guest {
        /// Known reason.
        reason: String,
        /// File of the console.
        console: PathBuf,
    },
    /// The host differs from what the image needs.
    #[error("{} cannot be resumed here: {reason}", path.display())]
    Unlike {
        /// The image.
        path: PathBuf,
        /// The difference.
        reason: String,
    },
    /// The VM was to be suspended when the host shuts down.
    #[error("it was not suspended, {then}")]
    NotSuspended {
        /// What was done instead.
        then: &'static str,
        /// Reason.
        source: Box<Error>,
    },
    /// A guest would not be suspended in time.
    #[error("{0}")]
    Late(Late),
    /// libvirt, or a domain of it.
    #[error(transparent)]
    Libvirt(libvirt::Error),
    /// There is no directory for the VM's files.
    #[error("{0}")]
    Nowhere(String),
    /// Message of the process that resumes.
    #[error("{0}")]
    Reported(String),
    /// A postcopy resume failed.
    #[error(transparent)]
    Migration(#[from] brisk_vm::migration::Failure),
    /// A signal ended the command.
    #[error("interrupted")]
    Interrupted,
    /// Planning or building of the guest failed.
    #[error(transparent)]
    Run(#[from] guest::Error),
    /// QEMU could not be started.
    #[error("cannot start the VM")]
    Launch(#[from] launch::Error),
    /// QEMU refused a command.
    #[error(transparent)]
    Control(#[from] control::Error),
    /// The image cannot be used.
    #[error(transparent)]
    Image(#[from] brisk_image::Error),
}

impl Error {
    pub(super) fn state(name: &str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::State {
            name: name.to_owned(),
            what: what.into(),
            hint: hint.into(),
        }
    }

    /// The VM should not run, and does.
    pub(super) fn runs_already(name: &str) -> Self {
        Self::state(name, "runs already", "brisk vm exec runs a command in it")
    }

    /// The VM has ended.
    pub(super) fn has_ended(name: &str) -> Self {
        Self::state(name, "has ended", "brisk vm start starts it")
    }

    /// QEMU ended while it loaded the image.
    pub(super) fn ended_loading(name: &str) -> Self {
        let what = "ended while its state was loaded";
        Self::state(name, what, "its qemu.log says why")
    }

    /// The error, or `Interrupted` where the user's cancellation caused it.
    pub(super) fn or_interrupted(self) -> Self {
        match self {
            Self::Image(brisk_image::Error::Cancelled) => Self::Interrupted,
            other => other,
        }
    }

    /// The VM is suspended, and its image is missing.
    pub(super) fn missing(name: &str, image: &Path) -> Self {
        let what = format!(
            "is suspended to {}, which is not there, or not where its definition says",
            image.display()
        );
        let hint = "mount its file system, or move it back; brisk vm discard forgets it";
        Self::state(name, what, hint)
    }

    /// The VM is suspended, and its state directory is missing.
    pub(super) fn away(name: &str, image: &Path, state: &Path) -> Self {
        let what = format!(
            "is suspended to {}, and its state directory {} is missing",
            image.display(),
            state.display()
        );
        let hint = "mount its file system, or put it back from a backup; brisk vm discard forgets the \
                    suspended guest";
        Self::state(name, what, hint)
    }

    /// The VM is suspended, and another image than its own was found.
    pub(super) fn replaced(name: &str, image: &Path, other: &Path) -> Self {
        let what = format!(
            "is suspended to {}, but {} is not the image of that suspend: it may be an older one from \
             a backup, or another VM's",
            image.display(),
            other.display()
        );
        let hint = "put the right one back. If the one that is there counts, as after a resume on \
                    another host, move it away, let brisk vm discard forget the recorded one, and \
                    move it back";
        Self::state(name, what, hint)
    }

    /// The VM should run, and is in another state.
    pub(super) fn not_running(name: &str, now: Condition) -> Self {
        let (what, hint) = match now {
            Condition::Suspended => ("is suspended", "brisk vm resume goes on from there"),
            Condition::Missing => (
                "is suspended, and its image is not there",
                "mount its file system, or move it back; brisk vm info names it",
            ),
            Condition::CutOff => (
                "does not run, and its last resume was cut off",
                "brisk vm resume --again goes on from its image, if its disks are what they were",
            ),
            Condition::Paused => ("stands still", "brisk vm resume has it go on"),
            Condition::Busy => ("does not answer", "brisk vm kill ends it"),
            Condition::Off | Condition::Running => ("does not run", "brisk vm start starts it"),
        };
        Self::state(name, what, hint)
    }

    /// Hint for the user, where a lower layer has one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Run(error) => error.hint(),
            Self::Image(error) => error.hint().map(str::to_owned),
            Self::NotNoted { .. } => Some("resume it before its disks are used".to_owned()),
            Self::NotSuspended { source, .. } => source.hint(),
            Self::QemuEnded { stderr: text }
            | Self::Control(control::Error::Refused { reason: text, .. })
                if text.contains("lock") =>
            {
                Some("another VM or another program has one of its disks".to_owned())
            }
            Self::File { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space there".to_owned())
            }
            Self::File { source, .. } if Errno::from_io_error(source) == Some(Errno::LOOP) => {
                Some("a link there leads to itself: remove it, or change where it leads".to_owned())
            }
            _ => None,
        }
    }
}

impl From<libvirt::Error> for Error {
    fn from(error: libvirt::Error) -> Self {
        match error {
            libvirt::Error::Interrupted => Self::Interrupted,
            error => Self::Libvirt(error),
        }
    }
}

/// For `map_err`: an error of an action on a file.
pub(super) fn file(
    doing: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> Error {
    let path = path.into();
    move |source| Error::File {
        doing,
        path,
        source,
    }
}

//! Why something did not become of a machine.

use std::io;
use std::path::{Path, PathBuf};

use brisk_vm::launch;
use brisk_vm::qemu::control;

use super::definition::DefinitionError;
use super::live::Condition;
use crate::guest;

/// What stood in the way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such machine.
    #[error("there is no machine {name}; brisk vm list shows those there are")]
    Unknown {
        /// Its name.
        name: String,
    },
    /// Its definition is gone, and other files of its are there.
    #[error(
        "{} is not there, the definition of {name}: it was renamed or removed, and what {name} has \
         otherwise was not; put it back, or remove the rest with brisk vm kill and brisk vm rm",
        path.display()
    )]
    Undefined {
        /// Its name.
        name: String,
        /// Where its definition was.
        path: PathBuf,
    },
    /// There is one already.
    #[error(
        "there is a machine {name} already; choose another name, or remove it with brisk vm rm"
    )]
    Exists {
        /// Its name.
        name: String,
    },
    /// A name that cannot be.
    #[error(
        "{name:?} cannot name a machine: write letters, digits, - _ and ., up to 64, a letter or digit first"
    )]
    Name {
        /// It.
        name: String,
    },
    /// Its definition is wrong.
    #[error("{}", path.display())]
    Definition {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: DefinitionError,
    },
    /// Another command works on it.
    #[error("another command works on {name}: {holder}; wait for it to end")]
    Busy {
        /// The machine.
        name: String,
        /// Who.
        holder: String,
    },
    /// It is not in the state for that.
    #[error("{name} {what}; {hint}")]
    State {
        /// The machine.
        name: String,
        /// What it is.
        what: String,
        /// What to try.
        hint: String,
    },
    /// A file of the machine's.
    #[error("cannot {doing} {}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
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
    /// QEMU did not like what it was given.
    #[error("QEMU ended: {said}")]
    QemuEnded {
        /// Its last words.
        said: String,
    },
    /// The guest did not come up.
    #[error("the guest did not come up: {reason}; its console is in {}", console.display())]
    Guest {
        /// What is known.
        reason: String,
        /// Where the rest is.
        console: PathBuf,
    },
    /// What the image was made of is not what is here.
    #[error("{} cannot be resumed here: {reason}", path.display())]
    Unlike {
        /// The image.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// It was to be suspended when this host goes down.
    #[error("it was not suspended, {then}")]
    NotSuspended {
        /// What became of it.
        then: &'static str,
        /// Why.
        source: Box<Error>,
    },
    /// No directories.
    #[error("{0}")]
    Nowhere(String),
    /// What the process that resumes said.
    #[error("{0}")]
    Told(String),
    /// Memory that comes later.
    #[error(transparent)]
    Migration(#[from] brisk_vm::migration::Failure),
    /// A signal.
    #[error("interrupted")]
    Interrupted,
    /// Planning and packing.
    #[error(transparent)]
    Run(#[from] guest::Error),
    /// Starting QEMU.
    #[error("cannot start the machine")]
    Launch(#[from] launch::Error),
    /// QEMU's answers.
    #[error(transparent)]
    Control(#[from] control::Error),
    /// The image.
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

    /// It should not run, and does.
    pub(super) fn runs_already(name: &str) -> Self {
        Self::state(name, "runs already", "brisk vm exec runs a command in it")
    }

    /// It did run, and does no more.
    pub(super) fn has_ended(name: &str) -> Self {
        Self::state(name, "has ended", "brisk vm start starts it")
    }

    /// QEMU could not go on from what it was given.
    pub(super) fn ended_loading(name: &str) -> Self {
        let what = "ended while its state was loaded";
        Self::state(name, what, "its qemu.log says why")
    }

    /// The same error, unless it is only that the user wanted no more.
    pub(super) fn or_interrupted(self) -> Self {
        match self {
            Self::Image(brisk_image::Error::Cancelled) => Self::Interrupted,
            other => other,
        }
    }

    /// It is suspended, and its image is gone.
    pub(super) fn missing(name: &str, image: &Path) -> Self {
        let what = format!(
            "is suspended to {}, which is not there, or not where its definition says",
            image.display()
        );
        let hint = "mount its file system, or move it back; brisk vm discard forgets it";
        Self::state(name, what, hint)
    }

    /// It should run, and does something else.
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

    /// What the user can try, where a lower layer knows.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Run(error) => error.hint(),
            Self::Image(error) => error.hint().map(str::to_owned),
            Self::NotSuspended { source, .. } => source.hint(),
            Self::QemuEnded { said: text }
            | Self::Control(control::Error::Refused { reason: text, .. })
                if text.contains("lock") =>
            {
                Some("another machine or another program has one of its disks".to_owned())
            }
            Self::File { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space there".to_owned())
            }
            _ => None,
        }
    }
}

/// For `map_err`.
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

//! Errors of images.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Place in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The public header.
    Header,
    /// The sealed description.
    Head,
    /// A piece of the sealed list of chunks.
    Records(u64),
    /// A chunk of guest memory.
    Chunk(u64),
    /// A piece of the device state.
    State(u64),
    /// A piece of the working set.
    WorkingSet(u64),
    /// The length of the file.
    Length,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("header"),
            Self::Head => f.write_str("description"),
            Self::Records(piece) => write!(f, "chunk list, piece {piece}"),
            Self::Chunk(index) => write!(f, "chunk {index} of the memory"),
            Self::State(piece) => write!(f, "device state, piece {piece}"),
            Self::WorkingSet(piece) => write!(f, "working set, piece {piece}"),
            Self::Length => f.write_str("length"),
        }
    }
}

/// Error of writing, reading or using an image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The action: "write", "read".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The image would not fit.
    #[error(
        "{} has {} MB free, and the image needs about {} MB: free some space, choose another \
         directory, or compress more", path.display(), free / 1_000_000, needed / 1_000_000
    )]
    Space {
        /// The directory.
        path: PathBuf,
        /// Bytes that are needed, estimated from samples.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// There is a file of that name already.
    #[error("{} exists already: choose another name, or ask for it to be replaced", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The path of a file that was just written leads to another file, or to none.
    #[error("{} was written and is not there: its file system was unmounted meanwhile, or another was mounted over it", path.display())]
    Hidden {
        /// The file.
        path: PathBuf,
    },
    /// Another image has a name that this one needs.
    #[error("{} is in the way: it is another image, put there or left by a resume: move it away", path.display())]
    InTheWay {
        /// The other image.
        path: PathBuf,
    },
    /// The file is no image.
    #[error("{} is no suspend image of brisk", path.display())]
    NotAnImage {
        /// The file.
        path: PathBuf,
    },
    /// The image is of another version of brisk.
    #[error(
        "{} has version {version} of the format and this brisk reads version {}: use the brisk \
         that wrote it", path.display(), crate::VERSION
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// Bytes are missing or were altered.
    #[error("{} is damaged ({place}): {what}; it cannot be used, take a copy of it if there is one", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Place of the damage.
        place: Place,
        /// Kind of the damage.
        what: String,
    },
    /// No given key opens it.
    #[error(
        "none of the given keys opens {}, which is encrypted to {slots}: give --identity, \
         --passphrase-file or --host-key", path.display()
    )]
    NoKey {
        /// The file.
        path: PathBuf,
        /// Recipients that it is encrypted to.
        slots: String,
    },
    /// A file of keys, a recipient or a passphrase cannot be used.
    #[error("{what}: {why}")]
    Key {
        /// The key.
        what: String,
        /// Reason, and what to try.
        why: String,
    },
    /// The base image of an incremental image is missing.
    #[error(
        "{} is based on the image {id}, which is not beside it: put it there, or name it", path.display()
    )]
    NoParent {
        /// The incremental image.
        path: PathBuf,
        /// Identity of the base image.
        id: String,
    },
    /// The memory is not in the image.
    #[error(
        "{} has no memory: that was kept in the RAM of the host, where brisk vm resume finds it \
         until the host loses it", path.display()
    )]
    Kept {
        /// The image.
        path: PathBuf,
    },
    /// The options contradict each other or the source.
    #[error("{0}")]
    Invalid(String),
    /// The caller cancelled.
    #[error("stopped before it was complete; nothing is left of it")]
    Cancelled,
    /// Another process has claimed the image, or reads from it.
    #[error(
        "{} is being resumed or cloned by another process: wait for it or end it", path.display()
    )]
    InUse {
        /// The image.
        path: PathBuf,
    },
    /// A guest has run from the image.
    #[error(
        "{} has been resumed before, and a guest may have written to its disks since: memory and \
         disks would not agree; remove it, or make a clone with its own disks", path.display()
    )]
    Resumed {
        /// Present path of the image.
        path: PathBuf,
    },
}

impl Error {
    pub(crate) fn damaged(path: &Path, place: Place, what: impl Into<String>) -> Self {
        let (path, what) = (path.to_owned(), what.into());
        Self::Damaged { path, place, what }
    }

    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid(what.into())
    }

    /// Whether there is no room for a change.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
    }

    /// Hint for the user, beyond the message.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        let Self::Io { source, .. } = self else {
            return None;
        };
        match source.kind() {
            _ if self.is_no_space() => {
                Some("free some space, choose another directory, or compress more")
            }
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                Some("choose a directory that you can write")
            }
            io::ErrorKind::NotFound => Some("check that the file and its directory are there"),
            _ => None,
        }
    }
}

/// For `map_err`: what was tried with which file.
pub(crate) fn io_error<E: Into<io::Error>>(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(E) -> Error {
    let path = path.to_owned();
    move |source| Error::Io {
        action,
        path,
        source: source.into(),
    }
}

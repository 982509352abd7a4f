//! Files of the kernel's replication in debugfs, with bounds.

use std::io;
use std::path::{Path, PathBuf};

use brisk_host::files;

use super::FormatError;
use super::absence::{Absence, DEBUGFS, mounts};

/// Bytes of a file at most: 64 nodes with 2,500 rows of `map`, one for each small page, have 13 MiB.
const LONGEST: u64 = 16 << 20;

/// The directory of a system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    directory: PathBuf,
}

/// Why the kernel's files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// There are none.
    #[error("{0}")]
    Absent(Absence),
    /// One cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: io::Error,
    },
    /// One is larger than the kernel's can be.
    #[error("{} has more than {LONGEST} bytes: it is not the kernel's", .0.display())]
    TooLong(PathBuf),
    /// One is not as the kernel writes it.
    #[error(
        "{}: {reason}; brisk and the kernel's patch series may be of different versions",
        directory.display()
    )]
    Malformed {
        /// The directory.
        directory: PathBuf,
        /// The mistake.
        reason: FormatError,
    },
}

impl Source {
    /// Finds the directory in the system below `root`: in `/sys/kernel/debug`, or where debugfs is
    /// mounted otherwise.
    ///
    /// # Errors
    /// With the reason, if it is not there.
    pub fn find(root: &Path) -> Result<Self, SourceError> {
        let usual = PathBuf::from(DEBUGFS);
        let mounted = mounts(root).unwrap_or_default();
        let others = mounted.into_iter().filter(|path| *path != usual);
        let places: Vec<_> = [usual.clone()].into_iter().chain(others).collect();
        let mut denied = None;
        for place in places {
            let directory = files::below(root, &place).join("ktext_repl");
            match directory.metadata() {
                Ok(metadata) if metadata.is_dir() => return Ok(Self { directory }),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    denied.get_or_insert(place);
                }
                _ => {}
            }
        }
        Err(SourceError::Absent(Absence::find(root, denied)))
    }

    /// Path of a file.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }

    /// Reads a file and parses it.
    ///
    /// # Errors
    /// If it cannot be read, is too long, or is not as the kernel writes it.
    pub(super) fn parsed<T>(
        &self,
        file: &str,
        parse: impl FnOnce(&str) -> Result<T, FormatError>,
    ) -> Result<T, SourceError> {
        let path = self.path(file);
        let bytes = match files::start(&path, LONGEST + 1) {
            Ok(bytes) => bytes,
            Err(reason) => return Err(SourceError::Unreadable { path, reason }),
        };
        if bytes.len() as u64 > LONGEST {
            return Err(SourceError::TooLong(path));
        }
        parse(&String::from_utf8_lossy(&bytes)).map_err(|reason| SourceError::Malformed {
            directory: self.directory.clone(),
            reason,
        })
    }

    /// As [`Source::parsed`]; none if there is no such file.
    pub(super) fn maybe_parsed<T>(
        &self,
        file: &str,
        parse: impl FnOnce(&str) -> Result<T, FormatError>,
    ) -> Result<Option<T>, SourceError> {
        match self.parsed(file, parse) {
            Err(SourceError::Unreadable { reason, .. })
                if reason.kind() == io::ErrorKind::NotFound =>
            {
                Ok(None)
            }
            other => other.map(Some),
        }
    }
}

//! Files of brisk's own that are written to where they are: locks and logs.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::files::{bounded, must_be_regular, open_regular};
use crate::trust::is_own_way;

/// Opens the file of a lock for reading and writing, and makes an empty one that only its owner may
/// use if there is none. Its content stays. A link is not followed: what it leads to would be
/// written to.
///
/// # Errors
/// If it cannot be opened or made, or is no regular file.
pub fn open_lock(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
        .open(path)?;
    must_be_regular(&file.metadata()?)?;
    Ok(file)
}

/// Opens a log for appending, and makes one that only its owner may use if there is none. Only links
/// are followed that nobody but root and this user can change.
///
/// # Errors
/// If it cannot be opened or made, or is a pipe, which would be waited for.
pub fn append(path: &Path) -> io::Result<File> {
    let open = |flags: OFlags| {
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags((flags | OFlags::NONBLOCK).bits() as i32)
            .open(path)
    };
    let file = match open(OFlags::NOFOLLOW) {
        Err(error) if is_link(&error) && is_own_way(path) => open(OFlags::empty()),
        opened => opened,
    }?;
    match file.metadata()?.file_type().is_fifo() {
        true => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe")),
        false => Ok(file),
    }
}

/// Content of a regular file of at most so many bytes that root or this user has made: what others put
/// in its place is not believed.
///
/// # Errors
/// If it cannot be read, is no such file, or is longer.
pub fn read_own(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let owner = file.metadata()?.uid();
    if ![0, geteuid().as_raw()].contains(&owner) {
        let reason = format!("it belongs to user {owner}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    bounded(&file, most)
}

fn is_link(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::LOOP)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;
    use crate::files;

    #[test]
    fn a_lock_and_a_log_are_files_of_ones_own() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, at("pipe"), FileType::Fifo, mode, 0).unwrap();
        fs::write(at("file"), "text").unwrap();
        symlink(at("file"), at("link")).unwrap();
        assert!(open_lock(&at("pipe")).is_err() && open_lock(&at("link")).is_err());
        assert!(append(&at("pipe")).is_err());
        let _reader = files::open_any(&at("pipe")).unwrap();
        let error = append(&at("pipe")).unwrap_err().to_string();
        assert_eq!(error, "it is a pipe");
        open_lock(&at("new")).unwrap();
        append(&at("new")).unwrap().write_all(b"one").unwrap();
        append(&at("link")).unwrap().write_all(b", two").unwrap();
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "text, two");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(append(&at("link")).is_err());
        append(&at("new")).unwrap().write_all(b", two").unwrap();
        assert_eq!(fs::read_to_string(at("new")).unwrap(), "one, two");
    }
    #[test]
    fn what_others_made_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "text").unwrap();
        assert_eq!(read_own(&path, 4).unwrap(), b"text");
        assert!(read_own(&path, 3).is_err());
        if geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
            let error = read_own(&path, 4).unwrap_err().to_string();
            assert_eq!(error, "it belongs to user 12345");
        }
    }
}

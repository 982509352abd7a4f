//! The key file of this host, which is made when it is first needed.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use age::x25519;
use rustix::fs::OFlags;

use crate::durable::{Durable, split};
use crate::error::{Error, io_error};
use crate::keys::{identity_text, parse_identities};

/// Path of the host's key file in the state directory.
#[must_use]
pub fn host_key_path(state_dir: &Path) -> PathBuf {
    state_dir.join("suspend.key")
}

/// Reads the host's key from its file; makes the file if it does not exist and `create` is set.
///
/// # Errors
/// If the file cannot be read or made, or if others than its owner may read it.
pub fn host_key(path: &Path, create: bool) -> Result<x25519::Identity, Error> {
    match open(path) {
        Ok(file) => read(path, file),
        Err(error) if error.kind() == io::ErrorKind::NotFound && create => {
            make(path)?;
            read(path, open(path).map_err(io_error("read", path))?)
        }
        Err(error) => Err(io_error("read the host's key", path)(error)),
    }
}

/// Opens a key's file, without waiting for the other end of a pipe.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no regular file",
        )),
    }
}

fn read(path: &Path, file: File) -> Result<x25519::Identity, Error> {
    let mode = file.metadata().map_err(io_error("read", path))?.mode();
    if mode & 0o077 != 0 {
        return Err(Error::Key {
            what: path.display().to_string(),
            why: format!(
                "others may read this secret key (mode {:o}); if no one has, run `chmod 600` on \
                 it",
                mode & 0o777
            ),
        });
    }
    let mut keys = parse_identities(path, file)?;
    Ok(keys.swap_remove(0))
}

/// Makes the file atomically, so that no reader finds half a key.
fn make(path: &Path) -> Result<(), Error> {
    let failed = || io_error("make the host's key", path);
    let (dir, _) = split(path)?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)
        .map_err(failed())?;
    let durable = Durable::create(path)?;
    let mut file = &durable.file;
    file.write_all(identity_text(&x25519::Identity::generate()).as_bytes())
        .map_err(failed())?;
    durable.sync()?;
    match durable.publish(false) {
        // Another process was quicker; the file that is there counts.
        Err(Error::Exists { .. }) => Ok(()),
        result => result,
    }
}

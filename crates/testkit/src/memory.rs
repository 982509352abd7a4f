//! Places in memory.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use tempfile::{Builder, TempDir};

/// A directory in memory that only its owner can reach, with a path short enough for sockets.
#[must_use]
pub fn in_memory(prefix: &str) -> TempDir {
    Builder::new()
        .prefix(prefix)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in("/dev/shm")
        .unwrap()
}

//! The socket between virtiofsd and QEMU.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tempfile::TempDir;

/// A listening socket, which virtiofsd needs, and the one connection to it.
///
/// It is made in a directory that no other user may enter, because any local user can connect to an
/// abstract name, and virtiofsd serves the first one who connects. The name is removed as soon as
/// there is a connection.
pub(super) fn sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut refused = None;
    for place in places() {
        match sockets_below(&place) {
            Ok(both) => return Ok(both),
            // The first place is the one to report.
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

/// Directories for sockets, the best first. TMPDIR is the last one: a guest of the warm pool may be
/// restored when that directory has been removed.
fn places() -> Vec<PathBuf> {
    let run = match rustix::process::geteuid().is_root() {
        true => Some("/run".into()),
        false => std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from),
    };
    let fixed = run.into_iter().chain(["/dev/shm".into()]);
    fixed
        .filter(|dir| dir.is_absolute())
        .chain([std::env::temp_dir()])
        .collect()
}

fn sockets_below(place: &Path) -> io::Result<(OwnedFd, OwnedFd)> {
    let socket = || {
        net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
    };
    let dir = private_directory(place)?;
    // Its path may be longer than an address.
    let opened = File::open(&dir)?;
    let name = format!("/proc/self/fd/{}/socket", opened.as_raw_fd());
    let address = SocketAddrUnix::new(name)?;
    let listener = socket()?;
    net::bind(&listener, &address)?;
    net::listen(&listener, 0)?;
    let client = socket()?;
    net::connect(&client, &address)?;
    dir.close()?;
    Ok((listener, client))
}

/// A directory that only its owner may enter. It is removed when this is dropped.
fn private_directory(place: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix("brisk-virtiofs-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(place)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn strangers_have_no_name_to_connect_to() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = private_directory(temporary.path()).unwrap();
        assert_eq!(dir.path().metadata().unwrap().mode() & 0o777, 0o700);
        dir.close().unwrap();
        let (listener, client) = sockets_below(temporary.path()).unwrap();
        assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
        let address: SocketAddrUnix = net::getsockname(&listener).unwrap().try_into().unwrap();
        assert_eq!(address.abstract_name(), None);
        assert!(address.path().is_some());
        let server = net::accept(&listener).unwrap();
        rustix::io::write(&client, b"hello").unwrap();
        let mut text = [0; 5];
        rustix::io::read(&server, &mut text).unwrap();
        assert_eq!(&text, b"hello");
    }
}

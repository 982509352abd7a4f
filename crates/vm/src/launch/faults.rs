//! Permission for userfaultfd(2), by which page faults of missing memory are reported.
//!
//! Unless `vm.unprivileged_userfaultfd` is set, only root has the permission, or a user who may
//! open `/dev/userfaultfd`. QEMU is not root; so it gets a device node of its own, in a file system
//! that no other process sees.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use brisk_sys::Credentials;
use rustix::fs::{AtFlags, FileType, Gid, Mode, Uid};

use super::Unprivileged;
use super::tmpfs::detached;

const DEVICE: &str = "/dev/userfaultfd";

/// Makes the command that user, with the right, and with that to lock memory if it `locks`; false
/// if that cannot be, and nothing was done.
pub(super) fn grant(command: &mut Command, user: Unprivileged, cover: &Path, locks: bool) -> bool {
    let granted = devices(user).and_then(|devices| {
        let user = Credentials {
            user: user.user,
            group: user.group,
        };
        brisk_sys::with_userfaultfd(command, devices, cover, user, locks)
    });
    granted.is_ok()
}

/// A file system with the device in it, which is mounted nowhere.
fn devices(user: Unprivileged) -> io::Result<OwnedFd> {
    let number = std::fs::metadata(DEVICE)?.rdev();
    let mount = detached(&[("size", "4096"), ("mode", "0755")])?;
    let name = "userfaultfd";
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(&mount, name, FileType::CharacterDevice, mode, number)?;
    let (owner, group) = (Uid::from_raw(user.user), Gid::from_raw(user.group));
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::chownat(&mount, name, Some(owner), Some(group), flags)?;
    Ok(mount)
}

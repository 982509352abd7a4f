//! Removal of work directories: what a target's work has mounted in one is not removed.

use std::fs;
use std::io;
use std::path::Path;

use rustix::mount::{UnmountFlags, unmount};

/// Shell text that defines `remove DIRECTORY`, which fails if something is mounted there or below.
pub(super) const REMOVE: &str = "\
remove() { while read -r _ m _; do case $m in \"$1\"|\"$1\"/*) { echo \"not removed: $m is mounted; \
have the command unmount it\" >>\"$d/out/errors\"; } 2>/dev/null; return 1;; esac; done \
</proc/self/mounts; rm -rf \"$1\"; }
";

/// Removes a directory that a target's work may have mounted something in; one that is not there
/// is no error. It takes the mounts away first, and leaves the directory where it cannot.
///
/// # Errors
/// If something stays mounted or cannot be removed.
pub(super) fn remove(directory: &Path) -> io::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    // The last one first, as one may cover another.
    for place in below(&mounts, directory).into_iter().rev() {
        unmount(place, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?;
    }
    fs::remove_dir_all(directory)
}

/// Where something is mounted at or below a directory, by the text of `/proc/self/mounts`
/// (proc_pid_mounts(5)), in the order in which it was mounted.
fn below<'a>(mounts: &'a str, directory: &Path) -> Vec<&'a str> {
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    places
        .filter(|place| Path::new(place).starts_with(directory))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_others_are_left() {
        let mounts = "tmpfs /dev/shm tmpfs rw 0 0\nx /dev/shm/a tmpfs rw 0 0\n\
                      x /dev/shm/a/b\\040c ext4 rw 0 0\nx /dev/shm/ab ext4 rw 0 0\n";
        let found = below(mounts, Path::new("/dev/shm/a"));
        assert_eq!(found, ["/dev/shm/a", "/dev/shm/a/b\\040c"]);
    }
}

//! Confinement of virtiofsd.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Confinement of a virtiofsd to the directory that it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// In namespaces of its own. Needs CAP_SYS_ADMIN and a root that is a mount point.
    Namespace,
    /// In a changed root. Needs CAP_SYS_CHROOT.
    Chroot,
    /// By the rights of an ordinary user.
    None,
}

impl Sandbox {
    /// The best that this process may use.
    #[must_use]
    pub fn possible() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let root = rustix::process::geteuid().is_root();
        // pivot_root(2) does not work below a changed root.
        let inode = |path| {
            let meta = std::fs::metadata(path).ok()?;
            Some((meta.dev(), meta.ino()))
        };
        let changed = inode("/proc/1/root/").is_some_and(|first| Some(first) != inode("/"));
        let mountinfo = read("/proc/self/mountinfo");
        Self::from(!changed, root, &read("/proc/self/status"), &mountinfo)
    }

    /// Chooses from proc_pid_status(5) and proc_pid_mountinfo(5).
    fn from(unchanged: bool, root: bool, status: &str, mountinfo: &str) -> Self {
        const SYS_ADMIN: u64 = 1 << 21;
        if !root {
            return Self::None;
        }
        let effective = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
            .unwrap_or(0);
        let mounted = mountinfo
            .lines()
            .any(|line| line.split(' ').nth(4) == Some("/"));
        if unchanged && effective & SYS_ADMIN != 0 && mounted {
            Self::Namespace
        } else {
            Self::Chroot
        }
    }

    /// The confinement for a directory. Where the whole tree is served there is nothing to hide,
    /// and pivot_root(2) refuses a new root that is the old one, depending on how that was mounted.
    pub(super) fn for_directory(self, dir: &Path) -> Self {
        if self == Self::Namespace && dir == Path::new("/") {
            Self::Chroot
        } else {
            self
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Chroot => "chroot",
            Self::None => "none",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "Name:\tx\nCapEff:\t000001ffffffffff\n";
    const CONTAINER: &str = "CapEff:\t00000000a80425fb\n";
    const MOUNTED: &str = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n";
    const CHROOT: &str = "30 22 0:5 / /proc rw - proc proc rw\n";

    #[test]
    fn the_best_sandbox_that_is_allowed_is_taken() {
        assert_eq!(Sandbox::from(true, true, ALL, MOUNTED), Sandbox::Namespace);
        assert_eq!(Sandbox::from(true, true, ALL, CHROOT), Sandbox::Chroot);
        assert_eq!(
            Sandbox::from(true, true, CONTAINER, MOUNTED),
            Sandbox::Chroot
        );
        assert_eq!(Sandbox::from(true, true, "", ""), Sandbox::Chroot);
        assert_eq!(Sandbox::from(true, false, ALL, MOUNTED), Sandbox::None);
        assert_eq!(Sandbox::from(false, true, ALL, MOUNTED), Sandbox::Chroot);
    }

    #[test]
    fn the_whole_tree_is_served_without_pivoting() {
        let sandbox = |dir| Sandbox::Namespace.for_directory(Path::new(dir));
        assert_eq!(sandbox("/"), Sandbox::Chroot);
        assert_eq!(sandbox("/srv"), Sandbox::Namespace);
        assert_eq!(Sandbox::None.for_directory(Path::new("/")), Sandbox::None);
    }
}

//! File systems that a guest can mount.

use std::fmt;

/// A file system that a guest can mount as its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Filesystem {
    /// ext2, ext3 and ext4: one driver mounts them all.
    Ext4,
    /// EROFS.
    Erofs,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// SquashFS.
    Squashfs,
}

impl Filesystem {
    /// The type for mount(2).
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Erofs => "erofs",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::Squashfs => "squashfs",
        }
    }

    /// The modules a guest must load, unless they are built in. Their dependencies are a matter
    /// of the kernel's `modules.dep`.
    pub fn kernel_modules(self) -> &'static [&'static str] {
        match self {
            Self::Ext4 => &["ext4"],
            Self::Erofs => &["erofs"],
            Self::Xfs => &["xfs"],
            Self::Btrfs => &["btrfs"],
            Self::Squashfs => &["squashfs"],
        }
    }

    /// Whether it can only be read; changes then need an overlay.
    pub fn is_read_only(self) -> bool {
        matches!(self, Self::Erofs | Self::Squashfs)
    }
}

impl fmt::Display for Filesystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

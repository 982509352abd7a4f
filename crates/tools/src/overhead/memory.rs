//! How much of the host's memory the files of targets may take.
//!
//! Work directories are on a tmpfs of the host, or of a container, whose pages the kernel can give
//! back to nobody else: a workload that fills one fills the host's memory, unseen.

use std::path::{Path, PathBuf};

use brisk_host::proc::Procfs;
use rustix::fs::{statfs, statvfs};

/// Part of the free memory that all targets together may take.
const PART: f64 = 0.75;
/// Least that a target may take, bytes: what a small kernel needs.
const LEAST: u64 = 256 << 20;
/// Kind of a tmpfs in statfs(2).
const TMPFS: u64 = 0x0102_1994;

/// Bytes that a target may take, of so many; none if free memory is not known.
pub(super) fn share(targets: usize) -> Option<u64> {
    let available = Procfs::default().available_memory()?;
    let part = available as f64 * PART / targets.max(1) as f64;
    Some((part as u64).max(LEAST.min(available / 2)))
}

/// A limit to what a file system in memory has, while a target works on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bound {
    path: PathBuf,
    /// Bytes that were in it when the target began to work: those of others, and its own.
    before: u64,
    /// Bytes of these that are its own, as targets work one after another.
    own: u64,
    limit: u64,
}

impl Bound {
    /// Of the first of these places that there is, where work directories of this host are; none if that
    /// is a disk.
    pub(super) fn here(places: &[&str], limit: u64) -> Option<Self> {
        let mut places = places.iter().map(Path::new);
        Self::of(places.find(|place| place.is_dir())?, limit)
    }

    pub(super) fn of(path: &Path, limit: u64) -> Option<Self> {
        let kind = statfs(path).ok()?.f_type;
        let before = used(path)?;
        (kind as u64 == TMPFS).then(|| Self {
            path: path.to_owned(),
            before,
            own: 0,
            limit,
        })
    }

    /// The target begins to work.
    pub(super) fn begin(&mut self) {
        self.before = used(&self.path).unwrap_or(self.before);
    }

    /// The target has worked.
    pub(super) fn end(&mut self) {
        let now = used(&self.path).unwrap_or(self.before);
        self.own = (self.own + now).saturating_sub(self.before);
    }

    /// Why the work has to end; none while it may go on.
    pub(super) fn exceeded(&self) -> Option<String> {
        let own = (self.own + used(&self.path)?).saturating_sub(self.before);
        (own > self.limit).then(|| {
            format!(
                "it has put {} MiB into {}, and may have {}: that is this host's memory; have the \
                 work write less, or to a disk with --ablate tmpfs, or measure fewer targets",
                own >> 20,
                self.path.display(),
                self.limit >> 20
            )
        })
    }
}

fn used(path: &Path) -> Option<u64> {
    let found = statvfs(path).ok()?;
    Some(found.f_blocks.saturating_sub(found.f_bfree) * found.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_leaves_memory_to_the_host() {
        let available = Procfs::default().available_memory().unwrap();
        let all = share(1).unwrap();
        assert!(all > 0 && all < available);
        assert!(share(4).unwrap() < all);
    }

    #[test]
    fn a_disk_has_no_bound() {
        assert_eq!(Bound::of(Path::new("/proc"), 1), None);
        assert_eq!(Bound::of(Path::new("/nonexistent"), 1), None);
    }
}

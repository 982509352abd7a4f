//! Files of a system that may be another's: links that are absolute there lead to places in its
//! tree, and nothing leads out of it.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::files;

/// Symbolic links that are followed for one path at most, as the kernel does (path_resolution(7)).
const MOST_LINKS: usize = 40;
/// Bytes of a text that are read at most. A `grub.cfg` has some ten thousand.
const LONGEST_TEXT: u64 = 1 << 20;
/// Files of a directory that are looked at.
const MOST_NAMES: usize = 2000;

/// Bytes of a path at most (`PATH_MAX` of `linux/limits.h`).
pub(crate) const LONGEST_PATH: usize = 4096;
/// Bytes of images that are searched for a release at most, together: more than an EFI system
/// partition has.
const MOST_SEARCHED: u64 = 2 << 30;

/// A system's files.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    root: PathBuf,
    /// Bytes of images that were searched for a release.
    searched: Cell<u64>,
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            searched: Cell::new(0),
        }
    }

    /// The path by which this process reaches a path of the system, links followed; the last
    /// component need not exist. None if links lead in a circle.
    pub(crate) fn host(&self, path: &Path) -> Option<PathBuf> {
        Some(self.root.join(self.resolved(path)?.strip_prefix("/").ok()?))
    }

    /// The path in the system with all links followed; none of one that is too long for the kernel.
    pub(crate) fn resolved(&self, path: &Path) -> Option<PathBuf> {
        if path.as_os_str().len() >= LONGEST_PATH {
            return None;
        }
        let mut found = PathBuf::from("/");
        let mut rest: Vec<_> = components(path);
        let mut links = 0;
        while let Some(name) = rest.pop() {
            if name == ".." {
                found.pop();
                continue;
            }
            let next = found.join(&name);
            let Ok(target) = fs::read_link(self.root.join(next.strip_prefix("/").ok()?)) else {
                found = next;
                continue;
            };
            links += 1;
            if links > MOST_LINKS {
                return None;
            }
            if target.is_absolute() {
                found = PathBuf::from("/");
            }
            rest.extend(components(&target));
        }
        Some(found)
    }

    pub(crate) fn is_file(&self, path: &Path) -> bool {
        self.size(path).is_some()
    }

    pub(crate) fn is_dir(&self, path: &Path) -> bool {
        self.host(path).is_some_and(|path| path.is_dir())
    }

    /// Whether this process may not look at a path.
    pub(crate) fn is_denied(&self, path: &Path) -> bool {
        let metadata = self.host(path).map(fs::metadata);
        matches!(metadata, Some(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Size of a file in bytes; none if there is no such file.
    pub(crate) fn size(&self, path: &Path) -> Option<u64> {
        let metadata = fs::metadata(self.host(path)?).ok()?;
        metadata.is_file().then_some(metadata.len())
    }

    /// Target of a symbolic link as it is written.
    pub(crate) fn link(&self, path: &Path) -> Option<PathBuf> {
        let directory = self.resolved(path.parent()?)?;
        let path = directory.join(path.file_name()?);
        fs::read_link(self.root.join(path.strip_prefix("/").ok()?)).ok()
    }

    /// A file's bytes up to a length. It is not waited for the other end of a pipe.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn bytes(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let path = self.host(path).ok_or(rustix::io::Errno::LOOP)?;
        files::start(&path, most)
    }

    /// A file's text, at most 1 MiB of it; what is no UTF-8 is replaced.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn text(&self, path: &Path) -> io::Result<String> {
        self.beginning(path, LONGEST_TEXT)
    }

    /// The beginning of a file's text up to a length in bytes; what is no UTF-8 is replaced.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn beginning(&self, path: &Path, most: u64) -> io::Result<String> {
        let bytes = self.bytes(path, most)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Whether an image of this size may still be searched for a release: all of them together have
    /// a limit.
    pub(crate) fn may_search(&self, size: u64) -> bool {
        let searched = self.searched.get().saturating_add(size);
        let may = searched <= MOST_SEARCHED;
        if may {
            self.searched.set(searched);
        }
        may
    }

    /// Names in a directory, sorted.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn names(&self, path: &Path) -> io::Result<Vec<String>> {
        let path = self.host(path).ok_or(rustix::io::Errno::LOOP)?;
        let entries = fs::read_dir(path)?.take(MOST_NAMES).flatten();
        let mut names: Vec<_> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        Ok(names)
    }
}

/// Names of a path, the first one last.
fn components(path: &Path) -> Vec<std::ffi::OsString> {
    let names = path.components().rev().filter_map(|it| match it {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some(OsStr::new("..")),
        _ => None,
    });
    names.map(OsStr::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_stay_in_the_tree() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("boot/loader.1/entries")).unwrap();
        fs::create_dir_all(at("etc")).unwrap();
        fs::write(at("etc/hostname"), "inside\n").unwrap();
        symlink("loader.1", at("boot/loader")).unwrap();
        symlink("/etc/hostname", at("boot/absolute")).unwrap();
        symlink("../../../../etc/hostname", at("boot/up")).unwrap();
        symlink("round", at("boot/round")).unwrap();
        let tree = Tree::new(root.path());
        let text = |path: &str| tree.text(Path::new(path)).ok();
        assert_eq!(text("/boot/absolute").as_deref(), Some("inside\n"));
        assert_eq!(text("/boot/up").as_deref(), Some("inside\n"));
        assert_eq!(text("/boot/round"), None);
        assert_eq!(text("/../../etc/hostname").as_deref(), Some("inside\n"));
        assert!(tree.is_dir(Path::new("/boot/loader/entries")));
        assert_eq!(
            tree.resolved(Path::new("/boot/loader/entries")),
            Some("/boot/loader.1/entries".into())
        );
        assert_eq!(
            tree.link(Path::new("/boot/loader")),
            Some("loader.1".into())
        );
        assert_eq!(tree.size(Path::new("/etc/hostname")), Some(7));
        assert_eq!(tree.size(Path::new("/etc")), None);
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let root = tempfile::tempdir().unwrap();
        let pipe = root.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let tree = Tree::new(root.path());
        assert_eq!(tree.text(Path::new("/pipe")).unwrap(), "");
    }
}

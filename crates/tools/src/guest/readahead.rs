//! Readahead: files of a root that nearly every program needs.
//!
//! A template's guest has looked at them, so that restored guests need not ask the host for them. A
//! guest never looks again whether a file has changed, so a template is valid only as long as these
//! files and the directories above them are unchanged.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use brisk_vm::cache::Identity;
use brisk_vm::guest::Step;

/// Directories of commands; the dynamic linkers of the x86-64 ABI and of musl; the C library in
/// Debian, Fedora and Arch, and the linker's cache of it; the shell.
const PATHS: [&str; 11] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib64/libc.so.6",
    "/usr/lib/libc.so.6",
    "/etc/ld.so.cache",
    "/bin/sh",
];
/// Largest file in bytes: these files are smaller.
const LARGEST: u64 = 4 << 20;
/// Most symbolic links of a path, as in Linux.
const LINKS: usize = 40;

/// A file or directory for readahead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Common {
    path: &'static str,
    /// All path components, the file included.
    way: Vec<Stop>,
}

/// Identity of a file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stop {
    /// A directory, in which entries may change: the guest asks for them each time.
    Directory { dev: u64, ino: u64 },
    /// A file or symbolic link.
    Content(Identity),
}

impl Common {
    /// Step that has init read the file.
    pub(crate) fn step(&self) -> Step {
        Step::Readahead {
            path: self.path.to_owned(),
        }
    }
}

/// Files for readahead of the root in `dir`.
#[must_use]
pub(super) fn find(dir: &Path) -> Vec<Common> {
    let found = PATHS.iter().filter_map(|path| {
        let way = way(dir, path)?;
        Some(Common { path, way })
    });
    found.collect()
}

/// Components of a path in a root, with its symbolic links followed inside the root; `None` if it
/// leads nowhere.
fn way(dir: &Path, path: &str) -> Option<Vec<Stop>> {
    let parts = |path: &Path| {
        let parts = path.components().filter_map(|part| match part {
            Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
            _ => None,
        });
        parts.collect::<VecDeque<OsString>>()
    };
    let (mut left, mut at, mut links) = (parts(Path::new(path)), PathBuf::new(), 0);
    let mut stops = Vec::new();
    while let Some(part) = left.pop_front() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        let whole = dir.join(&next);
        let meta = fs::symlink_metadata(&whole).ok()?;
        stops.push(Stop::of(whole.clone(), &meta));
        if meta.is_symlink() {
            links += 1;
            let target = fs::read_link(&whole).ok().filter(|_| links <= LINKS)?;
            if target.is_absolute() {
                at.clear();
            }
            let mut all = parts(&target);
            all.append(&mut left);
            left = all;
        } else if meta.is_dir() || (left.is_empty() && meta.is_file() && meta.len() <= LARGEST) {
            at = next;
        } else {
            return None;
        }
    }
    Some(stops)
}

impl Stop {
    fn of(path: PathBuf, meta: &Metadata) -> Self {
        if meta.is_dir() {
            return Self::Directory {
                dev: meta.dev(),
                ino: meta.ino(),
            };
        }
        Self::Content(Identity::from_metadata(path, meta))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn root() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path| root.path().join(path);
        fs::create_dir_all(at("usr/bin")).unwrap();
        fs::create_dir_all(at("usr/lib64")).unwrap();
        symlink("/usr/bin", at("bin")).unwrap();
        symlink("usr/lib64", at("lib64")).unwrap();
        fs::write(at("usr/bin/dash"), "shell").unwrap();
        symlink("../../../../bin/dash", at("usr/bin/sh")).unwrap();
        fs::write(at("usr/lib64/libc.so.6"), "library").unwrap();
        root
    }

    fn paths(root: &Path) -> Vec<&'static str> {
        find(root).into_iter().map(|common| common.path).collect()
    }

    #[test]
    fn it_is_found_below_the_root_through_its_own_links() {
        let root = root();
        let all = ["/usr/bin", "/lib64/libc.so.6", "/bin/sh"];
        assert_eq!(paths(root.path()), all);
        let shell = find(root.path()).pop().unwrap();
        // bin, usr, bin, sh, bin, usr, bin, dash.
        assert_eq!(shell.way.len(), 8);

        fs::remove_file(root.path().join("usr/bin/sh")).unwrap();
        symlink("sh", root.path().join("usr/bin/sh")).unwrap();
        assert_eq!(paths(root.path()), all[..2], "a link that leads to itself");
        let library = fs::File::create(root.path().join("usr/lib64/libc.so.6")).unwrap();
        library.set_len(LARGEST + 1).unwrap();
        assert_eq!(paths(root.path()), all[..1], "too large");
        assert!(paths(&root.path().join("no")).is_empty());
    }

    #[test]
    fn what_was_replaced_is_something_else() {
        let root = root();
        let at = |path| root.path().join(path);
        let mut seen = vec![find(root.path())];
        fs::write(at("usr/bin/new"), "SHELL").unwrap();
        assert_eq!(seen[0], find(root.path()), "only its directory has changed");
        fs::rename(at("usr/bin/new"), at("usr/bin/dash")).unwrap();
        seen.push(find(root.path()));
        symlink("/usr/bin", at("new")).unwrap();
        fs::rename(at("new"), at("bin")).unwrap();
        seen.push(find(root.path()));
        fs::write(at("usr/lib64/libc.so.6"), "longer library").unwrap();
        seen.push(find(root.path()));
        fs::rename(at("usr"), at("old")).unwrap();
        fs::create_dir(at("usr")).unwrap();
        fs::rename(at("old/lib64"), at("usr/lib64")).unwrap();
        fs::rename(at("old/bin"), at("usr/bin")).unwrap();
        seen.push(find(root.path()));
        for pair in seen.windows(2) {
            assert_ne!(pair[0], pair[1]);
        }
    }

    #[test]
    fn this_machine_has_some() {
        let found = find(Path::new("/"));
        assert!(!found.is_empty());
        for common in found {
            assert!(Path::new(common.path).exists(), "{common:?}");
        }
    }
}

//! Text of files below a root, of a bounded size.

use std::fs;
use std::path::Path;

use brisk_host::files;

/// Entries of a directory that are looked at.
const ENTRIES: usize = 4096;

/// Text of a file, as [`files::text_below`].
pub(super) fn of(root: &Path, path: &str) -> Option<String> {
    files::text_below(root, Path::new(path))
}

/// Number in a file that has one.
pub(super) fn number(root: &Path, path: &str) -> Option<u32> {
    of(root, path)?.trim().parse().ok()
}

/// Names of the files in a directory, sorted; empty if it cannot be read.
pub(super) fn names(root: &Path, path: &str) -> Vec<String> {
    let entries = fs::read_dir(root.join(path)).into_iter().flatten();
    let mut names: Vec<_> = entries
        .take(ENTRIES)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Last part of what a symbolic link refers to.
pub(super) fn link_name(root: &Path, path: &str) -> Option<String> {
    let target = fs::read_link(root.join(path)).ok()?;
    target.file_name()?.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// Bytes that [`files::text`] reads at most.
    const LIMIT: u64 = 16 << 20;

    #[test]
    fn files_are_read_in_part_and_pipes_not_waited_for() {
        let root = tempfile::tempdir().unwrap();
        let long = File::create(root.path().join("long")).unwrap();
        long.set_len(LIMIT + 9).unwrap();
        assert_eq!(of(root.path(), "long").unwrap().len() as u64, LIMIT);
        fs::write(root.path().join("binary"), b"a\xffb").unwrap();
        assert_eq!(of(root.path(), "binary").unwrap(), "a\u{fffd}b");
        let pipe = root.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(of(root.path(), "pipe").unwrap(), "");
        assert_eq!(of(root.path(), "none"), None);
        // A link of the tree is followed within it.
        symlink("/proc/crypto", root.path().join("crypto")).unwrap();
        assert_eq!(of(root.path(), "crypto"), None);
        symlink("/binary", root.path().join("link")).unwrap();
        assert_eq!(of(root.path(), "link").unwrap(), "a\u{fffd}b");
        assert_eq!(
            names(root.path(), "."),
            ["binary", "crypto", "link", "long", "pipe"]
        );
    }
}

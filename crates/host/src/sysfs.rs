//! Files of sysfs, below a root that tests put elsewhere.

use std::fs;
use std::path::Path;

use crate::files;

/// Bytes that a file of text has at most: a page, and more for some lists of processors.
const LONGEST: u64 = 64 << 10;

/// Text of a file below `sys`, without white space at its ends, and without the zero bytes that copies of
/// such files can end with.
#[must_use]
pub fn line(root: &Path, path: &str) -> Option<String> {
    let text = files::text_within(&root.join("sys").join(path), LONGEST)?;
    let at_end = |one: char| one == '\0' || one.is_whitespace();
    Some(text.trim_matches(at_end).to_owned())
}

/// The word in brackets, where a file shows which of several values is chosen: `always [never]`.
#[must_use]
pub fn chosen(root: &Path, path: &str) -> Option<String> {
    let text = line(root, path)?;
    Some(text.split('[').nth(1)?.split(']').next()?.to_owned())
}

/// Names of the files in a directory below `sys`.
#[must_use]
pub fn names(root: &Path, path: &str) -> Vec<String> {
    let entries = fs::read_dir(root.join("sys").join(path));
    let entries = entries.into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// The first `most` names of the files in a directory below `sys`, in their order: of a tree that may
/// be another system's, and have any number of them.
#[must_use]
pub fn first_names(root: &Path, path: &str, most: usize) -> Vec<String> {
    let mut names = names(root, path);
    names.sort();
    names.truncate(most);
    names
}

/// Last part of what a symbolic link below `sys` refers to, such as the driver of a device.
#[must_use]
pub fn link_name(root: &Path, path: &str) -> Option<String> {
    let target = fs::read_link(root.join("sys").join(path)).ok()?;
    target.file_name()?.to_str().map(str::to_owned)
}

/// Name of the disk that a partition is of; none of another block device, or one that is not there.
#[must_use]
pub fn disk_of_partition(root: &Path, name: &str) -> Option<String> {
    let path = root.join("sys/class/block").join(name);
    path.join("partition").exists().then_some(())?;
    let path = path.canonicalize().ok()?;
    Some(path.parent()?.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_in_brackets_is_chosen() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("sys")).unwrap();
        for (text, word) in [("always [never] x\n", Some("never")), ("none\n", None)] {
            fs::write(root.path().join("sys/file"), text).unwrap();
            assert_eq!(chosen(root.path(), "file").as_deref(), word);
        }
        assert_eq!(chosen(root.path(), "no"), None);
        assert_eq!(names(root.path(), "."), ["file"]);
        fs::write(root.path().join("sys/b"), "").unwrap();
        fs::write(root.path().join("sys/a"), "").unwrap();
        assert_eq!(first_names(root.path(), ".", 2), ["a", "b"]);
        std::os::unix::fs::symlink("../drivers/e1000e", root.path().join("sys/driver")).unwrap();
        assert_eq!(link_name(root.path(), "driver").as_deref(), Some("e1000e"));
        assert_eq!(link_name(root.path(), "file"), None);
    }
}

//! Block devices that are made of other ones: the sectors of a partition are some of its disk.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Devices, one below the other, that are followed at most.
const DEEPEST: usize = 16;

/// What a block device or a file has its content in, itself included: for devices their numbers, for a
/// file that a loop device shows the file's device and inode.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Content {
    Device(u64),
    File(u64, u64),
}

/// Whether a write to one of two block devices may change the other: they are the same one, or one has
/// its content in the other. `root`: where `/sys` and `/dev` are.
pub(crate) fn overlap(root: &Path, one: u64, other: u64) -> bool {
    let (below_one, below_other) = (below(root, one), below(root, other));
    below_one.contains(&Content::Device(other)) || below_other.contains(&Content::Device(one))
}

/// Whether a block device shows a file.
pub(crate) fn shows(root: &Path, device: u64, file: (u64, u64)) -> bool {
    below(root, device).contains(&Content::File(file.0, file.1))
}

fn below(root: &Path, device: u64) -> BTreeSet<Content> {
    let mut found = BTreeSet::new();
    follow(root, device, DEEPEST, &mut found);
    found
}

fn follow(root: &Path, device: u64, deepest: usize, found: &mut BTreeSet<Content>) {
    if deepest == 0 || !found.insert(Content::Device(device)) {
        return;
    }
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = root.join(format!("sys/dev/block/{major}:{minor}"));
    let Ok(directory) = fs::canonicalize(&link) else {
        return;
    };
    let number = |directory: PathBuf| {
        let text = fs::read_to_string(directory.join("dev")).ok()?;
        let (major, minor) = text.trim().split_once(':')?;
        Some(rustix::fs::makedev(
            major.parse().ok()?,
            minor.parse().ok()?,
        ))
    };
    let mut below = Vec::new();
    if directory.join("partition").exists() {
        below.extend(directory.parent().map(Path::to_owned));
    }
    let slaves = fs::read_dir(directory.join("slaves"));
    below.extend(
        slaves
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path()),
    );
    for device in below.into_iter().filter_map(number) {
        follow(root, device, deepest - 1, found);
    }
    let Ok(file) = fs::read_to_string(directory.join("loop/backing_file")) else {
        return;
    };
    let Ok(meta) = fs::metadata(file.trim_end_matches('\n')) else {
        return;
    };
    match meta.rdev() {
        0 => drop(found.insert(Content::File(meta.dev(), meta.ino()))),
        device => follow(root, device, deepest - 1, found),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::makedev;

    use super::*;

    #[test]
    fn partitions_are_of_their_disk_and_not_of_one_another() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let device = |path: &str, number: &str| {
            let path = root.join("sys/devices").join(path);
            fs::create_dir_all(path.join("slaves")).unwrap();
            fs::write(path.join("dev"), format!("{number}\n")).unwrap();
            let links = root.join("sys/dev/block");
            fs::create_dir_all(&links).unwrap();
            symlink(&path, links.join(number)).unwrap();
            path
        };
        let _ = device("sda", "8:0");
        for (path, number) in [("sda/sda1", "8:1"), ("sda/sda2", "8:2")] {
            fs::write(device(path, number).join("partition"), "").unwrap();
        }
        // A volume on the second partition, and a loop device that shows a file.
        let volume = device("dm-0", "253:0");
        symlink(
            root.join("sys/devices/sda/sda2"),
            volume.join("slaves/sda2"),
        )
        .unwrap();
        let file = root.join("file");
        fs::write(&file, "").unwrap();
        let shown = device("loop0", "7:0");
        fs::create_dir(shown.join("loop")).unwrap();
        fs::write(
            shown.join("loop/backing_file"),
            format!("{}\n", file.display()),
        )
        .unwrap();
        let (disk, first, second) = (makedev(8, 0), makedev(8, 1), makedev(8, 2));
        let volume = makedev(253, 0);
        for (one, other, is) in [
            (disk, first, true),
            (first, disk, true),
            (first, first, true),
            (first, second, false),
            (volume, second, true),
            (volume, disk, true),
            (volume, first, false),
            (makedev(9, 9), makedev(9, 9), true),
            (makedev(9, 9), disk, false),
        ] {
            assert_eq!(overlap(root, one, other), is, "{one:x} {other:x}");
        }
        let meta = fs::metadata(&file).unwrap();
        assert!(shows(root, makedev(7, 0), (meta.dev(), meta.ino())));
        assert!(!shows(root, disk, (meta.dev(), meta.ino())));
    }
}

//! Block devices that are made of other ones: the sectors of a partition are some of its disk.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::sysfs;
use rustix::fs::makedev;

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
pub fn overlap(root: &Path, one: u64, other: u64) -> bool {
    let (below_one, below_other) = (below(root, one), below(root, other));
    below_one.contains(&Content::Device(other)) || below_other.contains(&Content::Device(one))
}

/// Whether a block device shows a file.
pub fn shows(root: &Path, device: u64, file: (u64, u64)) -> bool {
    below(root, device).contains(&Content::File(file.0, file.1))
}

fn below(root: &Path, device: u64) -> BTreeSet<Content> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let mut found = BTreeSet::from([Content::Device(device)]);
    if let Some(name) = sysfs::link_name(root, &format!("dev/block/{major}:{minor}")) {
        follow(root, &name, DEEPEST, &mut found);
    }
    found
}

/// Adds what the device of a name has its content in.
fn follow(root: &Path, name: &str, deepest: usize, found: &mut BTreeSet<Content>) {
    let file = |path: &str| sysfs::line(root, &format!("class/block/{name}/{path}"));
    let number = || {
        let line = file("dev")?;
        let (major, minor) = line.split_once(':')?;
        Some(makedev(major.parse().ok()?, minor.parse().ok()?))
    };
    found.extend(number().map(Content::Device));
    if deepest == 0 {
        return;
    }
    let slaves = sysfs::names(root, &format!("class/block/{name}/slaves"));
    for one in slaves
        .into_iter()
        .chain(sysfs::disk_of_partition(root, name))
    {
        follow(root, &one, deepest - 1, found);
    }
    let shown = file("loop/backing_file").and_then(|path| fs::metadata(path).ok());
    if let Some(meta) = shown {
        match meta.rdev() {
            0 => drop(found.insert(Content::File(meta.dev(), meta.ino()))),
            device => found.extend(below(root, device)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

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
            let names = root.join("sys/class/block");
            fs::create_dir_all(&names).unwrap();
            symlink(&path, names.join(path.file_name().unwrap())).unwrap();
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

//! Systems that show nothing, each for a reason.

use super::tree::Tree;
use crate::ktext::{Source, SourceError};

/// Why there is nothing.
fn absence(tree: &Tree) -> String {
    let error = Source::find(tree.root()).unwrap_err();
    assert!(matches!(error, SourceError::Absent(_)), "{error}");
    error.to_string()
}

#[test]
fn each_reason_has_what_to_do() {
    let tree = Tree::empty();
    assert!(absence(&tree).contains("configuration cannot be read"));
    tree.file("proc/mounts", "none /proc proc rw 0 0\n");
    assert!(absence(&tree).contains("mount -t debugfs none /sys/kernel/debug"));
    tree.file("proc/cmdline", "root=/dev/sda debugfs=off quiet\n");
    assert!(absence(&tree).contains("has debugfs=off"));
    tree.file("proc/cmdline", "root=/dev/sda debugfs=on\n");
    tree.file("proc/sys/kernel/osrelease", "6.12.1\n");
    tree.file("boot/config-6.12.1", "CONFIG_KTEXT_REPLICATION_MODULES=y\n");
    let text = absence(&tree);
    assert!(
        text.contains("6.12.1 does not replicate its text: /boot/config-6.12.1"),
        "{text}"
    );
    assert!(text.contains("brisk ktext check"), "{text}");
    tree.file("boot/config-6.12.1", "CONFIG_KTEXT_REPLICATION=y\n");
    assert!(absence(&tree).contains("mount -t debugfs none /sys/kernel/debug"));
    tree.file("proc/mounts", "debugfs /sys/kernel/debug debugfs rw 0 0\n");
    assert!(absence(&tree).contains("look for ktext_repl in the kernel's log"));
}

#[test]
fn it_is_found_where_debugfs_is_mounted() {
    let tree = Tree::new();
    let from = tree.at("sys/kernel/debug/ktext_repl");
    std::fs::create_dir_all(tree.at("debug")).unwrap();
    std::fs::rename(from, tree.at("debug/ktext_repl")).unwrap();
    tree.file("proc/mounts", "none /debug debugfs rw 0 0\n");
    let source = Source::find(tree.root()).unwrap();
    assert_eq!(source.path("map"), tree.at("debug/ktext_repl/map"));
    tree.file("proc/mounts", "none /debug tmpfs rw 0 0\n");
    assert!(Source::find(tree.root()).is_err());
}

#[test]
fn a_directory_that_may_not_be_looked_into_takes_root() {
    use crate::ktext::absence::Absence;
    let tree = Tree::empty();
    let denied = Absence::find(tree.root(), Some("/sys/kernel/debug".into()));
    let expected = "only root may look into /sys/kernel/debug: run it as root";
    assert_eq!(denied.to_string(), expected);
}

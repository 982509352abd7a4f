//! Initial filesystems of busybox.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An initramfs in `directory` whose init is a script of busybox, whose programs are in its path;
/// proc, sysfs and devtmpfs are mounted. What is in `directory/tree` comes with it.
///
/// # Panics
/// If busybox is missing.
#[must_use]
pub(crate) fn initramfs(directory: &Path, script: &str) -> PathBuf {
    let tree = directory.join("tree");
    for name in ["bin", "proc", "sys", "dev"] {
        fs::create_dir_all(tree.join(name)).unwrap();
    }
    fs::copy(crate::tool("busybox"), tree.join("bin/busybox")).unwrap();
    let init = format!(
        "#!/bin/busybox sh\nbusybox=/bin/busybox\n$busybox --install -s /bin\n\
         export PATH=/bin\nmount -t proc proc /proc\nmount -t sysfs sysfs /sys\n\
         mount -t devtmpfs dev /dev\n{script}\n"
    );
    fs::write(tree.join("init"), init).unwrap();
    let packed = directory.join("initramfs");
    let pack = "chmod 755 init bin/* && find . | busybox cpio -o -H newc > \"$0\"";
    let output = Command::new("sh")
        .args(["-c", pack])
        .arg(&packed)
        .current_dir(&tree)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    packed
}

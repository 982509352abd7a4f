//! Directories and disk images as roots.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::program::{capture, tool};

/// Applets that the tests call.
const APPLETS: [&str; 13] = [
    "cat", "echo", "env", "grep", "id", "ls", "mkdir", "mount", "pwd", "sh", "touch", "true",
    "uname",
];

/// A static busybox.
///
/// # Panics
/// If it is not installed.
#[must_use]
pub fn busybox() -> PathBuf {
    fs::canonicalize(tool("busybox")).unwrap()
}

/// A small root file system in a new directory.
pub fn tree(directory: &Path) {
    for name in ["bin", "etc", "home/ada", "srv"] {
        fs::create_dir_all(directory.join(name)).unwrap();
    }
    let program = directory.join("bin/busybox");
    fs::copy(busybox(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    for applet in APPLETS {
        symlink("busybox", directory.join("bin").join(applet)).unwrap();
    }
    let passwd = "root:x:0:0::/root:/bin/sh\nada:x:1001:1002::/home/ada:/bin/sh\n";
    fs::write(directory.join("etc/passwd"), passwd).unwrap();
    fs::write(directory.join("etc/group"), "root:x:0:\nada:x:1002:\n").unwrap();
    fs::write(directory.join("etc/origin"), "the test's tree\n").unwrap();
}

/// An ext4 image of a tree.
pub fn ext4(tree: &Path, image: &Path) {
    let [tree, image] = [tree, image].map(|path| path.to_str().unwrap());
    capture(&tool("mkfs.ext4"), &["-q", "-d", tree, image, "32M"]);
}

/// An image of a tree in a format that only reads: `erofs`.
pub fn disk(kind: &str, tree: &Path, image: &Path) {
    let [tree, image] = [tree, image].map(|path| path.to_str().unwrap());
    capture(&tool(&format!("mkfs.{kind}")), &[image, tree]);
}

/// A raw image as qcow2.
pub fn qcow2(raw: &Path, image: &Path) {
    let [raw, image] = [raw, image].map(|path| path.to_str().unwrap());
    let words = ["convert", "-f", "raw", "-O", "qcow2", raw, image];
    capture(&tool("qemu-img"), &words);
}

/// A disk whose only partition, a Linux root in a GPT, is a raw image.
pub fn partitioned(raw: &Path, image: &Path) {
    const MIB: usize = 1 << 20;
    let contents = fs::read(raw).unwrap();
    let mut bytes = vec![0; MIB];
    bytes.extend(&contents);
    bytes.extend(vec![0; MIB]);
    fs::write(image, bytes).unwrap();
    let layout = format!(
        "label: gpt\nstart=2048, size={}, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709\n",
        contents.len() / 512
    );
    let script = image.with_extension("sfdisk");
    fs::write(&script, layout).unwrap();
    let shell = "exec \"$1\" --quiet --no-reread --no-tell-kernel \"$2\" < \"$3\"";
    let program = tool("sfdisk");
    let words = [&program, image, &script].map(|path| path.to_str().unwrap());
    capture(
        Path::new("/bin/sh"),
        &["-c", shell, "sh", words[0], words[1], words[2]],
    );
}

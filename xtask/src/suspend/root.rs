//! The file system that the machines have: a busybox, and 1 GiB to fill memory with.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use brisk_host::program::Program;

/// Bytes of `/fill.tar`: libraries and programs of this host.
const FILL: u64 = 1 << 30;
/// What is needed besides.
const SPARE: u64 = 128 << 20;
const DIRECTORIES: [&str; 7] = ["bin", "dev", "etc", "proc", "run", "sys", "tmp"];

/// Makes it.
pub(super) fn root(dir: &Path) -> anyhow::Result<PathBuf> {
    let tree = dir.join("tree");
    for name in DIRECTORIES {
        fs::create_dir_all(tree.join(name))?;
    }
    let busybox = Program::find("busybox").context("the guests need a busybox of this host")?;
    fs::copy(busybox.path(), tree.join("bin/busybox"))?;
    symlink("busybox", tree.join("bin/sh"))?;
    let script = "tar -c -C /usr lib/x86_64-linux-gnu bin lib 2> /dev/null | head -c \"$1\"";
    let fill = tree.join("fill.tar");
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh", &FILL.to_string()]);
    shell.stdout(File::create(&fill)?).status()?;
    let length = fs::metadata(&fill)?.len();
    ensure!(
        length == FILL,
        "this host has only {length} bytes of programs"
    );
    let image = dir.join("root.img");
    File::create(&image)?.set_len(FILL + SPARE)?;
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.args(["-q", "-F", "-d"]).arg(&tree).arg(&image);
    let made = mkfs.output().context("cannot start mkfs.ext4")?;
    let said = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success(), "mkfs.ext4: {said}");
    fs::remove_dir_all(tree)?;
    Ok(image)
}

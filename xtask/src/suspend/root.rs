//! The file systems that the machines have: a busybox, and 1 GiB to fill memory with.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use brisk_host::program::Program;

/// Bytes of `/fill.tar`: libraries and programs of this host.
const FILL: u64 = 1 << 30;
/// Free space besides the files, bytes.
const SPARE: u64 = 128 << 20;
const DIRECTORIES: [&str; 7] = ["bin", "dev", "etc", "proc", "run", "sys", "tmp"];

/// Two file systems with equal files.
pub(super) struct Roots {
    pub(super) ext4: PathBuf,
    pub(super) erofs: PathBuf,
}

/// Makes them.
pub(super) fn roots(dir: &Path) -> anyhow::Result<Roots> {
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
    let ext4 = dir.join("root.ext4");
    File::create(&ext4)?.set_len(FILL + SPARE)?;
    make(
        Command::new("mkfs.ext4")
            .args(["-q", "-F", "-d"])
            .arg(&tree)
            .arg(&ext4),
    )?;
    let erofs = dir.join("root.erofs");
    make(Command::new("mkfs.erofs").arg(&erofs).arg(&tree))?;
    fs::remove_dir_all(tree)?;
    Ok(Roots { ext4, erofs })
}

fn make(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let made = command
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    let stderr = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success(), "{name}: {stderr}");
    Ok(())
}

//! Guests that idle, to be watched.

use std::fs;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use brisk_sys::die_with_parent;

/// Guests without a disk, whose firmware waits for one: the virtual CPU and QEMU's main thread wake
/// some twenty times a second.
pub(super) struct Guests {
    children: Vec<Child>,
    /// Version of QEMU.
    pub(super) version: Option<String>,
}

const QEMU: &str = "qemu-system-x86_64";
const WORDS: &str = "-M pc,hpet=off -accel tcg -m 16 -smp 2 -nodefaults -display none -object \
                     iothread,id=io1";

impl Guests {
    pub(super) fn start(count: usize) -> anyhow::Result<Self> {
        let version = Command::new(QEMU).arg("--version").output();
        let version = version.with_context(|| format!("cannot start {QEMU}"))?;
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        let mut guests = Self {
            children: Vec::new(),
            version: version.lines().next().map(str::to_owned),
        };
        for number in 0..count {
            let mut command = Command::new(QEMU);
            command
                .arg("-name")
                .arg(format!("idle{number},debug-threads=on"))
                .args(WORDS.split_whitespace())
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            let child = die_with_parent(&mut command).spawn();
            guests.children.push(child.context("cannot start QEMU")?);
        }
        ensure!(count > 0, "no guests to watch");
        Ok(guests)
    }

    /// Waits until all of them do what they do when they idle.
    pub(super) fn settle(&self, brisk: &str) -> anyhow::Result<()> {
        let status = Command::new(brisk)
            .args(["idle", "measure", "--all", "--settle", "120", "--time", "1"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        ensure!(status.success(), "{brisk} idle measure: {status}");
        Ok(())
    }

    /// Process number of one of them.
    pub(super) fn first(&self) -> u32 {
        self.children[0].id()
    }

    pub(super) fn count(&self) -> usize {
        self.children.len()
    }

    /// Number of threads of all of them.
    pub(super) fn threads(&self) -> anyhow::Result<usize> {
        let mut count = 0;
        for child in &self.children {
            let path = format!("/proc/{}/task", child.id());
            count += fs::read_dir(path).context("a guest has ended")?.count();
        }
        Ok(count)
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
        }
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

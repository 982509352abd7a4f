//! A machine that is measured, and what brisk says about it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use brisk_host::interrupt::Interrupt;
use brisk_sys::Sharing;

use super::root::Roots;

/// The brisk that is measured, and a directory for its machines.
pub(super) struct Bench {
    pub(super) brisk: PathBuf,
    pub(super) dir: PathBuf,
    /// What they can have as their root.
    pub(super) roots: Roots,
    /// Whether somebody wants no more of it.
    pub(super) interrupt: Interrupt,
}

/// A machine that runs, until this is dropped.
pub(super) struct Machine<'a> {
    pub(super) bench: &'a Bench,
    pub(super) name: &'static str,
}

/// What a suspend says.
#[derive(Debug, PartialEq)]
pub(super) struct Suspended {
    /// Bytes of memory that were written.
    pub(super) raw: f64,
    /// Of these in a second, without the final fsync.
    pub(super) rate: f64,
    /// Seconds with it.
    pub(super) seconds: f64,
}

/// What a resume says, and how long the command took.
pub(super) struct Resumed {
    /// Seconds until the guest ran.
    pub(super) runs: f64,
    /// Seconds in which all memory was loaded.
    pub(super) loading: Option<f64>,
}

impl<'a> Machine<'a> {
    /// Boots one with ext4; its images are all full ones.
    pub(super) fn boot(bench: &'a Bench, name: &'static str, memory: &str) -> anyhow::Result<Self> {
        Self::boot_from(bench, name, memory, &bench.roots.ext4)
    }

    /// Boots a VM from another root.
    pub(super) fn boot_from(
        bench: &'a Bench,
        name: &'static str,
        memory: &str,
        root: &Path,
    ) -> anyhow::Result<Self> {
        let machine = Self { bench, name };
        let root = root.to_str().context("a path that is no text")?;
        let words = ["--memory", memory, "--root", root, "--incremental=false"];
        machine.does("create", &words)?;
        machine.does("start", &[])?;
        machine.shell("/bin/busybox --install -s /bin")?;
        Ok(machine)
    }

    /// A command about it.
    pub(super) fn vm(&self, verb: &str, words: &[&str]) -> Command {
        let mut command = Command::new(&self.bench.brisk);
        command.arg("vm").arg(verb);
        match verb {
            "exec" => command.arg(self.name).arg("--").args(words),
            _ => command.args(words).arg(self.name),
        };
        for (name, dir) in [("CONFIG", "config"), ("STATE", "state"), ("RUNTIME", "run")] {
            command.env(format!("BRISK_{name}_DIR"), self.bench.dir.join(dir));
        }
        command.stdin(Stdio::null());
        command
    }

    /// What a command says, in both ways.
    pub(super) fn does(&self, verb: &str, words: &[&str]) -> anyhow::Result<String> {
        ensure!(!self.bench.interrupt.came(), "interrupted");
        let mut command = self.vm(verb, words);
        let output = command.output().context("cannot start brisk")?;
        let report = text(&output.stdout) + &text(&output.stderr);
        ensure!(
            output.status.success(),
            "brisk vm {verb} {} {words:?}: {report}",
            self.name
        );
        Ok(report)
    }

    /// Has a shell in the guest do something; seconds.
    pub(super) fn shell(&self, script: &str) -> anyhow::Result<f64> {
        let begun = Instant::now();
        self.does("exec", &["sh", "-c", script])?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Where its next image goes.
    pub(super) fn aim(&self, place: &Path) -> anyhow::Result<PathBuf> {
        let image = place.join(format!("brisk-bench-{}.image", self.name));
        let path = image.to_str().context("a place that is no text")?;
        self.does("set", &["--suspend-path", path])?;
        Ok(image)
    }

    pub(super) fn suspend(&self, words: &[&str]) -> anyhow::Result<Suspended> {
        suspended(&self.does("suspend", words)?)
    }

    /// Suspends the VM, and measures brisk's peak memory, bytes.
    pub(super) fn suspend_with_peak(&self, words: &[&str]) -> anyhow::Result<(Suspended, f64)> {
        let log = tempfile::NamedTempFile::new()?;
        let mut command = self.vm("suspend", words);
        command.stdout(log.reopen()?).stderr(log.reopen()?);
        let child = command.spawn().context("cannot start brisk")?;
        let (status, usage) = brisk_sys::wait_with_usage(child)?;
        let report = fs::read_to_string(log.path())?;
        ensure!(status.success(), "brisk vm suspend: {report}");
        Ok((suspended(&report)?, usage.peak as f64))
    }

    /// All memory first.
    pub(super) fn load(&self) -> anyhow::Result<Resumed> {
        resumed(&self.does("resume", &["--eager"])?)
    }

    /// Memory as the guest needs it: as soon as the command ends.
    pub(super) fn resume(&self) -> anyhow::Result<Resumed> {
        resumed(&self.does("resume", &[])?)
    }

    /// Until nobody reads the image any more.
    pub(super) fn wait_for_memory(&self, image: &Path) -> anyhow::Result<()> {
        let mut resumed = image.as_os_str().to_owned();
        resumed.push(".resumed");
        let Ok(file) = File::open(resumed) else {
            return Ok(());
        };
        // Who serves it holds the lock until it is done.
        Ok(brisk_sys::lock(&file, Sharing::Shared)?)
    }
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        // It may be off.
        let _ = self.vm("kill", &[]).output();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `raw: 857 MB in 1.41 sec 609.5 MB/s` and `raw-fast-fsync: 857 MB in 1.40 sec 610.5 MB/s`.
fn suspended(report: &str) -> anyhow::Result<Suspended> {
    let line = |name: &str| {
        let line = report.lines().find_map(|line| line.strip_prefix(name));
        line.with_context(|| format!("no {name} in {report}"))
    };
    let rate = line("raw-fast-fsync: ")?.rsplit_once("sec ");
    let rate = rate.and_then(|(_, rest)| number_before(rest, " MB/s"));
    let raw = line("raw: ")?;
    Ok(Suspended {
        raw: number_before(raw, " MB in").context("no bytes")? * 1e6,
        rate: rate.context("no rate")? * 1e6,
        seconds: number_before(raw, " sec").context("no seconds")?,
    })
}

/// `m runs again after 0.412 s: 2147 MB of memory loaded in 0.310 s`, or without the last of it.
fn resumed(report: &str) -> anyhow::Result<Resumed> {
    let loading = report.rsplit_once("loaded in ");
    Ok(Resumed {
        runs: number_before(report, " s: ").with_context(|| format!("no time in {report}"))?,
        loading: loading.and_then(|(_, rest)| number_before(rest, " s")),
    })
}

/// The number that ends where `mark` begins.
fn number_before(text: &str, mark: &str) -> Option<f64> {
    let before = text.split_once(mark)?.0;
    before.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_suspend_says_is_understood() {
        let report =
            "raw: 857 MB in 1.41 sec 609.5 MB/s\nraw-fast-fsync: 857 MB in 1.40 sec 610.5 MB/s\n";
        let understood = Suspended {
            raw: 857e6,
            rate: 610.5e6,
            seconds: 1.41,
        };
        assert_eq!(suspended(report).unwrap(), understood);
    }

    #[test]
    fn what_a_resume_says_is_understood() {
        let late = resumed("m runs again after 0.125 s: 134 MB of memory come as it needs them");
        let late = late.unwrap();
        assert_eq!((late.runs, late.loading), (0.125, None));
        let loaded = resumed("m runs again after 0.9 s: 134 MB of memory loaded in 0.705 s\n");
        let loaded = loaded.unwrap();
        assert_eq!((loaded.runs, loaded.loading), (0.9, Some(0.705)));
    }
}

//! Persistent VMs of a test, in directories of their own.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::brisk::Brisk;
use crate::leftovers::{BackgroundProcesses, Process};
use crate::memory::in_memory;
use crate::running::{Finished, Running};
use crate::wait::until;

/// Directories of `brisk vm`, with the VMs in them. All of it is removed when this is dropped.
#[derive(Debug)]
pub struct Machines {
    // First, so that it ends before its files are removed.
    background: BackgroundProcesses,
    files: TempDir,
    memory: TempDir,
    brisk: fn() -> Brisk,
}

impl Machines {
    /// No VMs yet. `brisk` is the binary under test with `vm`, files are made in `target`.
    #[must_use]
    pub fn new(brisk: fn() -> Brisk, target: &str) -> Self {
        // The path of a socket must be short, so they are beside the memory.
        let memory = in_memory("vm-");
        Self {
            background: BackgroundProcesses::new(),
            files: TempDir::with_prefix_in("vm-", target).unwrap(),
            memory,
            brisk,
        }
    }

    /// Directory for files.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.files.path()
    }

    /// Directory of the memory of running VMs.
    #[must_use]
    pub fn memory(&self) -> &Path {
        self.memory.path()
    }

    /// State directory of a VM.
    #[must_use]
    pub fn state_dir(&self, name: &str) -> PathBuf {
        self.files.path().join("state/vm").join(name)
    }

    /// Directory of a VM that runs.
    #[must_use]
    pub fn runtime_dir(&self, name: &str) -> PathBuf {
        self.memory.path().join("run/vm").join(name)
    }

    /// Definition of a VM.
    #[must_use]
    pub fn definition(&self, name: &str) -> PathBuf {
        let file = format!("{name}.toml");
        self.files.path().join("config/vm").join(file)
    }

    /// `brisk vm` with these words.
    #[must_use]
    pub fn vm(&self, words: &[&str]) -> Brisk {
        self.with((self.brisk)()).args(words)
    }

    /// Another command of brisk's that sees these VMs.
    #[must_use]
    pub fn with(&self, brisk: Brisk) -> Brisk {
        brisk
            .leaving(&self.background)
            .env("BRISK_CONFIG_DIR", self.files.path().join("config"))
            .env("BRISK_STATE_DIR", self.files.path().join("state"))
            .env("BRISK_RUNTIME_DIR", self.memory.path().join("run"))
            .env("BRISK_WARM_DIR", self.memory.path())
    }

    /// Runs `brisk vm` with these words, which must succeed.
    #[track_caller]
    pub fn does(&self, words: &[&str]) -> Finished {
        self.vm(words).exits(0)
    }

    /// Runs `brisk vm` with these words, which must be refused with these texts.
    #[track_caller]
    pub fn refuses(&self, words: &[&str], texts: &[&str]) {
        let _ = self.vm(words).exits(125).explains(texts);
    }

    /// Defines a small VM, and boots it.
    #[track_caller]
    pub fn boot(&self, name: &str, words: &[&str]) {
        let _ = self.does(&[&["create", name, "--memory", "128M"], words].concat());
        let _ = self.does(&["start", name]);
    }

    /// Runs a script in a VM.
    #[must_use]
    pub fn exec(&self, name: &str, script: &str) -> Brisk {
        self.vm(&["exec", name]).script(script)
    }

    /// Standard output of a script in a VM.
    #[track_caller]
    pub fn output(&self, name: &str, script: &str) -> String {
        self.exec(name, script).exits(0).text()
    }

    /// Starts a script in a VM and waits until it prints `up`.
    #[must_use]
    #[track_caller]
    pub fn spawns(&self, name: &str, script: &str) -> Running {
        let mut running = self.exec(name, script).spawn();
        running.shows("up\n");
        running
    }

    /// State of a VM, as soon as its QEMU answers.
    #[must_use]
    #[track_caller]
    pub fn doing(&self, name: &str) -> String {
        until("QEMU says what it is doing", || {
            Some(self.glance(name)).filter(|doing| doing != "busy")
        })
    }

    /// State of a VM, `busy` if its QEMU has not answered in time.
    #[must_use]
    #[track_caller]
    pub fn glance(&self, name: &str) -> String {
        let list = self.does(&["list", "--format", "csv"]).text();
        let start = format!("\"{name}\",\"");
        let line = list.lines().find_map(|line| line.strip_prefix(&start));
        let state = line.and_then(|line| line.split('"').next());
        state.unwrap_or_else(|| panic!("{name}: {list}")).to_owned()
    }

    /// Number of QEMUs.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count_of("qemu")
    }

    /// Number of processes whose names begin with `start`.
    #[must_use]
    pub fn count_of(&self, start: &str) -> usize {
        self.processes(start).len()
    }

    /// Processes whose names begin with `start`.
    #[must_use]
    pub fn processes(&self, start: &str) -> Vec<Process> {
        let mut all = self.background.processes();
        all.retain(|one| one.name().starts_with(start));
        all
    }
}

//! Files and processes that a run left behind.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Pid, Signal, kill_process};

/// Variable that every process of a run inherits, with a value of the run's own.
pub(crate) const MARKER: &str = "BRISK_TEST_RUN";
/// Directories where programs leave files.
const SHARED: [&str; 5] = ["/tmp", "/var/tmp", "/dev/shm", "/run", "/run/user/0"];
/// Parts of the names of files that brisk, QEMU and virtiofsd might leave there.
const OURS: [&str; 4] = ["brisk", "qemu", "virtiofs", "vhost"];
/// Directories of VMs by default; tests use others.
const PLACES: [&str; 2] = ["/run/brisk", "/dev/shm/brisk-"];

/// A process that a run started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its command line.
    pub words: Vec<String>,
}

impl Process {
    /// Name of its program, without directories.
    #[must_use]
    pub fn name(&self) -> &str {
        let program = self.words.first().map_or("", String::as_str);
        program.rsplit('/').next().unwrap_or(program)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        self.try_signal(signal).unwrap();
    }

    pub(crate) fn try_signal(&self, signal: Signal) -> rustix::io::Result<()> {
        kill_process(Pid::from_raw(self.pid).unwrap(), signal)
    }
}

/// Files that existed before a run.
#[derive(Debug)]
pub(crate) struct Before {
    marker: String,
    private: PathBuf,
    cache: PathBuf,
    shared: BTreeSet<PathBuf>,
}

impl Before {
    pub(crate) fn new(marker: String, private: PathBuf, cache: PathBuf) -> Self {
        Self {
            marker,
            private,
            cache,
            shared: shared(),
        }
    }

    /// Processes of the run.
    pub(crate) fn processes(&self) -> Vec<Process> {
        processes_of(&self.marker)
    }

    /// Files of the run outside of the cache's results.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut found: Vec<_> = entries(&self.private);
        found.extend(shared().difference(&self.shared).cloned());
        found
    }

    /// Unfinished files in the cache. Another run may be writing one: ask until it has.
    pub(crate) fn unfinished(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut directories = vec![self.cache.clone()];
        while let Some(directory) = directories.pop() {
            for path in entries(&directory) {
                if path.is_dir() {
                    directories.push(path);
                } else if path.extension().is_some_and(|end| end == "tmp")
                    || path
                        .file_name()
                        .is_some_and(|name| name.as_bytes()[0] == b'.')
                {
                    found.push(path);
                }
            }
        }
        found
    }
}

/// Looks in a row in which there has to be no process: one that becomes another program, or whose
/// parent ends, may not be seen in one.
const TIMES: u32 = 3;

/// Processes that may outlive the runs that started them, see [`crate::Brisk::leaving`] and
/// [`BackgroundProcesses::include`]. They are killed when this is dropped.
#[derive(Debug)]
pub struct BackgroundProcesses {
    pub(crate) marker: String,
}

impl BackgroundProcesses {
    /// No processes yet.
    #[expect(clippy::new_without_default, reason = "each is another one")]
    #[must_use]
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self {
            marker: format!("{}-background-{count}", std::process::id()),
        }
    }

    /// Counts what this command starts among them.
    pub fn include(&self, command: &mut Command) {
        command.env(MARKER, &self.marker);
    }

    /// The processes that live.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        processes_of(&self.marker)
    }
}

impl Drop for BackgroundProcesses {
    fn drop(&mut self) {
        // One that is being started is not seen yet.
        let mut times = 0;
        crate::until("what stayed is gone", || {
            let left = self.processes();
            times = if left.is_empty() { times + 1 } else { 0 };
            for process in &left {
                // It may have ended by itself meanwhile.
                let _ = process.try_signal(Signal::KILL);
            }
            (times == TIMES).then_some(())
        });
    }
}

/// Processes with this marker. One that has ended but was not waited for has no environment left
/// and does not count.
fn processes_of(marker: &str) -> Vec<Process> {
    let variable = format!("{MARKER}={marker}");
    let numbers = entries(Path::new("/proc"))
        .into_iter()
        .filter_map(|path| path.file_name()?.to_str()?.parse().ok());
    numbers
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/environ")).is_ok_and(|bytes| {
                bytes
                    .split(|byte| *byte == 0)
                    .any(|one| one == variable.as_bytes())
            })
        })
        .map(|pid: i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&line);
            let words = words.split_terminator('\0').map(str::to_owned).collect();
            Process { pid, words }
        })
        .collect()
}

fn shared() -> BTreeSet<PathBuf> {
    let name = |path: &PathBuf| path.file_name().map(OsString::from).unwrap_or_default();
    SHARED
        .iter()
        .flat_map(|directory| entries(Path::new(directory)))
        .filter(|path| {
            let place = path.to_string_lossy();
            let known = PLACES.iter().any(|known| place.starts_with(known));
            let name = name(path).to_string_lossy().into_owned();
            !known && OURS.iter().any(|part| name.contains(part))
        })
        .collect()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect()
}

//! The binary under test, with its command line.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

use crate::leftovers::{BackgroundProcesses, Before, MARKER};
use crate::running::{Finished, Running};
use crate::slot::Slot;

static RUNS: AtomicUsize = AtomicUsize::new(0);

/// A command line of brisk. Its cache is shared by all tests of a target directory, so that
/// kernels are extracted once.
#[derive(Debug)]
pub struct Brisk {
    pub(crate) command: Command,
    pub(crate) guest: Guest,
    input: Input,
    persistent: bool,
    crowds: bool,
}

/// Directories of a run, which are removed after it.
#[derive(Debug)]
pub struct Guest {
    slot_directory: PathBuf,
    cache: PathBuf,
    private: TempDir,
    /// State directory, not that of the host, whose profile would change guests.
    _state: TempDir,
    pub(crate) before: Before,
}

#[derive(Debug)]
enum Input {
    None,
    Bytes(Vec<u8>),
    File(File),
    Held,
}

impl Brisk {
    /// Constructor for [`crate::brisk!`], which knows the paths.
    #[must_use]
    pub fn new(binary: &str, target: &str) -> Self {
        let target = Path::new(target);
        let cache = target.join("cache");
        fs::create_dir_all(&cache).unwrap();
        let private = TempDir::with_prefix_in("run-", target).unwrap();
        let state = TempDir::with_prefix_in("state-", target).unwrap();
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let marker = format!("{}-{run}", std::process::id());
        let mut command = Command::new(binary);
        command
            .env("BRISK_CACHE_DIR", &cache)
            .env("BRISK_STATE_DIR", state.path())
            .env("TMPDIR", private.path())
            .env(MARKER, &marker)
            .env_remove("BRISK_QEMU")
            .env_remove("RUST_BACKTRACE");
        Self {
            command,
            guest: Guest {
                slot_directory: target.to_owned(),
                before: Before::new(marker, private.path().to_owned(), cache.clone()),
                cache,
                private,
                _state: state,
            },
            input: Input::None,
            persistent: false,
            crowds: false,
        }
    }

    /// Processes that it starts may outlive it. It does not count as a running guest: it works on
    /// one that does.
    #[must_use]
    pub fn leaving(mut self, background: &BackgroundProcesses) -> Self {
        self.persistent = true;
        self.env(MARKER, &background.marker)
    }

    /// It does not count as a running guest: the test wants many small ones at once.
    #[must_use]
    pub fn crowding(mut self) -> Self {
        self.crowds = true;
        self
    }

    pub(crate) fn slot(&self) -> Option<Slot> {
        (!self.persistent && !self.crowds).then(|| Slot::take(self.guest.slots()))
    }

    /// Another word of the command line.
    #[must_use]
    pub fn arg(mut self, word: impl AsRef<OsStr>) -> Self {
        self.command.arg(word);
        self
    }

    /// More words of the command line.
    #[must_use]
    pub fn args(mut self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(words);
        self
    }

    /// The guest's command: `--` and these words.
    #[must_use]
    pub fn command(self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.arg("--").args(words)
    }

    /// The guest's command: a shell with a script.
    #[must_use]
    pub fn script(self, text: &str) -> Self {
        self.command(["sh", "-c", text])
    }

    /// A variable of brisk's own environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// brisk's own working directory.
    #[must_use]
    pub fn current_dir(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Standard input is a pipe with these bytes; without, it is empty.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Input::Bytes(bytes.into());
        self
    }

    /// Standard input is this file, from where it is read.
    #[must_use]
    pub fn stdin_from(mut self, file: File) -> Self {
        self.input = Input::File(file);
        self
    }

    /// Standard input is a pipe that the test writes, see [`Running::write`].
    #[must_use]
    pub fn stdin_held(mut self) -> Self {
        self.input = Input::Held;
        self
    }

    /// Started through a shell whose words `before` and `after` surround the command line, for
    /// redirections.
    #[must_use]
    pub fn in_shell(mut self, before: &str, after: &str) -> Self {
        let mut words: Vec<OsString> = vec![self.command.get_program().into()];
        words.extend(self.command.get_args().map(OsString::from));
        let mut shell = Command::new("bash");
        shell
            .arg("-c")
            .arg(format!("{before} \"$@\" {after}"))
            .arg("bash")
            .args(words);
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        self.command = shell;
        self
    }

    /// Starts it, when there is room for another guest.
    #[must_use]
    pub fn spawn(mut self) -> Running {
        let slot = self.slot();
        let (stdin, bytes) = match self.input {
            Input::None => (File::open("/dev/null").unwrap().into(), None),
            Input::File(file) => (file.into(), None),
            Input::Bytes(bytes) => (Stdio::piped(), Some(bytes)),
            Input::Held => (Stdio::piped(), None),
        };
        self.command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .stdin(stdin);
        let child = self.command.spawn().unwrap();
        Running::new(child, self.guest, slot, bytes)
    }

    /// Runs it to its end.
    #[must_use]
    #[track_caller]
    pub fn output(self) -> Finished {
        let mut running = self.spawn();
        running.read();
        running.wait()
    }

    /// Runs it to its end, which must be this status.
    #[track_caller]
    pub fn exits(self, status: i32) -> Finished {
        self.output().exited(status)
    }
}

impl Guest {
    /// Where the cache is.
    #[must_use]
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    pub(crate) fn slots(&self) -> &Path {
        &self.slot_directory
    }

    /// Waits until no process is left, then looks for files.
    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        crate::until("the processes of a run that ended are gone", || {
            self.before.processes().is_empty().then_some(())
        });
        let files = || self.before.files();
        // Something else on the host may have one for a while.
        let clean = crate::wait::within(|| files().is_empty().then_some(()));
        assert!(clean.is_some(), "left behind: {:?}", files());
        crate::until("no unfinished file is in the cache", || {
            self.before.unfinished().is_empty().then_some(())
        });
        assert!(self.private.path().exists());
    }
}

impl Drop for Guest {
    /// A test that fails leaves nothing behind either.
    fn drop(&mut self) {
        for process in self.before.processes() {
            // It may have ended by itself meanwhile.
            let _ = process.try_signal(rustix::process::Signal::KILL);
        }
    }
}

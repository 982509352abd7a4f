//! Warm pool: guests that were restored from a template in advance, have run a warm-up, and wait
//! for a command.
//!
//! Under emulation, most of the time of a short command after a restore is the translation of code
//! that runs for the first time, and QEMU cannot save translations. So a process of brisk's
//! restores a guest before it is needed, and runs a warm-up in it: a shell that does nothing. A run
//! that needs a guest connects to the process's socket and gets the descriptors of the VM's
//! channels. The process stays the parent of the VM's processes, ends them when the run is over,
//! and has one guest only. It ends by itself when no run came for some time, or its socket was
//! removed.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use brisk_sys::wait_for;
use brisk_vm::cache::Cache;
use brisk_vm::guest::Step;
use brisk_vm::launch::Running;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::inotify;

use super::session::{Session, Stop};
use super::timing::Timing;
use crate::guest::error::Error;
use crate::guest::facts::Facts;
use crate::guest::plan::Plan;
use brisk_host::interrupt::Signals;

/// Variable for the time that a guest waits, seconds.
const TIME_VARIABLE: &str = "BRISK_READY_SECONDS";
const TIME: Duration = Duration::from_secs(60);
/// Time limit of a warm-up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Digits of a template's key in the names of its guests: paths of sockets are short.
const DIGITS: usize = 16;

/// The waiting guests of one template.
#[derive(Debug, Clone)]
pub struct WarmPool {
    dir: PathBuf,
    template: String,
}

impl WarmPool {
    pub(super) fn new(store: &Cache, key: &str) -> Self {
        Self {
            dir: store.dir().join("ready"),
            template: key.chars().take(DIGITS).collect(),
        }
    }

    /// Takes a waiting guest, if there is one. It belongs to the caller then.
    #[must_use]
    pub fn take(&self) -> Option<Running> {
        let dir = File::open(&self.dir).ok()?;
        self.names().into_iter().find_map(|name| {
            let pool_process = match UnixStream::connect(short(&dir, &name)) {
                Ok(stream) => stream,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    // Its pool process was killed.
                    let _ = fs::remove_file(self.dir.join(name));
                    return None;
                }
                Err(_) => return None,
            };
            Running::take_over(pool_process).ok().flatten()
        })
    }

    /// Whether another guest would be of use: there are fewer waiting ones than could run at once.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let most = std::thread::available_parallelism().map_or(1, usize::from);
        self.names().len() < most
    }

    /// Ends all waiting guests.
    pub fn clear(&self) {
        for name in self.names() {
            let _ = fs::remove_file(self.dir.join(name));
        }
    }

    /// Restores a guest from the template by a plan, and keeps it until a run has used it.
    ///
    /// # Errors
    /// If the VM cannot be started or handed over.
    pub fn keep(
        &self,
        mut plan: Plan,
        on_terminal: bool,
        facts: &Facts,
        cache: &Cache,
    ) -> Result<(), Error> {
        let time = time()?;
        plan.command = warm_up(on_terminal);
        let timing = Timing::new(Instant::now());
        let session = Session::start(plan, facts, cache, timing, &mut |_| {})?;
        match session.run_to_pause(PATIENCE, Duration::ZERO)? {
            Stop::Ended(_) => Ok(()),
            Stop::Paused(paused) => self.wait(paused.running, time).map_err(Error::Session),
        }
    }

    /// Names of the sockets.
    fn names(&self) -> Vec<String> {
        let list = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let names = list.filter_map(|entry| entry.file_name().into_string().ok());
        let ours = |name: &String| {
            name.split_once('.')
                .is_some_and(|(template, _)| template == self.template)
        };
        names.filter(ours).collect()
    }

    fn wait(&self, running: Running, time: Duration) -> io::Result<()> {
        if !self.has_room() {
            return Ok(());
        }
        let signals = Signals::new()?;
        let socket = PoolSocket::open(&self.dir, &self.template)?;
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC)?;
        // A link fewer is a change of its attributes.
        inotify::add_watch(&watch, &socket.path, inotify::WatchFlags::ATTRIB)?;
        let mut fds = [
            PollFd::new(&socket.listener, PollFlags::IN),
            PollFd::new(&watch, PollFlags::IN),
            PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
            // Only whether it hangs up.
            PollFd::new(&running.qmp, PollFlags::empty()),
        ];
        wait_for(&mut fds, Some(Instant::now() + time))?;
        if fds[0].revents().is_empty() {
            return Ok(());
        }
        let (other, _) = socket.listener.accept()?;
        drop(socket);
        running.hand_over(other)?.serve(signals.as_fd())
    }
}

/// Socket of a waiting guest, which is removed when this is dropped.
struct PoolSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl PoolSocket {
    fn open(dir: &Path, template: &str) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).recursive(true).create(dir)?;
        let name = format!("{template}.{}", std::process::id());
        // Whoever finds it finds somebody who listens.
        let outside = dir.parent().unwrap_or(dir);
        let hidden = format!("{name}.socket");
        let listener = UnixListener::bind(short(&File::open(outside)?, &hidden))?;
        let path = dir.join(name);
        fs::rename(outside.join(hidden), &path)?;
        Ok(Self { listener, path })
    }
}

impl Drop for PoolSocket {
    fn drop(&mut self) {
        // Whoever wanted this guest to end has removed it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Starts this program with these arguments; it outlives the caller.
///
/// # Errors
/// If a system call fails.
pub fn start_pool_process(words: &[OsString]) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    brisk_sys::own_session(&mut command);
    command.spawn().map(drop)
}

/// Steps of a warm-up: a command that does nothing, on the paths that every command and a shell
/// use.
fn warm_up(on_terminal: bool) -> Vec<Step> {
    let words = ["sh", "-c", ":"].map(|word| Step::Argument { text: word.into() });
    let mut steps = Vec::from(words);
    if on_terminal {
        steps.push(Step::Terminal {
            rows: 24,
            columns: 80,
        });
    }
    steps.extend([Step::WarmUp, Step::Pause]);
    steps
}

/// A short path of a file in a directory, however long the directory's path is.
fn short(dir: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))
}

/// Time that a guest waits.
///
/// # Errors
/// If the variable is no number.
pub fn time() -> Result<Duration, Error> {
    match std::env::var_os(TIME_VARIABLE).filter(|given| !given.is_empty()) {
        None => Ok(TIME),
        Some(given) => given
            .to_str()
            .and_then(|given| given.parse().ok())
            .map(Duration::from_secs)
            .ok_or_else(|| {
                Error::unfit(
                    format!("{TIME_VARIABLE} is {}", given.to_string_lossy()),
                    "give a number of seconds",
                )
            }),
    }
}

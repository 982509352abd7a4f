//! The program that does the operations, on the live machine.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use brisk_host::files;
use brisk_sys::wait_for;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::BenchError;
use crate::guest::harmless;
use crate::ktext::switch;
use crate::ktext::worker::{Answer, Answers, Step};
use crate::overhead::probe::PROGRAM;
use brisk_host::interrupt::Interrupt;

/// Parameter of the module that flushes caches: the process whose system calls do.
const COLD: &str = "/sys/module/ktext_cold/parameters/pid";

/// The program. When this is dropped it ends, and replication and caches are as they were.
#[derive(Debug)]
pub(super) struct Program<'a> {
    child: Child,
    steps: ChildStdin,
    answered: ChildStdout,
    answers: Answers,
    rest: Vec<u8>,
    was_active: bool,
    /// What the module had before, if it is there.
    was_cold: Option<String>,
    has_ended: bool,
    /// Keeps others from switching meanwhile.
    _lock: File,
    limit: Duration,
    interrupt: &'a Interrupt,
}

/// Whether caches can be flushed at system calls.
pub(super) fn can_flush() -> bool {
    Path::new(COLD).exists()
}

impl<'a> Program<'a> {
    /// Starts it; it leaves replication as `was_active` says. `switch` is the file of the switch.
    pub(super) fn start(
        was_active: bool,
        switch: &Path,
        limit: Duration,
        interrupt: &'a Interrupt,
    ) -> Result<Self, BenchError> {
        let lock = File::open(switch).map_err(BenchError::Program)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Err(BenchError::Busy),
            // A kernel without CONFIG_FILE_LOCKING has no locks.
            Err(Errno::NOSYS) => {}
            taken => taken.map_err(|error| BenchError::Program(error.into()))?,
        }
        let was_cold = fs::read_to_string(COLD).ok();
        let (mut child, file) = spawn().map_err(BenchError::Program)?;
        drop(file);
        let (Some(steps), Some(answered)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(BenchError::Program(io::ErrorKind::BrokenPipe.into()));
        };
        let mut program = Self {
            child,
            steps,
            answered,
            answers: Answers::default(),
            rest: Vec::new(),
            was_active,
            was_cold,
            has_ended: false,
            _lock: lock,
            limit,
            interrupt,
        };
        program.answer("start")?;
        Ok(program)
    }

    /// Ends it, and restores replication and caches.
    ///
    /// # Errors
    /// If they cannot be restored.
    pub(super) fn finish(mut self) -> Result<(), BenchError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), BenchError> {
        if std::mem::replace(&mut self.has_ended, true) {
            return Ok(());
        }
        // What loads memory ends with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let now = fs::read_to_string(COLD).ok();
        if let Some(before) = self.was_cold.as_ref().filter(|it| now.as_ref() != Some(it)) {
            fs::write(COLD, before).map_err(BenchError::Caches)?;
        }
        Ok(switch(Path::new("/"), self.was_active)?)
    }

    /// Has a step done.
    pub(super) fn step(&mut self, step: &Step<'_>) -> Result<Answer, BenchError> {
        match writeln!(self.steps, "{step}") {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(BenchError::Ended),
            written => {
                written.map_err(BenchError::Program)?;
                self.answer(&step.to_string())
            }
        }
    }

    fn answer(&mut self, step: &str) -> Result<Answer, BenchError> {
        let deadline = Instant::now() + self.limit;
        loop {
            if let Some(answer) = self.next_line() {
                return Ok(answer?);
            }
            let mut fds = [self.answered.as_fd(), self.interrupt.as_fd()]
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            let count = wait_for(&mut fds, Some(deadline)).map_err(BenchError::Program)?;
            let [answered, _] = fds.map(|fd| !fd.revents().is_empty());
            if let Some(signal) = self.interrupt.signal() {
                return Err(BenchError::Interrupted(signal));
            }
            if count == 0 {
                return Err(BenchError::Hangs {
                    step: step.to_owned(),
                    limit: self.limit,
                });
            }
            if answered {
                let mut buffer = [0; 4096];
                match rustix::io::read(&self.answered, &mut buffer) {
                    Ok(0) => return Err(BenchError::Ended),
                    Ok(count) => self.rest.extend_from_slice(&buffer[..count]),
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(BenchError::Program(error.into())),
                }
            }
        }
    }

    /// The next answer of what was read.
    fn next_line(&mut self) -> Option<Result<Answer, crate::ktext::WorkerError>> {
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<_> = self.rest.drain(..=end).collect();
            if let Some(answer) = self.answers.take(harmless(&line).trim_end_matches('\n')) {
                return Some(answer);
            }
        }
        None
    }
}

/// Starts the program from memory: no file is left, and no file system has to allow it.
fn spawn() -> io::Result<(Child, File)> {
    let file = files::in_memory("brisk-probe", PROGRAM)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut command = Command::new(path);
    // Ctrl-C is for brisk to act on.
    command.arg("--ktext").arg0("brisk-probe").process_group(0);
    // It ends with its input, and so with brisk; it restores what it changed then.
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok((command.spawn()?, file))
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // Another error is shown, which came first.
        let _ = self.end();
    }
}

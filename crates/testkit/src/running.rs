//! A brisk that runs, or has ended.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};

use crate::brisk::Guest;
use crate::leftovers::Process;
use crate::slot::Slot;
use crate::wait::until;

/// A stream that a thread collects.
#[derive(Debug, Default)]
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Collected {
    fn start(&mut self, mut stream: impl Read + Send + 'static) {
        let bytes = Arc::clone(&self.bytes);
        self.reader = Some(thread::spawn(move || {
            let mut buffer = [0; 64 * 1024];
            // A terminal whose other side is gone gives an error instead of an end.
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                bytes.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        }));
    }

    fn shows(&self, text: &str) -> bool {
        let bytes = self.bytes.lock().unwrap();
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    }

    fn end(&mut self) -> Vec<u8> {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        std::mem::take(&mut self.bytes.lock().unwrap())
    }
}

/// A brisk that was started. Dropping it kills it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    guest: Option<Guest>,
    stdout: Collected,
    stderr: Collected,
    stdin: Option<ChildStdin>,
    writer: Option<JoinHandle<()>>,
    _slot: Option<Slot>,
}

impl Running {
    pub(crate) fn new(
        mut child: Child,
        guest: Guest,
        slot: Option<Slot>,
        input: Option<Vec<u8>>,
    ) -> Self {
        let mut stdin = child.stdin.take();
        let writer = input.map(|bytes| {
            let mut stdin = stdin.take().unwrap();
            // A command need not read all of its input.
            thread::spawn(move || drop(stdin.write_all(&bytes)))
        });
        let mut stderr = Collected::default();
        if let Some(stream) = child.stderr.take() {
            stderr.start(stream);
        }
        Self {
            child,
            guest: Some(guest),
            stdout: Collected::default(),
            stderr,
            stdin,
            writer,
            _slot: slot,
        }
    }

    /// Collects standard output from now on.
    pub fn read(&mut self) {
        let stream = self.stdout().unwrap();
        self.stdout.start(stream);
    }

    /// Standard output, for a test that reads it itself.
    #[must_use]
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Waits until the pipe of standard output is full, so that brisk must wait for its reader.
    #[track_caller]
    pub fn is_stuck(&self) {
        let pipe = self.child.stdout.as_ref().unwrap();
        let size = rustix::pipe::fcntl_getpipe_size(pipe).unwrap() as u64;
        until("the pipe of standard output is full", || {
            (rustix::io::ioctl_fionread(pipe).unwrap() == size).then_some(())
        });
    }

    pub(crate) fn collect(&mut self, stream: impl Read + Send + 'static) {
        self.stdout.start(stream);
    }

    /// Waits for this text on standard output, which is collected from now on.
    #[track_caller]
    pub fn shows(&mut self, text: &str) {
        if self.stdout.reader.is_none() {
            self.read();
        }
        let waiting = format!("{text:?} is on standard output");
        until(&waiting, || {
            let ended = self.child.try_wait().unwrap().is_some();
            let reader = self.stdout.reader.as_ref();
            let read = reader.is_none_or(|reader| reader.is_finished());
            // Looked at after both: the text may have come at the very end.
            let shown = self.stdout.shows(text);
            assert!(
                shown || !ended || !read,
                "brisk ended without {text:?}; its output: {:?} and {:?}",
                String::from_utf8_lossy(&self.stdout.bytes.lock().unwrap()),
                String::from_utf8_lossy(&self.stderr.bytes.lock().unwrap()),
            );
            shown.then_some(())
        });
    }

    /// Waits for this text on standard error.
    #[track_caller]
    pub fn says(&mut self, text: &str) {
        let waiting = format!("{text:?} is on standard error");
        until(&waiting, || self.stderr.shows(text).then_some(()));
    }

    /// Writes to standard input.
    pub fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Ends standard input.
    pub fn close_stdin(&mut self) {
        drop(self.stdin.take());
    }

    /// Sends a signal to brisk.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// brisk's process number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// brisk and what it started.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        self.guest.as_ref().unwrap().before.processes()
    }

    /// Waits for a process of this program that the run started.
    #[track_caller]
    pub fn process(&self, name: &str) -> Process {
        until(&format!("{name} runs"), || {
            let mut all = self.processes().into_iter();
            all.find(|process| process.name().starts_with(name))
        })
    }

    /// Waits for the end, and that nothing is left.
    #[must_use]
    #[track_caller]
    pub fn wait(mut self) -> Finished {
        if self.stdin.is_some() {
            self.close_stdin();
        }
        let status = until("brisk ends", || self.child.try_wait().unwrap());
        let guest = self.guest.take().unwrap();
        guest.assert_clean();
        let stdout = self.stdout.end();
        let stderr = self.stderr.end();
        if let Some(writer) = self.writer.take() {
            writer.join().unwrap();
        }
        Finished {
            status,
            stdout,
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            stderr_bytes: stderr,
            guest,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails where it was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A brisk that ended.
#[derive(Debug)]
pub struct Finished {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error, as text.
    pub stderr: String,
    /// Standard error, unchanged.
    pub stderr_bytes: Vec<u8>,
    /// Directories of the run.
    pub guest: Guest,
}

impl Finished {
    /// Asserts the exit status.
    #[track_caller]
    pub fn exited(self, status: i32) -> Self {
        assert_eq!(
            self.status.code(),
            Some(status),
            "{}; its stderr:
{}and wrote:\n{}",
            self.status,
            self.stderr,
            self.text()
        );
        self
    }

    /// Standard output as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Asserts that standard error has these texts.
    #[track_caller]
    pub fn explains(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(
                self.stderr.contains(text),
                "no {text:?} in its stderr:\n{}",
                self.stderr
            );
        }
        self
    }

    /// The signal that ended brisk itself.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }
}

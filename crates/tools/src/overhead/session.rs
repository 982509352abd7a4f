//! A shell in a target: requests on its standard input, lines with their times on its output.

mod on_console;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use brisk_host::files;
use brisk_sys::wait_for;
use brisk_vm::libvirt::Console;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};

use super::launch::{Channel, Launch};
use super::memory::Bound;
use super::session_error::{SessionError, shown};
use brisk_host::interrupt::Interrupt;

/// Bytes that a target may write for one request.
const MOST: usize = 1 << 20;
/// Bytes on the disk that a target's messages may take.
const MOST_MESSAGES: u64 = 16 << 20;
/// Bytes of a block in the metadata of a file (stat(2)).
const BLOCK: u64 = 512;
/// How often the size of the messages is looked at while nothing comes.
const GLANCE: Duration = Duration::from_secs(10);
/// How often that of the files is, which may grow by gigabytes a second.
const GLANCE_AT_FILES: Duration = Duration::from_millis(200);
/// Bytes of a target's messages that an error shows.
const TAIL: u64 = 600;
/// How long a target may take to end when its input has ended, and again when it is asked to.
const ENDING: Duration = Duration::from_secs(5);
/// How long an answer may take, and what ends the wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience<'a> {
    /// Ends the wait.
    pub(super) interrupt: &'a Interrupt,
    /// How long an answer may take.
    pub(super) time: Duration,
}

/// A line of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// When it came.
    pub(super) at: Instant,
    /// The text, without line break.
    pub(super) text: String,
}

/// The shell. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Session {
    /// What was started; none if a console was there already.
    child: Option<Child>,
    /// Kept open.
    console: Option<Console>,
    input: Option<File>,
    output: File,
    messages: File,
    /// Marks what the shell answers to requests.
    token: String,
    requests: u32,
    received: Vec<u8>,
    lines: VecDeque<Line>,
    /// Whether its shell was started on a console.
    is_on_console: bool,
    /// As in [`Launch`].
    hint: &'static str,
    /// What its files may take of the host's memory; none if they take none.
    pub(super) bound: Option<Bound>,
}

impl Session {
    /// Starts a target's program.
    pub(super) fn start(launch: &Launch, token: &str) -> Result<Self, SessionError> {
        let (program, words) = launch.words.split_first().expect("a launch has a program");
        let failed = |source| SessionError::Start {
            program: program.to_string_lossy().into_owned(),
            source,
        };
        let messages = tempfile::tempfile().map_err(failed)?;
        let mut command = Command::new(program);
        command
            .args(words)
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(messages.try_clone().map_err(failed)?)
            // A terminal's Ctrl-C is for brisk, which then ends it.
            .process_group(0);
        if launch.has_small_pages {
            brisk_sys::small_pages(&mut command);
        }
        if launch.ends_by_signal {
            brisk_sys::die_with_parent(&mut command); // Nobody else would end it.
        }
        let mut child = command.spawn().map_err(failed)?;
        let input = OwnedFd::from(child.stdin.take().expect("it is piped"));
        let output = OwnedFd::from(child.stdout.take().expect("it is piped"));
        let mut session = Self::of(input.into(), output.into(), messages, token);
        session.child = Some(child);
        session.hint = launch.hint;
        if let Some(input) = &session.input {
            fcntl_setfl(input, OFlags::NONBLOCK).map_err(io::Error::from)?;
        }
        fcntl_setfl(&session.output, OFlags::NONBLOCK).map_err(io::Error::from)?;
        Ok(session)
    }

    /// On a console that is open already, and not blocking.
    pub(super) fn on_console(console: Console, token: &str) -> Result<Self, SessionError> {
        let fd = || console.fd().try_clone_to_owned().map(File::from);
        let (input, output) = (fd()?, fd()?);
        let mut session = Self::of(input, output, tempfile::tempfile()?, token);
        session.console = Some(console);
        Ok(session)
    }

    fn of(input: File, output: File, messages: File, token: &str) -> Self {
        Self {
            child: None,
            console: None,
            input: Some(input),
            output,
            messages,
            token: token.to_owned(),
            requests: 0,
            received: Vec::new(),
            lines: VecDeque::new(),
            is_on_console: false,
            hint: "",
            bound: None,
        }
    }

    /// Number of the process that was started, if one was.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// How its program ended. What it has left in its group is killed before the number is free.
    fn status(&mut self) -> Option<ExitStatus> {
        let child = self.child.as_mut()?;
        let group = Pid::from_child(child);
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if let Ok(Some(_)) = waitid(WaitId::Pid(group), look) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        child.try_wait().ok().flatten()
    }

    /// Has the shell take a line of commands, and returns their status. `on_line` gets each line
    /// of their output that begins with the token of this session, without it; what else is
    /// written is left out.
    pub(super) fn request(
        &mut self,
        script: &str,
        patience: Patience<'_>,
        on_line: &mut dyn FnMut(&str, Instant),
    ) -> Result<i32, SessionError> {
        let end = self.next_end();
        let text = format!("{script}\necho \"{end} $?\"\n");
        self.exchange(text.as_bytes(), &end, patience, on_line)
    }

    /// Has a shell that may be any take its first line: a bash takes its place if there is one,
    /// since that knows the time without starting a program.
    pub(super) fn greet(
        &mut self,
        channel: Channel,
        patience: Patience<'_>,
    ) -> Result<(), SessionError> {
        match channel {
            Channel::Pipes => {}
            Channel::SilentTerminal => {
                let begin = self.begin();
                self.exchange(&[], &begin, patience, &mut |_, _| {})?;
            }
            Channel::Console => self.log_in(patience)?,
            Channel::ConsoleOfAgent => {
                let begin = self.begin();
                self.exchange(&[], &begin, patience, &mut |_, _| {})?;
                self.is_on_console = true;
            }
        }
        let end = self.next_end();
        let text = format!(
            "command -v bash >/dev/null 2>&1 && exec bash -c 'echo \"{end} 0\"; exec bash'; echo \
             \"{end} 0\"\n"
        );
        self.exchange(text.as_bytes(), &end, patience, &mut |_, _| {})?;
        Ok(())
    }

    /// What a shell on a terminal answers by itself when it begins and when it ends.
    fn begin(&self) -> String {
        format!("{}-0", self.token)
    }

    /// Has the target unpack a tar archive in the directory `$d`.
    pub(super) fn unpack(
        &mut self,
        archive: &[u8],
        patience: Patience<'_>,
    ) -> Result<i32, SessionError> {
        let (begin, end) = (self.next_end(), self.next_end());
        let size = archive.len();
        // The shell must not read ahead into the archive: it is sent when the command has begun.
        let text = format!(
            "{{ echo \"{begin} 0\"; head -c {size} | tar -xf - -C \"$d\" 2>out/errors; echo \"{end} $?\"; }}\n"
        );
        self.exchange(text.as_bytes(), &begin, patience, &mut |_, _| {})?;
        self.exchange(archive, &end, patience, &mut |_, _| {})
    }

    fn next_end(&mut self) -> String {
        self.requests += 1;
        format!("{}-{}", self.token, self.requests)
    }

    /// Writes bytes and takes lines until the one that begins with `end`.
    fn exchange(
        &mut self,
        bytes: &[u8],
        end: &str,
        patience: Patience<'_>,
        on_line: &mut dyn FnMut(&str, Instant),
    ) -> Result<i32, SessionError> {
        let _ = self.bound.as_mut().map(Bound::begin);
        let exchanged = self.exchanged(bytes, end, patience, on_line);
        let _ = self.bound.as_mut().map(Bound::end);
        exchanged
    }

    fn exchanged(
        &mut self,
        mut bytes: &[u8],
        end: &str,
        patience: Patience<'_>,
        on_line: &mut dyn FnMut(&str, Instant),
    ) -> Result<i32, SessionError> {
        let deadline = Instant::now().checked_add(patience.time);
        let mut taken = 0;
        loop {
            while let Some(line) = self.lines.pop_front() {
                taken += line.text.len() + 1;
                let answer = line.text.strip_prefix(end);
                if let Some(status) = answer.and_then(|text| text.strip_prefix(' ')) {
                    let status = status.trim().parse();
                    return status.map_err(|_| SessionError::Answer(line.text));
                }
                let own = line.text.strip_prefix(&*self.token);
                if let Some(text) = own.and_then(|text| text.strip_prefix(' ')) {
                    on_line(text, line.at);
                }
            }
            if taken + self.received.len() > MOST {
                let start = String::from_utf8_lossy(&self.received);
                return Err(SessionError::Answer(start.chars().take(60).collect()));
            }
            self.wait(!bytes.is_empty(), deadline, patience)?;
            if !bytes.is_empty() {
                bytes = &bytes[self.write(bytes)?..];
            }
            self.read()?;
        }
    }

    /// Waits until the target has written or can be written to.
    fn wait(
        &mut self,
        writes: bool,
        deadline: Option<Instant>,
        patience: Patience<'_>,
    ) -> Result<(), SessionError> {
        let mut fds = vec![
            PollFd::new(patience.interrupt, PollFlags::IN),
            PollFd::new(&self.output, PollFlags::IN),
        ];
        if let Some(input) = self.input.as_ref().filter(|_| writes) {
            fds.push(PollFd::new(input, PollFlags::OUT));
        }
        let ready = loop {
            let glance = match self.bound {
                Some(_) => GLANCE_AT_FILES,
                None => GLANCE,
            };
            let glance = Instant::now() + glance;
            let until = deadline.map_or(glance, |deadline| deadline.min(glance));
            let ready = wait_for(&mut fds, Some(until))?;
            self.bound_messages();
            if let Some(reason) = self.bound.as_ref().and_then(Bound::exceeded) {
                return Err(SessionError::Memory(reason));
            }
            if ready > 0 || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break ready;
            }
        };
        let interrupted = fds[0].revents().contains(PollFlags::IN);
        drop(fds);
        match ready {
            _ if interrupted => Err(SessionError::Interrupted),
            0 => Err(self.silent(patience)),
            _ => Ok(()),
        }
    }

    /// Forgets messages when they take much of the disk: the program goes on behind a hole.
    fn bound_messages(&self) {
        let is_large = |file: &File| {
            let blocks = file.metadata().map_or(0, |metadata| metadata.blocks());
            blocks * BLOCK > MOST_MESSAGES
        };
        if is_large(&self.messages) {
            // A disk that is full is an error of its own.
            let _ = self.messages.set_len(0);
        }
    }

    fn silent(&self, patience: Patience<'_>) -> SessionError {
        SessionError::Silent {
            after: patience.time,
            messages: self.messages(),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, SessionError> {
        let Some(input) = &mut self.input else {
            return Err(self.ended());
        };
        match input.write(bytes) {
            Ok(count) => Ok(count),
            Err(error) if is_later(&error) => Ok(0),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(self.ended()),
            Err(error) => Err(error.into()),
        }
    }

    fn read(&mut self) -> Result<(), SessionError> {
        let mut buffer = [0; 16 << 10];
        match self.output.read(&mut buffer) {
            Ok(0) => Err(self.ended()),
            Ok(count) => {
                let at = Instant::now();
                self.received.extend(&buffer[..count]);
                while let Some(length) = self.received.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<_> = self.received.drain(..=length).collect();
                    let text = String::from_utf8_lossy(&line);
                    let text = text.trim_end_matches(['\n', '\r']).to_owned();
                    self.lines.push_back(Line { at, text });
                }
                Ok(())
            }
            Err(error) if is_later(&error) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Why it ended.
    fn ended(&mut self) -> SessionError {
        self.wait_for_end(ENDING);
        let status = match self.status() {
            Some(status) => status.to_string(),
            None => "its output has ended".to_owned(),
        };
        let messages = self.messages();
        SessionError::Ended(format!("{status}{}{}", shown(&messages), self.hint))
    }

    /// The last of what it wrote to standard error, in one line.
    fn messages(&self) -> String {
        // Without them there is still the status.
        let text = files::tail(&self.messages, TAIL).unwrap_or_default();
        // A hole in the file reads as zeros.
        let is_blank = |c: char| c == '\0' || c.is_whitespace();
        let lines = text.lines().map(|line| line.trim_matches(is_blank));
        let lines = lines.filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join("; ")
    }

    /// Whether it has ended by then.
    fn wait_for_end(&mut self, time: Duration) -> bool {
        let pid = self.child.as_ref().map(Pid::from_child);
        if let Some(Ok(process)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
            let mut fds = [PollFd::new(&process, PollFlags::IN)];
            let _ = wait_for(&mut fds, Some(Instant::now() + time));
        }
        self.status().is_some()
    }

    /// Ends the target: by the end of its input, then by SIGTERM, then by SIGKILL. Whether it was
    /// killed.
    pub(super) fn end(&mut self, at_once: bool) -> bool {
        if self.console.is_some() {
            self.leave_console(at_once);
            return false;
        }
        drop(self.input.take());
        let group = self.child.as_ref().map(Pid::from_child);
        let signal = |signal| group.map(|group| kill_process_group(group, signal));
        if self.status().is_some() || (!at_once && self.wait_for_end(ENDING)) {
            return false;
        }
        // A program that hands the first one on to its command ends by the second.
        for time in [ENDING / 2, ENDING] {
            signal(Signal::TERM);
            if self.wait_for_end(time) {
                return false;
            }
        }
        signal(Signal::KILL);
        let _ = self.child.as_mut().map(Child::wait);
        true
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.console.is_some() || (self.child.is_some() && self.status().is_none()) {
            self.end(true);
        }
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_fills_the_hosts_memory_ends() {
        // A tmpfs, as everywhere.
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let launch = Launch::of(vec!["sh".into()]);
        let mut session = Session::start(&launch, "t").unwrap();
        let limit = 4 << 20;
        session.bound = Bound::of(directory.path(), limit);
        assert!(session.bound.is_some());
        let interrupt = Interrupt::new().unwrap();
        let patience = Patience {
            interrupt: &interrupt,
            time: Duration::from_secs(60),
        };
        let file = directory.path().join("file");
        // It does not end by itself.
        let script = format!(
            "head -c 64M /dev/zero >{}; exec tail -f /dev/null",
            file.display()
        );
        let error = session.request(&script, patience, &mut |_, _| {});
        let error = error.unwrap_err().to_string();
        for says in ["may have 4", "this host's memory"] {
            assert!(error.contains(says), "{error}");
        }
        session.end(true);
    }

    #[test]
    fn messages_without_end_are_forgotten_but_for_the_last() {
        let file = || tempfile::tempfile().unwrap();
        let session = Session::of(file(), file(), file(), "t");
        let mut program = session.messages.try_clone().unwrap();
        program.write_all(&vec![b'x'; 17 << 20]).unwrap();
        session.bound_messages();
        program.write_all(b"\nno space\n").unwrap();
        assert!(session.messages.metadata().unwrap().blocks() * BLOCK < 1 << 20);
        assert!(
            session.messages().ends_with("no space"),
            "{}",
            session.messages()
        );
    }
}

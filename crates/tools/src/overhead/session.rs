//! A shell in a target: requests on its standard input, lines with their times on its output.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use brisk_host::{files, program};
use brisk_sys::wait_for;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::console::{self, Prompt};
use super::launch::{Channel, Launch};
use crate::interrupt::Interrupt;

/// Bytes that a target may write for one request.
const MOST: usize = 1 << 20;
/// Bytes of a target's messages that an error shows.
const TAIL: u64 = 600;
/// How long a target may take to end when its input has ended, and again when it is asked to.
const ENDING: Duration = Duration::from_secs(5);

/// How long nothing comes before what is there is taken for a prompt.
const SETTLING: Duration = Duration::from_millis(300);
/// How long a console without a prompt is left alone.
const SILENCE: Duration = Duration::from_secs(6);
/// Bytes of an archive in a line on a console.
const PIECE: usize = 2000;

/// A target that does not do what is asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Its program cannot be started.
    #[error("cannot start {program}")]
    Start {
        /// The program.
        program: String,
        /// Error of the system.
        source: io::Error,
    },
    /// It ended.
    #[error("the target ended: {0}")]
    Ended(String),
    /// It did not answer in time.
    #[error("no answer within {} s{}", after.as_secs(), shown(messages))]
    Silent {
        /// How long it had.
        after: Duration,
        /// Its messages.
        messages: String,
    },
    /// It wrote something else than an answer.
    #[error("its output is no answer: {0:?}; something in the target writes to the shell's output")]
    Answer(String),
    /// It is not known which processes work for it.
    #[error("cannot find the processes of the target, whose CPU time is counted")]
    Process(#[source] program::Error),
    /// They are not processes of this host.
    #[error(
        "no control group of this host is that of the container ({0}): its CPU time cannot be \
         counted; does its engine run on another host, or without control groups?"
    )]
    Elsewhere(String),
    /// A console shows no prompt.
    #[error(
        "no prompt on its serial port within {0} s, after the line {1:?}; the guest needs a shell or \
         a login there, as by console=ttyS0 on its kernel's command line"
    )]
    NoPrompt(u64, String),
    /// A console wants more than brisk has.
    #[error(
        "its console asks for a password: brisk logs in as root without one; have a shell on the \
         serial port, as by agetty --autologin root"
    )]
    LogIn,
    /// The user interrupts.
    #[error("interrupted")]
    Interrupted,
    /// The system cannot do it.
    #[error("cannot talk to the target")]
    Io(#[from] io::Error),
}

fn shown(messages: &str) -> String {
    match messages {
        "" => String::new(),
        messages => format!(": {messages}"),
    }
}

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
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
    messages: File,
    /// Marks what the shell answers to requests.
    token: String,
    requests: u32,
    received: Vec<u8>,
    lines: VecDeque<Line>,
    /// Whether its shell was started on a console.
    is_on_console: bool,
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
        let mut child = command.spawn().map_err(failed)?;
        let input = child.stdin.take().expect("it is piped");
        let output = child.stdout.take().expect("it is piped");
        let session = Self {
            child,
            input: Some(input),
            output,
            messages,
            token: token.to_owned(),
            requests: 0,
            received: Vec::new(),
            lines: VecDeque::new(),
            is_on_console: false,
        };
        if let Some(input) = &session.input {
            fcntl_setfl(input, OFlags::NONBLOCK).map_err(io::Error::from)?;
        }
        fcntl_setfl(&session.output, OFlags::NONBLOCK).map_err(io::Error::from)?;
        Ok(session)
    }

    /// Number of the process that was started.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
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

    /// Waits until a console shows a prompt, logs in as root where it asks for a name, and starts
    /// a shell. A prompt is the end of what is shown when nothing more comes for a while; after a
    /// longer silence an empty line asks for another one.
    fn log_in(&mut self, patience: Patience<'_>) -> Result<(), SessionError> {
        let deadline = Instant::now().checked_add(patience.time);
        let (begin, mut asked, mut silence) = (self.begin(), false, Duration::ZERO);
        let begun = format!("{begin} 0");
        let mut last = String::new();
        loop {
            for line in self.lines.drain(..) {
                if line.text == begun {
                    self.is_on_console = true;
                    return Ok(());
                }
                last = line.text;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(SessionError::NoPrompt(patience.time.as_secs(), last));
            }
            let step = Patience {
                time: SETTLING,
                ..patience
            };
            match self.wait(false, Some(Instant::now() + SETTLING), step) {
                Ok(()) => {
                    silence = Duration::ZERO;
                    self.read()?;
                    continue;
                }
                Err(SessionError::Silent { .. }) => silence += SETTLING,
                Err(error) => return Err(error),
            }
            let answer = match Prompt::at_end(&self.received) {
                Some(Prompt::Login) if asked => return Err(SessionError::LogIn),
                Some(Prompt::Password) => return Err(SessionError::LogIn),
                Some(Prompt::Login) => {
                    asked = true;
                    "root\n".to_owned()
                }
                Some(Prompt::Shell) => console::shell(&self.token, asked),
                None if silence >= SILENCE => "\n".to_owned(),
                None => continue,
            };
            silence = Duration::ZERO;
            self.received.clear();
            self.write_all(answer.as_bytes(), deadline, patience)?;
        }
    }

    fn write_all(
        &mut self,
        mut bytes: &[u8],
        deadline: Option<Instant>,
        patience: Patience<'_>,
    ) -> Result<(), SessionError> {
        while !bytes.is_empty() {
            self.wait(true, deadline, patience)?;
            bytes = &bytes[self.write(bytes)?..];
            self.read()?;
        }
        Ok(())
    }

    /// Has a target whose shell is on a console unpack a compressed tar archive in the directory
    /// `$d`. A terminal holds a few thousand bytes (`N_TTY_BUF_SIZE` of the kernel), so that each
    /// piece is confirmed.
    pub(super) fn unpack_in_pieces(
        &mut self,
        archive: &[u8],
        patience: Patience<'_>,
    ) -> Result<i32, SessionError> {
        for piece in archive.chunks(PIECE) {
            let text = STANDARD.encode(piece);
            let script = format!("echo {text} | base64 -d >>\"$d/files.tar.gz\"");
            let status = self.request(&script, patience, &mut |_, _| {})?;
            if status != 0 {
                return Ok(status);
            }
        }
        let script = "gzip -dc \"$d/files.tar.gz\" | tar -xf - -C \"$d\" && \
                      rm \"$d/files.tar.gz\"";
        self.request(script, patience, &mut |_, _| {})
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
        let ready = wait_for(&mut fds, deadline)?;
        let interrupted = fds[0].revents().contains(PollFlags::IN);
        drop(fds);
        match ready {
            _ if interrupted => Err(SessionError::Interrupted),
            0 => Err(self.silent(patience)),
            _ => Ok(()),
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

    /// Why it ended, as far as that is known.
    fn ended(&mut self) -> SessionError {
        self.wait_for_end(ENDING);
        let status = match self.child.try_wait() {
            Ok(Some(status)) => status.to_string(),
            _ => "its output has ended".to_owned(),
        };
        SessionError::Ended(format!("{status}{}", shown(&self.messages())))
    }

    /// The last of what it wrote to standard error, in one line.
    fn messages(&self) -> String {
        // Without them there is still the status.
        let text = files::tail(&self.messages, TAIL).unwrap_or_default();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join("; ")
    }

    /// Whether it has ended by then.
    fn wait_for_end(&mut self, time: Duration) -> bool {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(Ok(process)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
            let mut fds = [PollFd::new(&process, PollFlags::IN)];
            let _ = wait_for(&mut fds, Some(Instant::now() + time));
        }
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Ends the target: by the end of its input, then by SIGTERM, then by SIGKILL. Whether it was
    /// killed.
    pub(super) fn end(&mut self, at_once: bool) -> bool {
        drop(self.input.take());
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let signal = |signal| group.map(|group| kill_process_group(group, signal));
        if !at_once && self.wait_for_end(ENDING) {
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
        let _ = self.child.wait();
        true
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
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

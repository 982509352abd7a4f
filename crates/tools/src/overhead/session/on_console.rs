//! The shell of a target on a console: a login, and files in lines.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use brisk_sys::wait_for;
use rustix::event::{PollFd, PollFlags};

use super::{ENDING, Patience, Session};
use crate::overhead::console::{self, Prompt};
use crate::overhead::session_error::SessionError;

/// How long nothing comes before what is there is taken for a prompt.
const SETTLING: Duration = Duration::from_millis(300);
/// How long a console without a prompt is left alone.
const SILENCE: Duration = Duration::from_secs(6);
/// Bytes of a line that are kept while a prompt is waited for: a guest may write without end.
const MOST_BEFORE_PROMPT: usize = 64 << 10;
/// Bytes of an archive in a line on a console.
const PIECE: usize = 2000;

impl Session {
    /// Waits until a console shows a prompt, logs in as root where it asks for a name, and starts
    /// a shell. A prompt is the end of what is shown when nothing more comes for a while; after a
    /// longer silence an empty line asks for another one.
    pub(super) fn log_in(&mut self, patience: Patience<'_>) -> Result<(), SessionError> {
        let deadline = Instant::now().checked_add(patience.time);
        // A guest that runs already has shown its prompt before.
        let mut silence = match self.child {
            Some(_) => Duration::ZERO,
            None => SILENCE,
        };
        let (begun, mut asked) = (format!("{} 0", self.begin()), false);
        let mut last = String::new();
        loop {
            for line in self.lines.drain(..) {
                if console::is_line(&line.text, &begun) {
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
                    // A prompt is the end of it.
                    let surplus = self.received.len().saturating_sub(MOST_BEFORE_PROMPT);
                    self.received.drain(..surplus);
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

    /// Has a target whose shell is on a console unpack a compressed tar archive in the directory
    /// `$d`. A terminal holds a few thousand bytes (`N_TTY_BUF_SIZE` of the kernel), so that each
    /// piece is confirmed.
    pub(in super::super) fn unpack_in_pieces(
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

    /// Ends the shell on a console that stays, and waits until the terminal is as it was. Without
    /// an answer, an interrupt ends what runs in it first.
    pub(super) fn leave_console(&mut self, is_lost: bool) {
        // Its program, if it has one, is needed until then.
        let console = self.console.take();
        if self.is_on_console {
            let _ = (is_lost && self.ends_by(b"\x03")) || self.ends_by(b"exit\n");
        }
        drop(console);
    }

    /// Whether the shell on a console ends by these bytes.
    fn ends_by(&mut self, bytes: &[u8]) -> bool {
        let ended = format!("{} 1", self.begin());
        let deadline = Instant::now() + ENDING;
        if self.write(bytes).is_err() {
            return false;
        }
        while Instant::now() < deadline {
            if self.lines.drain(..).any(|line| line.text == ended) {
                return true;
            }
            let mut fds = [PollFd::new(&self.output, PollFlags::IN)];
            if wait_for(&mut fds, Some(deadline)).is_err() || self.read().is_err() {
                return false;
            }
        }
        false
    }
}

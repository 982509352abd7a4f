//! Telling a running QEMU what to do, one command after the other.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};

use super::qmp::{self, Message, Reader};

/// Why a command came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// QEMU refused.
    #[error("QEMU refused {command}: {reason}")]
    Refused {
        /// The command.
        command: String,
        /// QEMU's words.
        reason: String,
    },
    /// QEMU's own failure at what it was told.
    #[error("QEMU could not {what}: {reason}")]
    Failed {
        /// What it was about.
        what: &'static str,
        /// QEMU's words.
        reason: String,
    },
    /// No answer in time.
    #[error("QEMU did not answer {command} within {} s", limit.as_secs())]
    Silent {
        /// The command.
        command: String,
        /// How long it had.
        limit: Duration,
    },
    /// It ended.
    #[error("QEMU ended before it answered {command}")]
    Ended {
        /// The command.
        command: String,
    },
    /// The channel.
    #[error("cannot talk to QEMU")]
    Channel(#[source] io::Error),
    /// What it said.
    #[error(transparent)]
    Protocol(#[from] qmp::Error),
}

/// The control channel of a QEMU, after the greeting or before.
#[derive(Debug)]
pub struct Control<'a> {
    stream: &'a UnixStream,
    reader: Reader,
    limit: Duration,
    /// Events that came between, oldest first.
    pub events: Vec<(String, Value)>,
}

impl<'a> Control<'a> {
    /// Over `stream`, whose bytes so far went through `reader`; a command may take `limit`.
    #[must_use]
    pub fn new(stream: &'a UnixStream, reader: Reader, limit: Duration) -> Self {
        Self {
            stream,
            reader,
            limit,
            events: Vec::new(),
        }
    }

    /// Has a command executed and returns what it returned.
    ///
    /// # Errors
    /// If QEMU refuses, ends, or does not answer in time.
    pub fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value, Error> {
        self.send(&qmp::command_with(command, arguments), None)?;
        self.answer(command, None)
    }

    /// The same for a command that others cannot keep waiting; see [`qmp::urgent`]. Answers to
    /// commands of others, who are gone, are passed over.
    ///
    /// # Errors
    /// As [`Control::execute`].
    pub fn execute_urgently(
        &mut self,
        id: &str,
        command: &str,
        arguments: &Value,
    ) -> Result<Value, Error> {
        self.send(&qmp::urgent(id, command, arguments), None)?;
        self.answer(command, Some(id))
    }

    /// Gives QEMU a descriptor under a name.
    ///
    /// # Errors
    /// As [`Control::execute`].
    pub fn give(&mut self, name: &str, fd: BorrowedFd<'_>) -> Result<(), Error> {
        let line = qmp::command_with("getfd", &json!({ "fdname": name }));
        self.send(&line, Some(fd))?;
        self.answer("getfd", None).map(drop)
    }

    /// Waits for an event of this name and returns its data; other events are kept.
    ///
    /// # Errors
    /// As [`Control::execute`].
    pub fn event(&mut self, name: &str) -> Result<Value, Error> {
        let deadline = Instant::now() + self.limit;
        loop {
            if let Some(at) = self.events.iter().position(|(known, _)| known == name) {
                return Ok(self.events.remove(at).1);
            }
            for message in self.messages(name, deadline)? {
                self.note(message);
            }
        }
    }

    fn send(&self, mut line: &[u8], fd: Option<BorrowedFd<'_>>) -> Result<(), Error> {
        let channel = Error::Channel;
        if let Some(fd) = fd {
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let fds = [fd];
            ancillary.push(SendAncillaryMessage::ScmRights(&fds));
            let slice = [io::IoSlice::new(line)];
            let sent = sendmsg(self.stream, &slice, &mut ancillary, SendFlags::NOSIGNAL);
            line = &line[sent.map_err(|error| channel(error.into()))?..];
        }
        let mut stream = self.stream;
        // Commands are short and answered one by one: the socket has room.
        stream.write_all(line).map_err(channel)
    }

    fn answer(&mut self, command: &str, name: Option<&str>) -> Result<Value, Error> {
        let deadline = Instant::now() + self.limit;
        loop {
            let mut answer = None;
            for message in self.messages(command, deadline)? {
                match message {
                    Message::Return(value) => answer = Some(Ok(value)),
                    Message::Error(reason) => answer = Some(Err(reason)),
                    Message::Answer { id, result } if name == Some(&*id) => answer = Some(result),
                    other => self.note(other),
                }
            }
            if let Some(answer) = answer {
                let command = command.to_owned();
                return answer.map_err(|reason| Error::Refused { command, reason });
            }
        }
    }

    fn note(&mut self, message: Message) {
        if let Message::Event { name, data } = message {
            self.events.push((name, data));
        }
    }

    fn messages(&mut self, command: &str, deadline: Instant) -> Result<Vec<Message>, Error> {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut fds = [PollFd::from_borrowed_fd(self.stream.as_fd(), PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => {
                return Err(Error::Silent {
                    command: command.to_owned(),
                    limit: self.limit,
                });
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::Channel(error.into())),
        }
        let mut buffer = [0; 16 * 1024];
        let mut stream = self.stream;
        match stream.read(&mut buffer) {
            Ok(0) => Err(Error::Ended {
                command: command.to_owned(),
            }),
            Ok(count) => Ok(self.reader.push(&buffer[..count])?),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Vec::new()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(Error::Ended {
                command: command.to_owned(),
            }),
            Err(error) => Err(Error::Channel(error)),
        }
    }
}

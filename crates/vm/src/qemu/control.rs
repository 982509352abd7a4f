//! Control of a running QEMU by QMP, one command after the other.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use brisk_sys::wait_for;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};

use super::qmp::{self, Message, Reader};

/// Most events that are kept: some of them a guest can cause without end.
const MOST_EVENTS: usize = 1024;

/// Error of a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// QEMU refused.
    #[error("QEMU refused {command}: {reason}")]
    Refused {
        /// The command.
        command: String,
        /// QEMU's message.
        reason: String,
    },
    /// QEMU accepted a command and failed later.
    #[error("QEMU could not {what}: {reason}")]
    Failed {
        /// The action.
        what: &'static str,
        /// QEMU's message.
        reason: String,
    },
    /// No answer in time.
    #[error("QEMU did not answer {command} within {} s", limit.as_secs())]
    Silent {
        /// The command.
        command: String,
        /// The time limit.
        limit: Duration,
    },
    /// QEMU ended.
    #[error("QEMU ended before it answered {command}")]
    Ended {
        /// The command.
        command: String,
    },
    /// The channel failed.
    #[error("cannot talk to QEMU")]
    Channel(#[source] io::Error),
    /// QEMU violated the protocol.
    #[error(transparent)]
    Protocol(#[from] qmp::Error),
}

/// The control channel of a QEMU, before or after the greeting.
#[derive(Debug)]
pub struct Control<'a> {
    stream: &'a UnixStream,
    reader: Reader,
    limit: Duration,
    /// Events that came between, oldest first.
    pub events: Vec<(String, Value)>,
}

impl<'a> Control<'a> {
    /// A channel over `stream`, whose bytes so far went through `reader`; a command may take
    /// `limit`.
    #[must_use]
    pub fn new(stream: &'a UnixStream, reader: Reader, limit: Duration) -> Self {
        Self {
            stream,
            reader,
            limit,
            events: Vec::new(),
        }
    }

    /// Executes a command; the result is its return value. Answers to commands of processes that
    /// have ended are ignored.
    ///
    /// # Errors
    /// If QEMU refuses, ends, or does not answer in time.
    pub fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value, Error> {
        self.execute_while(command, arguments, &mut || false)
    }

    /// Executes a command as [`Control::execute`] does; when the time is up, `on` decides whether
    /// to wait as long again.
    ///
    /// # Errors
    /// As [`Control::execute`].
    pub fn execute_while(
        &mut self,
        command: &str,
        arguments: &Value,
        on: &mut dyn FnMut() -> bool,
    ) -> Result<Value, Error> {
        let id = new_id();
        self.send(&qmp::named(&id, command, arguments), None)?;
        loop {
            match self.answer(command, &id) {
                Err(Error::Silent { .. }) if on() => {}
                Err(Error::Refused { reason, .. }) if is_agreed(command, &reason) => {
                    return Ok(Value::Null);
                }
                result => return result,
            }
        }
    }

    /// Executes a command out of band, so that other commands do not delay it; see [`qmp::urgent`].
    ///
    /// # Errors
    /// As [`Control::execute`].
    pub fn execute_urgently(&mut self, command: &str, arguments: &Value) -> Result<Value, Error> {
        let id = new_id();
        self.send(&qmp::urgent(&id, command, arguments), None)?;
        self.answer(command, &id)
    }

    /// Passes a descriptor to QEMU under a name.
    ///
    /// # Errors
    /// As [`Control::execute`].
    pub fn give(&mut self, name: &str, fd: BorrowedFd<'_>) -> Result<(), Error> {
        let id = new_id();
        let line = qmp::named(&id, "getfd", &json!({ "fdname": name }));
        self.send(&line, Some(fd))?;
        self.answer("getfd", &id).map(drop)
    }

    /// Waits for an event of this name; the result is its data. Other events are kept.
    ///
    /// # Errors
    /// As [`Control::execute`].
    pub fn event(&mut self, name: &str) -> Result<Value, Error> {
        self.event_within(name, self.limit)
    }

    /// Waits for an event as [`Control::event`] does, within `limit`.
    ///
    /// # Errors
    /// As [`Control::execute`].
    pub fn event_within(&mut self, name: &str, limit: Duration) -> Result<Value, Error> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(at) = self.events.iter().position(|(known, _)| known == name) {
                return Ok(self.events.remove(at).1);
            }
            for message in self.messages(name, deadline, limit)? {
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

    fn answer(&mut self, command: &str, name: &str) -> Result<Value, Error> {
        let deadline = Instant::now() + self.limit;
        loop {
            let mut answer = None;
            for message in self.messages(command, deadline, self.limit)? {
                match message {
                    Message::Answer { id, result } if name == id => answer = Some(result),
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
            if self.events.len() == MOST_EVENTS {
                self.events.remove(0);
            }
            self.events.push((name, data));
        }
    }

    fn messages(
        &mut self,
        command: &str,
        deadline: Instant,
        limit: Duration,
    ) -> Result<Vec<Message>, Error> {
        let mut fds = [PollFd::from_borrowed_fd(self.stream.as_fd(), PollFlags::IN)];
        if wait_for(&mut fds, Some(deadline)).map_err(Error::Channel)? == 0 {
            let command = command.to_owned();
            return Err(Error::Silent { command, limit });
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

/// A name that no other command of any process has: QEMU may still execute a command of a process
/// that has ended, and sends the answer to the present one.
fn new_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("brisk-{}-{number}", std::process::id())
}

/// Whether QEMU refuses the negotiation because an earlier process has done it.
fn is_agreed(command: &str, reason: &str) -> bool {
    command == "qmp_capabilities" && reason.contains("already complete")
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Final answer of a QEMU that is asked for its status, after answers to another process.
    fn status_after(answers: &'static str) -> Result<Value, Error> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let qemu = thread::spawn(move || {
            let mut line = String::new();
            io::BufRead::read_line(&mut io::BufReader::new(&theirs), &mut line).unwrap();
            let asked: Value = serde_json::from_str(&line).unwrap();
            let id = asked["id"].as_str().unwrap().to_owned();
            (&theirs)
                .write_all(answers.replace("ID", &id).as_bytes())
                .unwrap();
            theirs
        });
        let mut control = Control::new(&ours, Reader::default(), Duration::from_secs(60));
        let command = match answers.contains("already complete") {
            true => "qmp_capabilities",
            false => "query-status",
        };
        let result = control.execute(command, &Value::Null);
        drop(qemu.join().unwrap());
        result
    }

    #[test]
    fn answers_to_others_are_passed_over() {
        let answers = "{\"return\": {}}\n{\"return\": {}, \"id\": \"brisk-1-x\"}\n\
                       {\"error\": {\"desc\": \"no\"}}\n\
                       {\"return\": {\"running\": true}, \"id\": \"ID\"}\n";
        assert_eq!(status_after(answers).unwrap(), json!({ "running": true }));
        let refused = "{\"return\": {}}\n{\"error\": {\"desc\": \"no\"}, \"id\": \"ID\"}\n";
        let error = status_after(refused).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
    }

    #[test]
    fn the_last_of_many_events_are_kept() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut control = Control::new(&ours, Reader::default(), Duration::from_secs(60));
        let qemu = thread::spawn(move || {
            for number in 0..4 * MOST_EVENTS {
                let event = json!({ "event": "ACPI_DEVICE_OST", "data": number });
                writeln!(&theirs, "{event}").unwrap();
            }
            writeln!(&theirs, "{}", json!({ "event": "STOP", "data": 0 })).unwrap();
        });
        control.event("STOP").unwrap();
        qemu.join().unwrap();
        assert!(control.events.len() <= MOST_EVENTS);
        let last = control.events.last().unwrap();
        assert_eq!(last.1, json!(4 * MOST_EVENTS - 1));
    }

    #[test]
    fn what_was_agreed_on_with_others_holds() {
        let answer = "{\"error\": {\"class\": \"CommandNotFound\", \"desc\": \"Capabilities \
                      negotiation is already complete, command ignored\"}, \"id\": \"ID\"}\n";
        assert_eq!(status_after(answer).unwrap(), Value::Null);
    }
}

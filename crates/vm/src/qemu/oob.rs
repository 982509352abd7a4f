//! Out-of-band control channel of a QEMU in a postcopy resume.
//!
//! QEMU's main loop may itself wait for a page, and then executes no ordinary command. QMP has
//! out-of-band commands, on a channel where both sides have negotiated them; and the negotiation
//! needs the main loop. So the channel is made before the guest runs, and must not be lost with the
//! process that made it: QEMU itself keeps both of its ends, and a process that may trace QEMU can
//! take one.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde_json::json;

use super::control::{Control, Error};
use super::machine::Fds;
use super::qmp::Reader;

/// Most time for QEMU to answer, or to notice that a page server is gone.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most time for QEMU to report events that have happened already.
const GLANCE: Duration = Duration::from_millis(100);
/// The socket in the directory [`Fds::POSTCOPY`].
const SOCKET: &str = "memory.sock";

/// A channel for out-of-band commands.
#[derive(Debug)]
pub struct Urgent {
    stream: UnixStream,
}

impl Urgent {
    /// The channel of a QEMU, by its process number.
    ///
    /// # Errors
    /// If QEMU has ended, or may not be traced.
    pub fn of(pid: u32) -> io::Result<Self> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let number = number.ok_or(io::ErrorKind::NotFound)?;
        let process = pidfd_open(number, PidfdFlags::empty())?;
        let end: OwnedFd = pidfd_getfd(&process, Fds::OOB_PEER, PidfdGetfdFlags::empty())?;
        Ok(Self { stream: end.into() })
    }

    /// Negotiates out-of-band commands; once, before the guest runs.
    ///
    /// # Errors
    /// If QEMU refuses or ends.
    pub fn agree(&self) -> Result<(), Error> {
        let arguments = json!({ "enable": ["oob"] });
        self.control().execute("qmp_capabilities", &arguments)?;
        Ok(())
    }

    /// Connects to a QEMU that has lost its page server, as soon as QEMU has noticed that; `None`
    /// if `has_all` says that QEMU has all pages, which is asked when QEMU refuses without a new
    /// event.
    ///
    /// `directory` is the directory that QEMU has as [`Fds::POSTCOPY`].
    ///
    /// # Errors
    /// If QEMU ends, does not answer, or refuses for long without a reason.
    pub fn reconnect(
        &self,
        directory: &Path,
        has_all: &mut dyn FnMut() -> bool,
    ) -> Result<Option<UnixStream>, Error> {
        // All by one: what QEMU sends besides is not sent again.
        reconnect(&mut self.control(), directory, has_all)
    }

    fn control(&self) -> Control<'_> {
        Control::new(&self.stream, Reader::default(), PATIENCE)
    }
}

fn reconnect(
    control: &mut Control<'_>,
    directory: &Path,
    has_all: &mut dyn FnMut() -> bool,
) -> Result<Option<UnixStream>, Error> {
    let uri = format!("unix:/proc/self/fd/{}/{SOCKET}", Fds::POSTCOPY);
    let deadline = Instant::now() + PATIENCE;
    loop {
        match control.execute_urgently("migrate-recover", &json!({ "uri": uri })) {
            Err(Error::Refused { .. }) => {}
            answer => {
                answer?;
                let stream = UnixStream::connect(socket(directory));
                return stream.map(Some).map_err(Error::Channel);
            }
        }
        // What it then says may have come before it refused, or be what others received already.
        match control.event_within("MIGRATION", GLANCE) {
            Err(Error::Silent { .. }) if has_all() => return Ok(None),
            Err(Error::Silent { .. }) if Instant::now() < deadline => {}
            news => drop(news?),
        }
    }
}

fn socket(directory: &Path) -> PathBuf {
    directory.join(SOCKET)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;
    use std::thread;

    use serde_json::Value;

    use super::*;

    const PAUSED: &str =
        "{\"event\": \"MIGRATION\", \"data\": {\"status\": \"postcopy-paused\"}}\r\n";
    const REFUSED: &str =
        "{\"error\": {\"class\": \"GenericError\", \"desc\": \"not paused\"}, \"id\": \"ID\"}\r\n";
    const DONE: &str = "{\"return\": {}, \"id\": \"ID\"}\r\n";

    /// A QEMU that sends these texts, one for each question; the result is whether there was a
    /// connection, and how often `has_all` was asked.
    fn asked(words: Vec<String>, has_all: bool) -> (Result<bool, Error>, u32) {
        let directory = tempfile::tempdir().unwrap();
        let _listening = UnixListener::bind(socket(directory.path())).unwrap();
        let (stream, theirs) = UnixStream::pair().unwrap();
        let qemu = thread::spawn(move || {
            let asked = BufReader::new(&theirs).lines();
            for (line, words) in asked.zip(words) {
                let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
                let words = words.replace("ID", line["id"].as_str().unwrap());
                (&theirs).write_all(words.as_bytes()).unwrap();
            }
        });
        let mut control = Control::new(&stream, Reader::default(), PATIENCE);
        let mut looked = 0;
        let connected = reconnect(&mut control, directory.path(), &mut || {
            looked += 1;
            has_all
        });
        drop(stream);
        qemu.join().unwrap();
        (connected.map(|stream| stream.is_some()), looked)
    }

    #[test]
    fn what_is_told_while_it_refuses_is_heard() {
        for refusal in [format!("{PAUSED}{REFUSED}"), format!("{REFUSED}{PAUSED}")] {
            let (connected, looked) = asked(vec![refusal, DONE.to_owned()], true);
            assert!(connected.unwrap());
            assert_eq!(looked, 0);
        }
    }

    #[test]
    fn who_says_nothing_has_all_or_is_asked_again() {
        let words = || vec![REFUSED.to_owned(), DONE.to_owned()];
        for has_all in [true, false] {
            let (connected, looked) = asked(words(), has_all);
            assert_eq!((connected.unwrap(), looked), (!has_all, 1));
        }
        let (ended, _) = asked(vec![REFUSED.to_owned()], false);
        assert!(matches!(ended, Err(Error::Ended { .. })), "{ended:?}");
    }
}

//! Frames from and to the guest. Frames from the guest are hostile input.

use brisk_init::protocol::{
    Exit, Failure, GuestTimestamp, HEADER, Header, HeaderError, Kind, MAX_PAYLOAD, STDIN_WINDOW,
    Stage, VERSION,
};

/// Message from the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Init runs.
    Hello(Vec<(GuestTimestamp, u64)>),
    /// The command was executed.
    Started(Vec<(GuestTimestamp, u64)>),
    /// Bytes of its standard output.
    Stdout(Vec<u8>),
    /// Bytes of its standard error.
    Stderr(Vec<u8>),
    /// The command ended.
    Exit(Exit, Vec<(GuestTimestamp, u64)>),
    /// Init failed.
    Failure {
        /// The stage.
        stage: Stage,
        /// Number of the error.
        errno: i32,
        /// The file or other object.
        subject: String,
    },
    /// Init has reached a pause of the script and waits for the next one.
    Paused,
    /// Records of the kernel's log.
    Log(Vec<u8>),
    /// Further bytes of standard input that may be sent.
    Credit(usize),
}

/// The guest broke the protocol: the sender is not brisk's init, or no longer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Not a frame header.
    #[error("the guest sent bytes that are no frame ({0:?})")]
    Header(HeaderError),
    /// A frame that only the host sends.
    #[error("the guest sent a frame of the host's ({0:?})")]
    Direction(Kind),
    /// A payload that does not fit its kind.
    #[error("the guest sent a malformed {0:?} frame")]
    Payload(Kind),
    /// Another version of init.
    #[error("the guest's init speaks version {0} of the protocol, brisk speaks {VERSION}")]
    Version(u32),
}

/// Turns a stream of bytes into events.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
}

impl Decoder {
    /// A decoder without bytes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes as they arrived. At most one frame and the bytes of one call are ever kept.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole event.
    ///
    /// # Errors
    /// If the bytes are no frames from a guest; nothing after them can be read.
    pub fn next_event(&mut self) -> Result<Option<Event>, FrameError> {
        let rest = &self.buffer[self.start..];
        let Some(head) = rest.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let header = Header::decode(*head).map_err(FrameError::Header)?;
        let Some(payload) = rest.get(HEADER..HEADER + header.len) else {
            return Ok(None);
        };
        let event = event(header.kind, payload)?;
        self.start += HEADER + header.len;
        Ok(Some(event))
    }
}

fn event(kind: Kind, payload: &[u8]) -> Result<Event, FrameError> {
    let malformed = || FrameError::Payload(kind);
    Ok(match kind {
        Kind::Hello => {
            let (version, stamps) = payload.split_first_chunk::<4>().ok_or_else(malformed)?;
            match u32::from_le_bytes(*version) {
                VERSION => Event::Hello(stamps_of(stamps)),
                other => return Err(FrameError::Version(other)),
            }
        }
        Kind::Started => Event::Started(stamps_of(payload)),
        Kind::Stdout => Event::Stdout(payload.to_vec()),
        Kind::Stderr => Event::Stderr(payload.to_vec()),
        Kind::Exit => {
            let (exit, stamps) = Exit::decode(payload).ok_or_else(malformed)?;
            Event::Exit(exit, stamps_of(stamps))
        }
        Kind::Failure => {
            let failure = Failure::decode(payload).ok_or_else(malformed)?;
            Event::Failure {
                stage: failure.stage,
                errno: failure.errno,
                subject: printable(failure.subject),
            }
        }
        Kind::Credit => {
            let bytes: [u8; 4] = payload.try_into().map_err(|_| malformed())?;
            Event::Credit((u32::from_le_bytes(bytes) as usize).min(STDIN_WINDOW))
        }
        Kind::Log => Event::Log(payload.to_vec()),
        Kind::Paused => Event::Paused,
        Kind::Config
        | Kind::Stdin
        | Kind::StdinEnd
        | Kind::Signal
        | Kind::WindowSize
        | Kind::PowerOff
        | Kind::Hail => return Err(FrameError::Direction(kind)),
    })
}

fn stamps_of(bytes: &[u8]) -> Vec<(GuestTimestamp, u64)> {
    GuestTimestamp::decode_all(bytes).collect()
}

/// Text of the guest's without control characters, fit for a terminal.
pub(crate) fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .map(|c| {
            if c.is_control() {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect()
}

/// Encodes a frame for the guest. `payload` must not exceed 32 KiB.
#[must_use]
pub fn frame(kind: Kind, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + payload.len());
    out.extend_from_slice(
        &Header {
            kind,
            len: payload.len(),
        }
        .encode(),
    );
    out.extend_from_slice(payload);
    out
}

/// Encodes the frames that carry a script.
#[must_use]
pub fn config_frames(script: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(script.len() + 2 * HEADER);
    for part in script.chunks(MAX_PAYLOAD) {
        out.extend(frame(Kind::Config, part));
    }
    out.extend(frame(Kind::Config, &[]));
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(decoder: &mut Decoder) -> Result<Vec<Event>, FrameError> {
        std::iter::from_fn(|| decoder.next_event().transpose()).collect()
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_events_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
            let mut decoder = Decoder::new();
            decoder.push(&bytes);
            let mut consumed = 0;
            while let Ok(Some(_)) = decoder.next_event() {
                consumed += 1;
            }
            prop_assert!(consumed <= bytes.len() / HEADER);
        }

        #[test]
        fn cuts_do_not_matter(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..8),
            cut in 1usize..64,
        ) {
            let stream: Vec<u8> = parts.iter().flat_map(|part| frame(Kind::Stdout, part)).collect();
            let mut decoder = Decoder::new();
            let mut got = Vec::new();
            for piece in stream.chunks(cut) {
                decoder.push(piece);
                got.extend(all(&mut decoder).unwrap());
            }
            prop_assert_eq!(got, parts.into_iter().map(Event::Stdout).collect::<Vec<_>>());
        }
    }

    #[test]
    fn hello_carries_its_stamps() {
        let mut payload = VERSION.to_le_bytes().to_vec();
        payload.extend(GuestTimestamp::Init.encode(123_456_789));
        let mut decoder = Decoder::new();
        decoder.push(&frame(Kind::Hello, &payload));
        let event = decoder.next_event().unwrap();
        assert_eq!(
            event,
            Some(Event::Hello(vec![(GuestTimestamp::Init, 123_456_789)]))
        );
        assert_eq!(decoder.next_event(), Ok(None));
    }

    #[test]
    fn exits_are_told_apart() {
        for (exit, wait) in [
            (Exit::Status(0), 0),
            (Exit::Status(42), 42 << 8),
            (Exit::Signal(9), 9),
            (Exit::Signal(11), 11 | 0x80),
        ] {
            assert_eq!(Exit::from_wait(wait), exit);
            let mut decoder = Decoder::new();
            decoder.push(&frame(Kind::Exit, &exit.encode()));
            assert_eq!(decoder.next_event(), Ok(Some(Event::Exit(exit, vec![]))));
        }
    }

    #[test]
    fn a_frame_of_the_hosts_is_refused() {
        let mut decoder = Decoder::new();
        decoder.push(&frame(Kind::PowerOff, &[]));
        assert_eq!(
            decoder.next_event(),
            Err(FrameError::Direction(Kind::PowerOff))
        );
    }

    #[test]
    fn credit_cannot_exceed_the_window() {
        let mut decoder = Decoder::new();
        decoder.push(&frame(Kind::Credit, &u32::MAX.to_le_bytes()));
        assert_eq!(decoder.next_event(), Ok(Some(Event::Credit(STDIN_WINDOW))));
    }

    #[test]
    fn failures_cannot_drive_the_terminal() {
        let mut payload = vec![Stage::Mount as u8, 2, 0, 0, 0];
        payload.extend(b"/dev/\x1b[2Jvda");
        let mut decoder = Decoder::new();
        decoder.push(&frame(Kind::Failure, &payload));
        let Ok(Some(Event::Failure { subject, .. })) = decoder.next_event() else {
            panic!()
        };
        assert_eq!(subject, "/dev/\u{fffd}[2Jvda");
    }
}

//! The wire protocol between brisk on the host and its init in the guest.
//!
//! One virtio-serial port carries frames both ways. A frame is an 8-byte header and a
//! payload of at most [`MAX_PAYLOAD`] bytes; integers are little-endian:
//!
//! ```text
//! 0      1      2        4                8
//! +------+------+--------+----------------+----------------
//! | 0xB5 | kind | 0      | payload length | payload …
//! +------+------+--------+----------------+----------------
//! ```
//!
//! The guest is not trusted: a decoder must expect any bytes.

/// First byte of every frame.
pub const MAGIC: u8 = 0xB5;
/// Version of the protocol, the first field of [`Kind::Hello`].
pub const VERSION: u32 = 1;
/// Largest payload of one frame, bytes.
pub const MAX_PAYLOAD: usize = 32 * 1024;
/// Bytes of a frame header.
pub const HEADER: usize = 8;
/// Bytes of standard input that may be under way before the guest grants more.
pub const STDIN_WINDOW: usize = 256 * 1024;
/// Largest configuration the guest accepts, bytes over all its frames.
pub const MAX_CONFIG: usize = 4 * 1024 * 1024;
/// Name of the port on the virtio-serial bus.
pub const PORT_NAME: &str = "brisk.0";

/// Kind of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Kind {
    /// Guest: init runs. Payload: version u32, then [`GuestTimestamp`]s.
    Hello = 1,
    /// Guest: the command was executed. Payload: [`GuestTimestamp`]s.
    Started = 2,
    /// Guest: bytes of standard output.
    Stdout = 3,
    /// Guest: bytes of standard error.
    Stderr = 4,
    /// Guest: the command ended, see [`Exit`].
    Exit = 5,
    /// Guest: init failed, see [`Failure`].
    Failure = 6,
    /// Guest: this many more bytes of standard input may be sent (u32).
    Credit = 7,
    /// Guest: records of the kernel's log, as `/dev/kmsg` gives them.
    Log = 8,
    /// Guest: the script has reached a pause; init waits for the next one.
    Paused = 9,
    /// Host: a part of the script; an empty payload ends it.
    Config = 16,
    /// Host: bytes of standard input.
    Stdin = 17,
    /// Host: standard input has ended.
    StdinEnd = 18,
    /// Host: deliver this signal (u32) to the command's process group.
    Signal = 19,
    /// Host: the terminal's size, rows u16 and columns u16.
    WindowSize = 20,
    /// Host: all bytes have arrived; power off.
    PowerOff = 21,
    /// Host: a new host is at this port and waits for [`Kind::Hello`].
    Hail = 22,
}

impl Kind {
    /// The kind with this number.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Hello,
            2 => Self::Started,
            3 => Self::Stdout,
            4 => Self::Stderr,
            5 => Self::Exit,
            6 => Self::Failure,
            7 => Self::Credit,
            8 => Self::Log,
            9 => Self::Paused,
            16 => Self::Config,
            17 => Self::Stdin,
            18 => Self::StdinEnd,
            19 => Self::Signal,
            20 => Self::WindowSize,
            21 => Self::PowerOff,
            22 => Self::Hail,
            _ => return None,
        })
    }
}

/// A decoded frame header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// Kind of the payload.
    pub kind: Kind,
    /// Length of the payload, at most [`MAX_PAYLOAD`].
    pub len: usize,
}

/// Reason why bytes are no frame header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HeaderError {
    /// The first byte is not [`MAGIC`].
    Magic(u8),
    /// No such [`Kind`].
    Kind(u8),
    /// The reserved bytes are not zero.
    Reserved(u16),
    /// The payload would exceed [`MAX_PAYLOAD`].
    Length(u32),
}

impl Header {
    /// The header's bytes. `len` must not exceed [`MAX_PAYLOAD`].
    #[must_use]
    pub const fn encode(self) -> [u8; HEADER] {
        let len = (self.len as u32).to_le_bytes();
        [MAGIC, self.kind as u8, 0, 0, len[0], len[1], len[2], len[3]]
    }

    /// Reads a header.
    ///
    /// # Errors
    /// Says which field is wrong; a stream with such a header cannot be resynchronised.
    pub const fn decode(bytes: [u8; HEADER]) -> Result<Self, HeaderError> {
        if bytes[0] != MAGIC {
            return Err(HeaderError::Magic(bytes[0]));
        }
        let Some(kind) = Kind::from_byte(bytes[1]) else {
            return Err(HeaderError::Kind(bytes[1]));
        };
        let reserved = u16::from_le_bytes([bytes[2], bytes[3]]);
        if reserved != 0 {
            return Err(HeaderError::Reserved(reserved));
        }
        let len = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        if len as usize > MAX_PAYLOAD {
            return Err(HeaderError::Length(len));
        }
        Ok(Self {
            kind,
            len: len as usize,
        })
    }
}

/// A timestamp of the guest's `CLOCK_MONOTONIC` (nanoseconds).
#[derive(Clone, Copy, Debug, Eq, PartialEq, PartialOrd, Ord)]
#[repr(u8)]
pub enum GuestTimestamp {
    /// Init's first instruction.
    Init = 1,
    /// All modules are loaded.
    Modules = 2,
    /// The port to the host is open; taken as the frame that carries it is written.
    Port = 3,
    /// The script arrived.
    Config = 4,
    /// Mounts are done.
    Root = 5,
    /// The command is about to be executed.
    Start = 6,
    /// The first byte of the command's output was read.
    Output = 7,
    /// The command ended.
    End = 8,
    /// File systems are synced; the exit frame is about to be written.
    Exit = 9,
    /// No time: the time stamp counter right after [`GuestTimestamp::Init`].
    Cycles = 10,
}

impl GuestTimestamp {
    /// The stamp with this number.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Init,
            2 => Self::Modules,
            3 => Self::Port,
            4 => Self::Config,
            5 => Self::Root,
            6 => Self::Start,
            7 => Self::Output,
            8 => Self::End,
            9 => Self::Exit,
            10 => Self::Cycles,
            _ => return None,
        })
    }

    /// Bytes of one encoded stamp: number u8, nanoseconds u64.
    pub const SIZE: usize = 9;

    /// The bytes of this stamp at `ns`.
    #[must_use]
    pub fn encode(self, ns: u64) -> [u8; Self::SIZE] {
        let mut out = [self as u8; Self::SIZE];
        out[1..].copy_from_slice(&ns.to_le_bytes());
        out
    }

    /// The stamps in `bytes`; unknown or truncated ones are left out.
    pub fn decode_all(bytes: &[u8]) -> impl Iterator<Item = (Self, u64)> + '_ {
        bytes.chunks_exact(Self::SIZE).filter_map(|chunk| {
            let ns = u64::from_le_bytes(chunk[1..].try_into().ok()?);
            Some((Self::from_byte(chunk[0])?, ns))
        })
    }
}

/// End of the command: the first five bytes of [`Kind::Exit`], then [`GuestTimestamp`]s.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exit {
    /// It exited with this status.
    Status(u8),
    /// This signal ended it.
    Signal(u8),
}

impl Exit {
    /// Bytes of an encoded exit.
    pub const SIZE: usize = 2;

    /// The exit's bytes.
    #[must_use]
    pub const fn encode(self) -> [u8; Self::SIZE] {
        match self {
            Self::Status(code) => [0, code],
            Self::Signal(signal) => [1, signal],
        }
    }

    /// Reads an exit and the stamps behind it.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, stamps) = bytes.split_at_checked(Self::SIZE)?;
        match head[0] {
            0 => Some((Self::Status(head[1]), stamps)),
            1 => Some((Self::Signal(head[1]), stamps)),
            _ => None,
        }
    }

    /// From the status word of `wait4(2)`.
    #[must_use]
    pub const fn from_wait(status: i32) -> Self {
        let signal = (status & 0x7f) as u8;
        if signal == 0 {
            Self::Status(((status >> 8) & 0xff) as u8)
        } else {
            Self::Signal(signal)
        }
    }
}

/// Stage in which init failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Stage {
    /// Loading a kernel module.
    Module = 1,
    /// Reading or understanding the script.
    Config = 2,
    /// Making a directory, node or link.
    Prepare = 3,
    /// Waiting for a device.
    Device = 4,
    /// Mounting.
    Mount = 5,
    /// Entering the root or the working directory.
    Enter = 6,
    /// Configuring the network.
    Network = 7,
    /// The command does not exist.
    NotFound = 8,
    /// The command cannot be executed.
    Execute = 9,
    /// Anything else.
    Internal = 10,
}

impl Stage {
    /// The stage with this number.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Module,
            2 => Self::Config,
            3 => Self::Prepare,
            4 => Self::Device,
            5 => Self::Mount,
            6 => Self::Enter,
            7 => Self::Network,
            8 => Self::NotFound,
            9 => Self::Execute,
            10 => Self::Internal,
            _ => return None,
        })
    }
}

/// Failure of init: stage u8, errno i32, then the object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Failure<'a> {
    /// The stage.
    pub stage: Stage,
    /// The system call's error number, positive.
    pub errno: i32,
    /// The path, module or device; arbitrary bytes.
    pub subject: &'a [u8],
}

impl<'a> Failure<'a> {
    /// Bytes before the subject.
    pub const FIXED: usize = 5;

    /// The bytes before the subject.
    #[must_use]
    pub fn encode_fixed(&self) -> [u8; 5] {
        let errno = self.errno.to_le_bytes();
        [self.stage as u8, errno[0], errno[1], errno[2], errno[3]]
    }

    /// Reads a failure.
    #[must_use]
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (head, subject) = bytes.split_at_checked(Self::FIXED)?;
        let errno = i32::from_le_bytes(head[1..].try_into().ok()?);
        Some(Self {
            stage: Stage::from_byte(head[0])?,
            errno,
            subject,
        })
    }
}

//! Script of init: a list of operations before the command.
//!
//! The host decides about roots and mounts; init only executes. An operation is its number (u8),
//! its count of fields (u8) and its fields, each a length (u32) and that many bytes. Text fields
//! end in a NUL byte, so that they can be passed to system calls unchanged.

/// Number of an operation on the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Code {
    /// `mkdir -p`: path.
    MakeDirectory = 1,
    /// `mount(2)`: source, target, type, data, flags (u64).
    Mount = 2,
    /// `symlink(2)`: target, path. An existing one is kept.
    Symlink = 3,
    /// Wait until a device node appears: path, milliseconds (u64).
    Wait = 4,
    /// Make this directory the root: path.
    Root = 5,
    /// Bring `lo` up.
    Loopback = 6,
    /// Address, netmask and gateway (u32 each, in host order) of an interface: name, numbers.
    Address = 7,
    /// Write a file: path, contents.
    Write = 8,
    /// One word of the command.
    Argument = 9,
    /// One `NAME=value` of the environment.
    Variable = 10,
    /// Working directory; absent ones fail.
    Directory = 11,
    /// Run on a terminal of this size: rows and columns (u64 each).
    Terminal = 12,
    /// User and group (u64 each).
    User = 13,
    /// Host name.
    HostName = 14,
    /// Sync and unmount on exit: path. For roots that must be whole afterwards.
    Release = 15,
    /// Realtime clock: nanoseconds since 1970 (u64).
    Clock = 16,
    /// Report to the host that all is done so far, and continue with the script that the host sends
    /// then. A guest whose state is saved here can be restored many times.
    Pause = 17,
    /// Bytes that no other guest has, at most 512, for the random number generator.
    Entropy = 18,
    /// Instead of one command, run commands at this many further ports (u64), each with a script of
    /// its own, until the VM stops.
    Serve = 19,
    /// The command becomes PID 1 in init's place. Only with [`Code::Serve`], before it.
    Init = 20,
    /// Have PID 1 stop the VM: `SIGINT`, which brisk's init understands as other inits do.
    Stop = 21,
    /// Give the network card that has one hardware address another one: six bytes each.
    SetMac = 22,
    /// Run the command so far as a warm-up, and forget it. QEMU has then translated its code. Its
    /// exit is reported like any other's.
    WarmUp = 23,
    /// Send the content of a small file as a command's output is sent, nothing if it cannot be
    /// read: path.
    SendFile = 24,
    /// Read a file into the page cache; a file that cannot be read is ignored: path.
    Readahead = 25,
}

/// One operation; text still has its final NUL.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the fields are described at Code")]
pub enum Op<'a> {
    MakeDirectory {
        path: &'a [u8],
    },
    Mount {
        source: &'a [u8],
        target: &'a [u8],
        kind: &'a [u8],
        data: &'a [u8],
        flags: u64,
    },
    Symlink {
        target: &'a [u8],
        path: &'a [u8],
    },
    Wait {
        path: &'a [u8],
        millis: u64,
    },
    Root {
        path: &'a [u8],
    },
    Loopback,
    Address {
        interface: &'a [u8],
        address: u64,
        netmask: u64,
        gateway: u64,
    },
    Write {
        path: &'a [u8],
        contents: &'a [u8],
    },
    Argument {
        text: &'a [u8],
    },
    Variable {
        text: &'a [u8],
    },
    Directory {
        path: &'a [u8],
    },
    Terminal {
        rows: u64,
        columns: u64,
    },
    User {
        user: u64,
        group: u64,
    },
    HostName {
        name: &'a [u8],
    },
    Release {
        path: &'a [u8],
    },
    Clock {
        nanos: u64,
    },
    Pause,
    Entropy {
        bytes: &'a [u8],
    },
    Serve {
        ports: u64,
    },
    Init,
    Stop,
    SetMac {
        from: [u8; 6],
        to: [u8; 6],
    },
    WarmUp,
    SendFile {
        path: &'a [u8],
    },
    Readahead {
        path: &'a [u8],
    },
}

/// The script ends early, names an unknown operation or lacks a NUL.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Malformed;

/// Reads a script, operation by operation.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    rest: &'a [u8],
}

impl<'a> Script<'a> {
    /// A script from its bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next operation, `None` at the end.
    ///
    /// # Errors
    /// [`Malformed`]; nothing behind it can be read.
    pub fn next_op(&mut self) -> Result<Option<Op<'a>>, Malformed> {
        let Some((&[code, count], rest)) = self.rest.split_first_chunk() else {
            return if self.rest.is_empty() {
                Ok(None)
            } else {
                Err(Malformed)
            };
        };
        let mut fields: [&[u8]; 5] = [&[]; 5];
        if usize::from(count) > fields.len() {
            return Err(Malformed);
        }
        let mut rest = rest;
        for field in fields.iter_mut().take(usize::from(count)) {
            let (len, tail) = rest.split_at_checked(4).ok_or(Malformed)?;
            let len = u32::from_le_bytes([len[0], len[1], len[2], len[3]]);
            (*field, rest) = tail.split_at_checked(len as usize).ok_or(Malformed)?;
        }
        self.rest = rest;
        op(code, count, fields).map(Some)
    }
}

fn op<'a>(code: u8, count: u8, fields: [&'a [u8]; 5]) -> Result<Op<'a>, Malformed> {
    let expected = match code {
        6 | 17 | 20 | 21 | 23 => 0,
        1 | 5 | 9 | 10 | 11 | 14 | 15 | 16 | 18 | 19 | 24 | 25 => 1,
        3 | 4 | 8 | 12 | 13 | 22 => 2,
        7 => 4,
        2 => 5,
        _ => return Err(Malformed),
    };
    if count != expected {
        return Err(Malformed);
    }
    let [a, b, c, d, e] = fields;
    Ok(match code {
        1 => Op::MakeDirectory { path: text(a)? },
        2 => Op::Mount {
            source: text(a)?,
            target: text(b)?,
            kind: text(c)?,
            data: text(d)?,
            flags: number(e)?,
        },
        3 => Op::Symlink {
            target: text(a)?,
            path: text(b)?,
        },
        4 => Op::Wait {
            path: text(a)?,
            millis: number(b)?,
        },
        5 => Op::Root { path: text(a)? },
        6 => Op::Loopback,
        7 => Op::Address {
            interface: text(a)?,
            address: number(b)?,
            netmask: number(c)?,
            gateway: number(d)?,
        },
        8 => Op::Write {
            path: text(a)?,
            contents: b,
        },
        9 => Op::Argument { text: text(a)? },
        10 => Op::Variable { text: text(a)? },
        11 => Op::Directory { path: text(a)? },
        12 => Op::Terminal {
            rows: number(a)?,
            columns: number(b)?,
        },
        13 => Op::User {
            user: number(a)?,
            group: number(b)?,
        },
        14 => Op::HostName { name: text(a)? },
        15 => Op::Release { path: text(a)? },
        16 => Op::Clock { nanos: number(a)? },
        17 => Op::Pause,
        18 => Op::Entropy { bytes: a },
        19 => Op::Serve { ports: number(a)? },
        20 => Op::Init,
        21 => Op::Stop,
        23 => Op::WarmUp,
        24 => Op::SendFile { path: text(a)? },
        25 => Op::Readahead { path: text(a)? },
        _ => Op::SetMac {
            from: a.try_into().map_err(|_| Malformed)?,
            to: b.try_into().map_err(|_| Malformed)?,
        },
    })
}

fn text(field: &[u8]) -> Result<&[u8], Malformed> {
    match field.split_last() {
        Some((0, body)) if !body.contains(&0) => Ok(field),
        _ => Err(Malformed),
    }
}

fn number(field: &[u8]) -> Result<u64, Malformed> {
    field
        .try_into()
        .map(u64::from_le_bytes)
        .map_err(|_| Malformed)
}

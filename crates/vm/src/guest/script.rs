//! Writer of the script that init executes; the reader is in `brisk-init`.

use brisk_init::script::Code;
use rustix::io::Errno;

/// Flags of `mount(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MountFlags(pub u64);

impl MountFlags {
    /// Nothing can be written.
    pub const READ_ONLY: Self = Self(1);
    /// Set-user-ID bits have no effect.
    pub const NO_SUID: Self = Self(2);
    /// Device nodes have no effect.
    pub const NO_DEV: Self = Self(4);
    /// Nothing can be executed.
    pub const NO_EXEC: Self = Self(8);
    /// An existing tree appears at another place.
    pub const BIND: Self = Self(4096);

    /// Both sets of flags.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A step of a script; see `brisk_init::script::Code`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are described at Code")]
pub enum Step {
    MakeDirectory {
        path: String,
    },
    Mount {
        source: String,
        target: String,
        kind: String,
        data: String,
        flags: MountFlags,
    },
    Symlink {
        target: String,
        path: String,
    },
    Wait {
        path: String,
        millis: u64,
    },
    Root {
        path: String,
    },
    Loopback,
    Address {
        interface: String,
        address: [u8; 4],
        netmask: [u8; 4],
        gateway: [u8; 4],
    },
    Write {
        path: String,
        contents: Vec<u8>,
    },
    Argument {
        text: Vec<u8>,
    },
    Variable {
        text: Vec<u8>,
    },
    Directory {
        path: Vec<u8>,
    },
    Terminal {
        rows: u16,
        columns: u16,
    },
    User {
        user: u32,
        group: u32,
    },
    HostName {
        name: String,
    },
    Release {
        path: String,
    },
    Clock {
        nanos: u64,
    },
    Pause,
    Entropy {
        bytes: Vec<u8>,
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
        path: String,
    },
    Readahead {
        path: String,
    },
}

impl Step {
    /// A step that mounts without data.
    #[must_use]
    pub fn mount(kind: &str, source: &str, target: &str, flags: MountFlags) -> Self {
        Self::Mount {
            source: source.to_owned(),
            target: target.to_owned(),
            kind: kind.to_owned(),
            data: String::new(),
            flags,
        }
    }

    /// A step that makes a directory with its parents.
    #[must_use]
    pub fn directory(path: &str) -> Self {
        Self::MakeDirectory {
            path: path.to_owned(),
        }
    }
}

/// Encodes a script.
///
/// # Errors
/// `EINVAL` if a text has a NUL byte in it.
pub fn encode(steps: &[Step]) -> Result<Vec<u8>, Errno> {
    let mut out = Vec::new();
    for step in steps {
        step_into(&mut out, step)?;
    }
    Ok(out)
}

enum Field<'a> {
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    Number(u64),
}

fn step_into(out: &mut Vec<u8>, step: &Step) -> Result<(), Errno> {
    use Field::{Bytes, Number, Text};
    let text = |text: &'_ String| -> Vec<u8> { text.clone().into_bytes() };
    match step {
        Step::MakeDirectory { path } => put(out, Code::MakeDirectory, &[Text(&text(path))]),
        Step::Mount {
            source,
            target,
            kind,
            data,
            flags,
        } => put(
            out,
            Code::Mount,
            &[
                Text(&text(source)),
                Text(&text(target)),
                Text(&text(kind)),
                Text(&text(data)),
                Number(flags.0),
            ],
        ),
        Step::Symlink { target, path } => put(
            out,
            Code::Symlink,
            &[Text(&text(target)), Text(&text(path))],
        ),
        Step::Wait { path, millis } => put(out, Code::Wait, &[Text(&text(path)), Number(*millis)]),
        Step::Root { path } => put(out, Code::Root, &[Text(&text(path))]),
        Step::Loopback => put(out, Code::Loopback, &[]),
        Step::Address {
            interface,
            address,
            netmask,
            gateway,
        } => {
            let number = |quad: &[u8; 4]| Number(u64::from(u32::from_be_bytes(*quad)));
            put(
                out,
                Code::Address,
                &[
                    Text(&text(interface)),
                    number(address),
                    number(netmask),
                    number(gateway),
                ],
            )
        }
        Step::Write { path, contents } => {
            put(out, Code::Write, &[Text(&text(path)), Bytes(contents)])
        }
        Step::Argument { text } => put(out, Code::Argument, &[Text(text)]),
        Step::Variable { text } => put(out, Code::Variable, &[Text(text)]),
        Step::Directory { path } => put(out, Code::Directory, &[Text(path)]),
        Step::Terminal { rows, columns } => put(
            out,
            Code::Terminal,
            &[Number(u64::from(*rows)), Number(u64::from(*columns))],
        ),
        Step::User { user, group } => put(
            out,
            Code::User,
            &[Number(u64::from(*user)), Number(u64::from(*group))],
        ),
        Step::HostName { name } => put(out, Code::HostName, &[Text(&text(name))]),
        Step::Release { path } => put(out, Code::Release, &[Text(&text(path))]),
        Step::Clock { nanos } => put(out, Code::Clock, &[Number(*nanos)]),
        Step::Pause => put(out, Code::Pause, &[]),
        Step::Entropy { bytes } => put(out, Code::Entropy, &[Bytes(bytes)]),
        Step::Serve { ports } => put(out, Code::Serve, &[Number(*ports)]),
        Step::Init => put(out, Code::Init, &[]),
        Step::Stop => put(out, Code::Stop, &[]),
        Step::SetMac { from, to } => put(out, Code::SetMac, &[Bytes(from), Bytes(to)]),
        Step::WarmUp => put(out, Code::WarmUp, &[]),
        Step::SendFile { path } => put(out, Code::SendFile, &[Text(&text(path))]),
        Step::Readahead { path } => put(out, Code::Readahead, &[Text(&text(path))]),
    }
}

fn put(out: &mut Vec<u8>, code: Code, fields: &[Field<'_>]) -> Result<(), Errno> {
    out.push(code as u8);
    out.push(fields.len() as u8);
    for field in fields {
        let number;
        let (bytes, nul): (&[u8], &[u8]) = match field {
            Field::Text(text) if text.contains(&0) => return Err(Errno::INVAL),
            Field::Text(text) => (text, &[0]),
            Field::Bytes(bytes) => (bytes, &[]),
            Field::Number(value) => {
                number = value.to_le_bytes();
                (&number, &[])
            }
        };
        out.extend(((bytes.len() + nul.len()) as u32).to_le_bytes());
        out.extend(bytes);
        out.extend(nul);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use brisk_init::script::{Malformed, Op, Script};
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<Op<'_>>, Malformed> {
        let mut script = Script::new(bytes);
        std::iter::from_fn(|| script.next_op().transpose()).collect()
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of all steps")]
    fn every_step_is_read_as_it_was_written() {
        let s = str::to_owned;
        let steps = [
            Step::directory("/a/b"),
            Step::Mount {
                source: s("dev"),
                target: s("/x"),
                kind: s("ext4"),
                data: s("o=1"),
                flags: MountFlags(5),
            },
            Step::Symlink {
                target: s("/proc/self/fd"),
                path: s("/dev/fd"),
            },
            Step::Wait {
                path: s("/dev/vda"),
                millis: 7,
            },
            Step::Root { path: s("/r") },
            Step::Loopback,
            Step::Address {
                interface: s("eth0"),
                address: [10, 0, 2, 15],
                netmask: [255, 255, 255, 0],
                gateway: [10, 0, 2, 2],
            },
            Step::Write {
                path: s("/f"),
                contents: vec![0, 1, 2],
            },
            Step::Argument {
                text: b"ls".to_vec(),
            },
            Step::Variable {
                text: b"A=\xff".to_vec(),
            },
            Step::Directory {
                path: b"/tmp".to_vec(),
            },
            Step::Terminal {
                rows: 24,
                columns: 80,
            },
            Step::User {
                user: 1000,
                group: 100,
            },
            Step::HostName { name: s("g") },
            Step::Release { path: s("/r") },
            Step::Clock { nanos: 9 },
            Step::Pause,
            Step::Entropy { bytes: vec![7, 0] },
            Step::Serve { ports: 4 },
            Step::Init,
            Step::Stop,
            Step::SetMac {
                from: [1; 6],
                to: [2, 0, 0, 0, 0, 3],
            },
            Step::WarmUp,
            Step::SendFile { path: s("/t") },
            Step::Readahead { path: s("/l") },
        ];
        let bytes = encode(&steps).unwrap();
        let expected = [
            Op::MakeDirectory { path: b"/a/b\0" },
            Op::Mount {
                source: b"dev\0",
                target: b"/x\0",
                kind: b"ext4\0",
                data: b"o=1\0",
                flags: 5,
            },
            Op::Symlink {
                target: b"/proc/self/fd\0",
                path: b"/dev/fd\0",
            },
            Op::Wait {
                path: b"/dev/vda\0",
                millis: 7,
            },
            Op::Root { path: b"/r\0" },
            Op::Loopback,
            Op::Address {
                interface: b"eth0\0",
                address: 0x0a00_020f,
                netmask: 0xffff_ff00,
                gateway: 0x0a00_0202,
            },
            Op::Write {
                path: b"/f\0",
                contents: &[0, 1, 2],
            },
            Op::Argument { text: b"ls\0" },
            Op::Variable { text: b"A=\xff\0" },
            Op::Directory { path: b"/tmp\0" },
            Op::Terminal {
                rows: 24,
                columns: 80,
            },
            Op::User {
                user: 1000,
                group: 100,
            },
            Op::HostName { name: b"g\0" },
            Op::Release { path: b"/r\0" },
            Op::Clock { nanos: 9 },
            Op::Pause,
            Op::Entropy { bytes: &[7, 0] },
            Op::Serve { ports: 4 },
            Op::Init,
            Op::Stop,
            Op::SetMac {
                from: [1; 6],
                to: [2, 0, 0, 0, 0, 3],
            },
            Op::WarmUp,
            Op::SendFile { path: b"/t\0" },
            Op::Readahead { path: b"/l\0" },
        ];
        assert_eq!(read(&bytes).unwrap(), expected);
    }

    #[test]
    fn a_nul_in_a_text_is_refused() {
        assert_eq!(
            encode(&[Step::Argument {
                text: b"a\0b".to_vec()
            }]),
            Err(Errno::INVAL)
        );
    }

    #[test]
    fn a_cut_script_is_malformed() {
        let bytes = encode(&[Step::Argument {
            text: b"abc".to_vec(),
        }])
        .unwrap();
        for len in 1..bytes.len() {
            assert_eq!(read(&bytes[..len]), Err(Malformed), "{len} bytes");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
            if let Ok(ops) = read(&bytes) {
                prop_assert!(ops.len() <= bytes.len() / 2);
            }
        }
    }
}

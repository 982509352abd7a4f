//! GDB's remote protocol (its manual, appendix E), as far as stopping a VM where a kernel is
//! entered. Pure.
//!
//! QEMU's stub (`gdbstub/gdbstub.c`) serves it. A hardware breakpoint changes nothing in the
//! guest's memory, and under emulation the processor stops before the instruction is executed.

/// Longest packet: QEMU announces 4096 bytes (`MAX_PACKET_LENGTH`).
const LONGEST: usize = 16 * 1024;
/// Position of the instruction pointer among the registers of x86-64, in hexadecimal digits: after
/// sixteen registers of 64 bits (`gdb-xml/i386-64bit.xml`), whatever the mode of the processor.
const POINTER: usize = 16 * 16;

/// Reason why the breakpoint is not reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No packet, or a damaged one.
    #[error("QEMU's debugger port sent what is no packet of GDB's protocol: {0}")]
    Malformed(String),
    /// A packet without end.
    #[error("QEMU's debugger port sent a packet of more than {LONGEST} bytes")]
    TooLong,
    /// The breakpoint cannot be set.
    #[error("QEMU refused a hardware breakpoint at {address:#x}: it answered '{answer}'")]
    Refused {
        /// Address of the breakpoint.
        address: u64,
        /// QEMU's answer.
        answer: String,
    },
    /// The VM ended before the breakpoint.
    #[error("the guest ended before it came to {0:#x}, where its kernel is entered")]
    Ended(u64),
    /// The VM stopped for another reason.
    #[error("the guest stopped at {found} instead of {address:#x}, where its kernel is entered")]
    Elsewhere {
        /// Address of the breakpoint.
        address: u64,
        /// Address at which it stopped, or the reason.
        found: String,
    },
}

/// State of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Inserting,
    Running,
    Locating,
    There,
}

/// A conversation about one breakpoint.
#[derive(Debug)]
pub struct Debugger {
    address: u64,
    state: State,
    buffer: Vec<u8>,
}

/// Result of processing bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// Bytes to be sent.
    pub bytes: Vec<u8>,
    /// Whether the VM has stopped at the breakpoint.
    pub there: bool,
}

impl Debugger {
    /// A conversation for a VM that is to stop before it executes the instruction at this physical
    /// address, which is the linear one as long as there is no paging.
    #[must_use]
    pub const fn new(address: u64) -> Self {
        Self {
            address,
            state: State::Inserting,
            buffer: Vec::new(),
        }
    }

    /// First bytes to send, to a VM that does not run yet.
    #[must_use]
    pub fn hello(&self) -> Vec<u8> {
        packet(&format!("Z1,{:x},1", self.address))
    }

    /// Adds bytes as they arrived.
    ///
    /// # Errors
    /// If they are not of the protocol, or the VM will not reach the breakpoint.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Reply, Error> {
        let mut reply = Reply::default();
        for &byte in bytes {
            if self.buffer.is_empty() {
                match byte {
                    // Received. What is refused is never sent again: no byte is lost on a socket.
                    b'+' => {}
                    b'$' => self.buffer.push(byte),
                    other => return Err(malformed(&[other])),
                }
                continue;
            }
            if self.buffer.len() == LONGEST {
                return Err(Error::TooLong);
            }
            self.buffer.push(byte);
            if let [b'$', content @ .., b'#', high, low] = &*self.buffer {
                let content = checked(content, [*high, *low])?;
                self.buffer.clear();
                reply.bytes.push(b'+');
                if let Some(next) = self.take(&content)? {
                    reply.bytes.extend(packet(&next));
                }
                reply.there |= self.state == State::There;
            }
        }
        Ok(reply)
    }

    /// Reaction to an answer.
    fn take(&mut self, answer: &str) -> Result<Option<String>, Error> {
        let address = self.address;
        let elsewhere = |found: String| Err(Error::Elsewhere { address, found });
        match self.state {
            State::Inserting if answer == "OK" => {
                self.state = State::Running;
                Ok(Some("c".to_owned()))
            }
            State::Inserting => Err(Error::Refused {
                address,
                answer: answer.to_owned(),
            }),
            State::Running => match answer.as_bytes().first() {
                // Text for the user of a debugger.
                Some(b'O') => Ok(None),
                Some(b'W' | b'X') => Err(Error::Ended(address)),
                // 5 is SIGTRAP.
                Some(b'T' | b'S') if answer.get(1..3) == Some("05") => {
                    self.state = State::Locating;
                    // All registers: for a single one QEMU 7.2 wants to be asked for
                    // their description first.
                    Ok(Some("g".to_owned()))
                }
                _ => elsewhere(format!("no breakpoint ({answer})")),
            },
            State::Locating => match pointer(answer) {
                Some(found) if found == address => {
                    self.state = State::There;
                    Ok(None)
                }
                Some(found) => elsewhere(format!("{found:#x}")),
                None => Err(malformed(answer.as_bytes())),
            },
            State::There => Ok(None),
        }
    }
}

/// Encodes `$CONTENT#CHECKSUM`; content that is sent here needs no escapes.
fn packet(content: &str) -> Vec<u8> {
    format!("${content}#{:02x}", sum(content.as_bytes())).into_bytes()
}

fn sum(content: &[u8]) -> u8 {
    content.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// The content if its checksum is right. None of the answers that are understood is escaped or
/// run-length encoded.
fn checked(content: &[u8], digits: [u8; 2]) -> Result<String, Error> {
    let wanted = std::str::from_utf8(&digits)
        .ok()
        .and_then(|text| u8::from_str_radix(text, 16).ok());
    let plain = content.iter().all(|byte| byte.is_ascii_graphic());
    if wanted != Some(sum(content)) || !plain || content.iter().any(|byte| b"*}".contains(byte)) {
        return Err(malformed(content));
    }
    Ok(String::from_utf8_lossy(content).into_owned())
}

/// The instruction pointer among all registers: bytes in hexadecimal, the lowest first.
fn pointer(registers: &str) -> Option<u64> {
    let digits = registers.get(POINTER..POINTER + 16)?;
    u64::from_str_radix(digits, 16).ok().map(u64::swap_bytes)
}

fn malformed(bytes: &[u8]) -> Error {
    let shown = &bytes[..bytes.len().min(80)];
    Error::Malformed(shown.escape_ascii().to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As QEMU 7.2 and 10.0 answer for the PVH entry of Debian's 6.12 at 0x1000a30.
    fn answers() -> Vec<u8> {
        let registers = registers("300a000100000000");
        let replies = replies(&["OK", "T05thread:01;", &registers]);
        [b"+", &*replies].concat()
    }

    /// All registers, with this instruction pointer and two that follow.
    fn registers(pointer: &str) -> String {
        format!("{}{pointer}0200000010000000", "00".repeat(16 * 8))
    }

    fn replies(packets: &[&str]) -> Vec<u8> {
        packets.iter().flat_map(|text| packet(text)).collect()
    }

    #[test]
    fn the_breakpoint_is_reached_however_the_bytes_are_cut() {
        for cut in [1, 2, 5, 1000] {
            let mut debugger = Debugger::new(0x100_0a30);
            let mut sent = debugger.hello();
            let mut there = false;
            for bytes in answers().chunks(cut) {
                assert!(!there);
                let reply = debugger.push(bytes).unwrap();
                sent.extend(reply.bytes);
                there = reply.there;
            }
            assert!(there, "{cut}");
            let sent = String::from_utf8(sent).unwrap();
            assert_eq!(sent, "$Z1,1000a30,1#99+$c#63+$g#67+");
        }
    }

    #[test]
    fn what_does_not_come_there_is_an_error() {
        let ends = |answers: &[&str]| Debugger::new(0x10).push(&replies(answers)).unwrap_err();
        // An empty answer means that the command is unknown.
        for answer in ["", "E22"] {
            assert!(matches!(ends(&[answer]), Error::Refused { .. }), "{answer}");
        }
        assert_eq!(ends(&["OK", "O41", "W00"]), Error::Ended(0x10));
        let stopped = ends(&["OK", "T02thread:01;"]).to_string();
        assert!(stopped.contains("no breakpoint (T02"), "{stopped}");
        let other = ends(&["OK", "S05", &registers("1100000000000000")]).to_string();
        assert!(other.contains("at 0x11 instead of 0x10"), "{other}");
        for none in ["", "11", &registers("x")] {
            let end = ends(&["OK", "S05", none]);
            assert!(matches!(end, Error::Malformed(_)), "{none}: {end}");
        }
    }

    #[test]
    fn what_is_no_packet_is_an_error() {
        for bytes in [
            &b"hello"[..],
            b"-",
            b"$OK#00",
            b"$OK#zz",
            b"$O*#79",
            b"$\xff#ff",
        ] {
            let error = Debugger::new(0).push(bytes).unwrap_err();
            assert!(matches!(error, Error::Malformed(_)), "{error}");
        }
        let long = [b"$".as_slice(), &[b'x'; LONGEST]].concat();
        assert_eq!(Debugger::new(0).push(&long), Err(Error::TooLong));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(pieces in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..20),
            "(OK|S05|T05|E01|W00|O|[0-9a-f]{272})".prop_map(|text| packet(&text)),
        ], 0..20)) {
            let mut debugger = Debugger::new(0x10);
            for piece in pieces {
                let Ok(reply) = debugger.push(&piece) else { break };
                prop_assert!(reply.bytes.len() <= 64);
                prop_assert!(debugger.buffer.len() <= LONGEST);
            }
        }
    }
}

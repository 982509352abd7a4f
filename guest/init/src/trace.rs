//! Trace for a timeline of the boot, if the host asks for one: init logs its steps to the kernel's
//! log, and sends the log to the host.

use crate::port::Port;
use crate::protocol::Kind;
use crate::sys::{self, Text};

/// File that asks for a trace; the initramfs builder makes it.
const WANTED: &[u8] = b"/trace\0";
const LOG: &[u8] = b"/dev/kmsg\0";
/// Most bytes of one record (`PRINTK_MESSAGE_MAX` in the kernel's `internal.h` is less).
const RECORD: usize = 8 * 1024;
const LINE: usize = 256;

/// The kernel's log, open for writing if a trace is wanted.
#[derive(Clone, Copy)]
pub(crate) struct Trace(Option<i32>);

impl Trace {
    pub(crate) fn new() -> Self {
        let wanted = sys::exists(Text::new(WANTED));
        let open = || sys::open(Text::new(LOG), sys::O_WRONLY | sys::O_CLOEXEC, 0).ok();
        Self(wanted.then(open).flatten())
    }

    /// No trace.
    pub(crate) const fn off() -> Self {
        Self(None)
    }

    pub(crate) fn begin(self, what: &[u8], subject: &[u8]) {
        self.line(b"begin ", what, subject);
    }

    pub(crate) fn end(self, what: &[u8], subject: &[u8]) {
        self.line(b"end ", what, subject);
    }

    fn line(self, verb: &[u8], what: &[u8], subject: &[u8]) {
        let Some(log) = self.0 else { return };
        let subject = subject.strip_suffix(b"\0").unwrap_or(subject);
        let mut line = [0u8; LINE];
        let mut len = 0;
        for part in [b"<6>brisk: ".as_slice(), verb, what, b" ", subject] {
            let room = part.len().min(LINE - 1 - len);
            line[len..len + room].copy_from_slice(&part[..room]);
            len += room;
        }
        // Without an end of line the kernel waits for more, and shows it to no reader.
        line[len] = b'\n';
        let _ = sys::write(log, &line[..=len]);
    }

    /// Sends all records of the kernel's log.
    pub(crate) fn send_log(self, port: &mut Port) {
        if self.0.is_none() {
            return;
        }
        let flags = sys::O_RDONLY | sys::O_NONBLOCK | sys::O_CLOEXEC;
        let Ok(log) = sys::open(Text::new(LOG), flags, 0) else {
            return;
        };
        let mut more = true;
        while more {
            if !port.has_room() {
                port.drain();
            }
            let _ = port.frame(Kind::Log, |buffer| {
                let mut len = 0;
                // One record a read; one that does not fit is refused.
                while buffer.len() - len >= RECORD {
                    match sys::read(log, &mut buffer[len..]) {
                        Ok(count @ 1..) => len += count,
                        // Overwritten before it was read: the next is there.
                        Err(sys::EPIPE | sys::EINTR) => {}
                        _ => {
                            more = false;
                            break;
                        }
                    }
                }
                Ok(len)
            });
        }
        sys::close(log);
        port.drain();
    }
}

//! The port to the host: frames out through a buffer, frames in one at a time.

use crate::job::Trouble;
use crate::protocol::{
    Exit, Failure, GuestTimestamp, HEADER, Header, Kind, MAX_CONFIG, MAX_PAYLOAD, Stage,
};
use crate::sys::{self, PollFd, Text};

/// The digit is the port's number on the bus.
const PATH: [u8; 14] = *b"/dev/vport0p1\0";
/// How long the port may take to appear, nanoseconds.
const PATIENCE: u64 = 20_000_000_000;
/// How long the host may take to end the guest after the exit frame, milliseconds.
const FAREWELL: i32 = 10_000;
const OUT: usize = 4 * (HEADER + MAX_PAYLOAD);

/// The opened port and its buffers.
pub(crate) struct Port {
    pub(crate) fd: i32,
    out: &'static mut [u8],
    start: usize,
    end: usize,
    inbox: &'static mut [u8],
    filled: usize,
    /// Whether the port serves several hosts, one after the other.
    serves: bool,
}

impl Port {
    /// Waits for the device and opens it.
    ///
    /// The first waits are short: on the usual kernels the device is there or a moment away.
    pub(crate) fn open() -> sys::Result<Self> {
        Self::over(Self::device(1)?, false)
    }

    /// The port of this descriptor, whose hosts come and go.
    pub(crate) fn serving(fd: i32) -> sys::Result<Self> {
        Self::over(fd, true)
    }

    /// Opens the device of a port, 1 to 9, waiting for it to appear.
    pub(crate) fn device(number: usize) -> sys::Result<i32> {
        let mut path = PATH;
        path[12] = b'0' + number as u8;
        let begun = sys::now();
        let mut pause = 50_000;
        loop {
            let flags = sys::O_RDWR | sys::O_NONBLOCK | sys::O_CLOEXEC;
            match sys::open(Text::new(&path), flags, 0) {
                Ok(fd) => return Ok(fd),
                Err(errno) if sys::now() - begun > PATIENCE => return Err(errno),
                Err(_) => {
                    sys::sleep(pause);
                    pause = (pause * 2).min(5_000_000);
                }
            }
        }
    }

    fn over(fd: i32, serves: bool) -> sys::Result<Self> {
        let out = sys::pages(OUT)?;
        let inbox = sys::pages(HEADER + MAX_PAYLOAD)?;
        Ok(Self {
            fd,
            out,
            start: 0,
            end: 0,
            inbox,
            filled: 0,
            serves,
        })
    }

    /// Ends the VM, or the process that serves this port: the host is gone.
    pub(crate) fn lost(&self) -> ! {
        if self.serves {
            sys::exit(0);
        }
        sys::restart();
    }

    /// Whether bytes wait to be written.
    pub(crate) fn pending(&self) -> bool {
        self.start < self.end
    }

    /// Whether a whole frame fits.
    pub(crate) fn has_room(&self) -> bool {
        OUT - (self.end - self.start) >= HEADER + MAX_PAYLOAD
    }

    /// Lets `fill` write a payload into the buffer and queues the frame.
    pub(crate) fn frame(
        &mut self,
        kind: Kind,
        fill: impl FnOnce(&mut [u8]) -> sys::Result<usize>,
    ) -> sys::Result<usize> {
        if OUT - self.end < HEADER + MAX_PAYLOAD {
            self.out.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let body = self.end + HEADER;
        let len = fill(&mut self.out[body..body + MAX_PAYLOAD])?;
        if len > 0 || !matches!(kind, Kind::Stdout | Kind::Stderr) {
            self.out[self.end..body].copy_from_slice(&Header { kind, len }.encode());
            self.end = body + len;
        }
        Ok(len)
    }

    /// Writes as much as the host accepts now.
    pub(crate) fn flush(&mut self) {
        while self.pending() {
            match sys::write(self.fd, &self.out[self.start..self.end]) {
                Ok(count) => self.start += count,
                Err(sys::EINTR) => {}
                Err(_) => return,
            }
        }
        self.start = 0;
        self.end = 0;
    }

    /// Writes all bytes, and waits where necessary.
    pub(crate) fn drain(&mut self) {
        loop {
            self.flush();
            if !self.pending() {
                return;
            }
            let mut fds = [PollFd {
                fd: self.fd,
                events: sys::POLLOUT,
                revents: 0,
            }];
            let _ = sys::poll(&mut fds, -1);
            if fds[0].revents & sys::POLLHUP != 0 {
                self.lost();
            }
        }
    }

    /// Queues a small frame and writes it.
    pub(crate) fn send(&mut self, kind: Kind, payload: &[u8]) {
        if !self.has_room() {
            self.drain();
        }
        let _ = self.frame(kind, |buffer| {
            buffer[..payload.len()].copy_from_slice(payload);
            Ok(payload.len())
        });
        self.flush();
    }

    /// Reports to the host that the script's command runs.
    pub(crate) fn started(&mut self, stamps: &[(GuestTimestamp, u64)]) {
        let mut payload = [0u8; 3 * GuestTimestamp::SIZE];
        let mut len = 0;
        for (stamp, ns) in stamps {
            payload[len..len + GuestTimestamp::SIZE].copy_from_slice(&stamp.encode(*ns));
            len += GuestTimestamp::SIZE;
        }
        self.send(Kind::Started, &payload[..len]);
    }

    /// Reports to the host how the command ended; blocks until that is under way.
    pub(crate) fn send_exit(&mut self, exit: Exit, stamps: &[(GuestTimestamp, u64)]) {
        let mut payload = [0u8; Exit::SIZE + 4 * GuestTimestamp::SIZE];
        payload[..Exit::SIZE].copy_from_slice(&exit.encode());
        let mut len = Exit::SIZE;
        for (stamp, ns) in stamps {
            payload[len..len + GuestTimestamp::SIZE].copy_from_slice(&stamp.encode(*ns));
            len += GuestTimestamp::SIZE;
        }
        self.send(Kind::Exit, &payload[..len]);
        self.drain();
    }

    /// Reports to the host why there is nothing to run.
    pub(crate) fn fail(&mut self, trouble: Trouble<'_>) {
        let subject = &trouble.subject[..trouble.subject.len().min(4096)];
        let failure = Failure {
            stage: trouble.stage,
            errno: trouble.errno,
            subject,
        };
        let _ = self.frame(Kind::Failure, |buffer| {
            buffer[..Failure::FIXED].copy_from_slice(&failure.encode_fixed());
            buffer[Failure::FIXED..Failure::FIXED + subject.len()].copy_from_slice(subject);
            Ok(Failure::FIXED + subject.len())
        });
        self.drain();
    }

    /// The next whole frame, if it has arrived.
    pub(crate) fn receive(&mut self) -> sys::Result<Option<(Kind, &[u8])>> {
        loop {
            let wanted = if self.filled < HEADER {
                HEADER
            } else {
                let mut header = [0; HEADER];
                header.copy_from_slice(&self.inbox[..HEADER]);
                let header = Header::decode(header).map_err(|_| sys::EINVAL)?;
                if self.filled == HEADER + header.len {
                    self.filled = 0;
                    return Ok(Some((
                        header.kind,
                        &self.inbox[HEADER..HEADER + header.len],
                    )));
                }
                HEADER + header.len
            };
            match sys::read(self.fd, &mut self.inbox[self.filled..wanted]) {
                Ok(0) | Err(sys::EAGAIN | sys::EINTR) => return Ok(None),
                Ok(count) => self.filled += count,
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Waits for poll(2) events of the port; 0 when the time has passed.
    fn wait_readable(&self, millis: i32) -> i16 {
        // What the driver did not take because it did not know of the host yet.
        let unsent = if self.pending() { sys::POLLOUT } else { 0 };
        let mut fds = [PollFd {
            fd: self.fd,
            events: sys::POLLIN | unsent,
            revents: 0,
        }];
        match sys::poll(&mut fds, millis) {
            Ok(0) => 0,
            Ok(_) => fds[0].revents,
            Err(_) => sys::POLLIN,
        }
    }

    /// Receives the whole script.
    pub(crate) fn receive_script(&mut self) -> Result<&'static [u8], Trouble<'static>> {
        let trouble = |errno| Trouble {
            stage: Stage::Config,
            errno,
            subject: b"script",
        };
        let script = sys::pages(MAX_CONFIG).map_err(trouble)?;
        let serves = self.serves;
        let mut len = 0;
        loop {
            match self.receive().map_err(trouble)? {
                // Whoever was there before did not stay for the greeting.
                Some((Kind::Hail, _)) if serves && len == 0 => self.greet(),
                Some((Kind::Config, [])) => return Ok(&script[..len]),
                Some((Kind::Config, part)) => {
                    let end = len + part.len();
                    script
                        .get_mut(len..end)
                        .ok_or(trouble(sys::EINVAL))?
                        .copy_from_slice(part);
                    len = end;
                }
                Some(_) => return Err(trouble(sys::EINVAL)),
                None => {
                    let hung_up = self.wait_readable(-1) & sys::POLLHUP != 0;
                    self.flush();
                    if hung_up && self.serves {
                        self.lost();
                    }
                }
            }
        }
    }

    /// Sends the version of the protocol.
    pub(crate) fn greet(&mut self) {
        self.send(Kind::Hello, &crate::protocol::VERSION.to_le_bytes());
    }

    /// Returns when the host asks to power off, is gone, or has sent nothing for long.
    pub(crate) fn wait_for_power_off(&mut self) {
        loop {
            let events = self.wait_readable(FAREWELL);
            let gone = self.serves && events & sys::POLLHUP != 0;
            if events == 0 || gone {
                return;
            }
            self.flush();
            match self.receive() {
                Ok(Some((Kind::PowerOff, _))) | Err(_) => return,
                // The next host, which is greeted when the port is opened again.
                Ok(Some((Kind::Hail, _))) => return,
                _ => {}
            }
        }
    }
}

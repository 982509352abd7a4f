//! Relay of bytes between the command and the host until the command ends.

use crate::job::Job;
use crate::port::Port;
use crate::prepared::Relay;
use crate::protocol::{Exit, GuestTimestamp, Kind, STDIN_WINDOW};
use crate::spawn::{self, Child};
use crate::sys::{self, PollFd};
use crate::trace::Trace;

/// Standard input on its way to the command.
struct Inbound {
    fd: Option<i32>,
    ended: bool,
    buffer: &'static mut [u8],
    start: usize,
    end: usize,
    terminal: bool,
}

/// End of transmission, what a terminal's user types to end input.
const END_OF_TRANSMISSION: u8 = 4;

impl Inbound {
    fn pending(&self) -> bool {
        self.start < self.end
    }

    fn accept(&mut self, bytes: &[u8]) {
        if self.fd.is_none() {
            return;
        }
        if self.buffer.len() - self.end < bytes.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        // The host keeps to the window, so there is room.
        if let Some(room) = self.buffer.get_mut(self.end..self.end + bytes.len()) {
            room.copy_from_slice(bytes);
            self.end += bytes.len();
        }
    }

    /// Writes what the command takes; returns how much.
    fn pump(&mut self) -> usize {
        let Some(fd) = self.fd else { return 0 };
        let mut moved = 0;
        while self.pending() {
            match sys::write(fd, &self.buffer[self.start..self.end]) {
                Ok(count) => {
                    self.start += count;
                    moved += count;
                }
                Err(sys::EINTR) => {}
                Err(sys::EAGAIN) => return moved,
                Err(_) => {
                    // The command closed its input: the rest is of no use to anybody.
                    moved += self.end - self.start;
                    self.close();
                    return moved;
                }
            }
        }
        if self.ended {
            self.close();
        }
        moved
    }

    fn close(&mut self) {
        self.start = self.end;
        if let Some(fd) = self.fd.take().filter(|_| !self.terminal) {
            sys::close(fd);
        }
    }

    fn end(&mut self) {
        if self.terminal {
            self.accept(&[END_OF_TRANSMISSION]);
        }
        self.ended = true;
    }
}

/// Relays until the command ends, then reports its exit. The command may not have been waited for
/// then.
pub(crate) fn relay(port: &mut Port, child: &Child, job: &mut Job<'_>, trace: Trace) {
    let terminal = job.terminal.is_some();
    let prepared = job.relay.take();
    let late = prepared.is_none();
    let Ok(Relay { buffer, children }) = prepared.map_or_else(Relay::prepare, Ok) else {
        return;
    };
    // It may have ended before that was to be known.
    let mut exit = late.then(|| reap(child.pid)).flatten();
    let mut inbound = Inbound {
        fd: Some(child.stdin),
        ended: false,
        buffer,
        start: 0,
        end: 0,
        terminal,
    };
    let mut outputs = [
        (Kind::Stdout, Some(child.stdout)),
        (Kind::Stderr, child.stderr),
    ];
    let mut first_output = 0;
    while exit.is_none() {
        let room = port.has_room();
        let stdin_ready = if inbound.pending() { inbound.fd } else { None };
        let mut fds = [
            PollFd {
                fd: children,
                events: sys::POLLIN,
                revents: 0,
            },
            PollFd {
                fd: port.fd,
                events: sys::POLLIN,
                revents: 0,
            },
            watch(stdin_ready, sys::POLLOUT),
            watch(outputs[0].1.filter(|_| room), sys::POLLIN),
            watch(outputs[1].1.filter(|_| room), sys::POLLIN),
        ];
        if port.pending() {
            fds[1].events |= sys::POLLOUT;
        }
        let _ = sys::poll(&mut fds, -1);
        if fds[1].revents & sys::POLLHUP != 0 {
            // As when a terminal is closed: a command that wants to stay can.
            let _ = sys::kill(-child.pid, sys::SIGHUP);
            port.lost();
        }
        for (output, fd) in outputs.iter_mut().zip(&fds[3..]) {
            if fd.revents != 0 {
                carry(port, output, &mut first_output);
            }
        }
        if fds[1].revents & sys::POLLIN != 0 {
            obey(port, child, &mut inbound);
        }
        let moved = inbound.pump();
        if moved > 0 {
            port.send(Kind::Credit, &(moved as u32).to_le_bytes());
        }
        port.flush();
        if fds[0].revents != 0 {
            // The signals of several children are one.
            exit = sys::ended(children)
                .filter(|(pid, _)| *pid == child.pid)
                .map(|(_, status)| Exit::from_wait(status))
                .or_else(|| reap(child.pid));
        }
    }
    let ended = sys::now();
    trace.end(b"command", b"");
    // What it wrote before it ended still lies in the pipes. What others go on to write there is
    // not waited for: it might never end.
    for output in &mut outputs {
        let mut left = output.1.map_or(0, |fd| unread(fd, terminal));
        while left > 0 {
            if !port.has_room() {
                port.drain();
            }
            match carry(port, output, &mut first_output) {
                0 => break,
                count => left = left.saturating_sub(count),
            }
        }
    }
    trace.begin(b"release", b"");
    job.release();
    trace.end(b"release", b"");
    trace.send_log(port);
    let stamps = [
        (GuestTimestamp::End, ended),
        (GuestTimestamp::Exit, sys::now()),
        (GuestTimestamp::Output, first_output),
    ];
    let count = if first_output == 0 { 2 } else { 3 };
    port.send_exit(exit.unwrap_or(Exit::Status(0)), &stamps[..count]);
    job.relay = Some(Relay {
        buffer: inbound.buffer,
        children,
    });
}

fn watch(fd: Option<i32>, events: i16) -> PollFd {
    // poll(2) passes over negative descriptors.
    PollFd {
        fd: fd.unwrap_or(-1),
        events,
        revents: 0,
    }
}

/// Reaps all children that ended; the exit of `main` if it is among them.
fn reap(main: i32) -> Option<Exit> {
    let mut exit = None;
    while let Some((pid, status)) = sys::reap() {
        if pid == main {
            exit = Some(Exit::from_wait(status));
        }
    }
    exit
}

/// More bytes than the kernel keeps of a terminal's output (`pty_common_install` in
/// `drivers/tty/pty.c` and `N_TTY_BUF_SIZE`).
const TERMINAL: usize = 64 * 1024;
/// `ioctl_tty(2)`, `pipe(7)`.
const FIONREAD: usize = 0x541b;

/// Bytes that can be read now; of a terminal, which does not count all of them, an upper bound.
fn unread(fd: i32, terminal: bool) -> usize {
    let mut count = 0i32;
    match sys::ioctl_with(fd, FIONREAD, &mut count) {
        Ok(_) if !terminal => count as usize,
        _ => TERMINAL,
    }
}

/// Moves the output of one read to the port; the number of bytes.
fn carry(port: &mut Port, output: &mut (Kind, Option<i32>), first: &mut u64) -> usize {
    let Some(fd) = output.1 else { return 0 };
    if !port.has_room() {
        return 0;
    }
    match port.frame(output.0, |buffer| sys::read(fd, buffer)) {
        Ok(0) => output.1 = None,
        Ok(count) => {
            if *first == 0 {
                *first = sys::now();
            }
            return count;
        }
        Err(sys::EAGAIN | sys::EINTR) => {}
        // A terminal whose last user is gone.
        Err(_) => output.1 = None,
    }
    0
}

/// Executes the host's frames.
fn obey(port: &mut Port, child: &Child, inbound: &mut Inbound) {
    loop {
        match port.receive() {
            Ok(Some((Kind::Stdin, bytes))) => inbound.accept(bytes),
            Ok(Some((Kind::StdinEnd, _))) => inbound.end(),
            Ok(Some((Kind::Signal, bytes))) => {
                if let Ok(number) = bytes.try_into().map(u32::from_le_bytes) {
                    // The command leads its own group.
                    let _ = sys::kill(-child.pid, number as i32);
                }
            }
            Ok(Some((Kind::WindowSize, &[a, b, c, d]))) => {
                let (rows, columns) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
                spawn::resize(child.stdout, rows, columns);
            }
            Ok(Some((Kind::PowerOff, _))) => port.lost(),
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(_) => port.lost(),
        }
    }
}

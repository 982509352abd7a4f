//! Service of a persistent VM: commands at ports of their own, for hosts that come and go.

use crate::job::{Job, Trouble};
use crate::port::Port;
use crate::relay;
use crate::setup;
use crate::spawn;
use crate::sys::{self, PollFd};
use crate::trace::Trace;

/// Number of the first port; the one before it set the VM up.
const FIRST: usize = 2;
/// Signals that stop the VM: that of Ctrl-Alt-Delete, and those that `halt`, `poweroff` and
/// `reboot` of busybox send. Each ends QEMU.
const STOPS: [i32; 4] = [sys::SIGINT, sys::SIGUSR1, sys::SIGUSR2, sys::SIGTERM];
/// Time limit for processes to end when the VM stops, milliseconds.
const PATIENCE: usize = 5_000;
const STEP: usize = 20;

/// Starts a process for each port.
///
/// The first host may ask to stop before [`supervise`] has begun. The kernel throws away what PID 1
/// neither blocks nor handles, so the signals are blocked first.
pub(crate) fn start(job: &Job<'_>) -> Result<(), i32> {
    sys::block_signals(&supervised())?;
    for number in FIRST..FIRST + job.ports.min(8) {
        if sys::fork()? == 0 {
            sys::unblock_signals();
            // Out of the reach of what a terminal does to a group.
            sys::setsid();
            serve(number);
        }
    }
    Ok(())
}

fn supervised() -> [i32; 5] {
    let [first, second, third, fourth] = STOPS;
    [sys::SIGCHLD, first, second, third, fourth]
}

/// Work of PID 1 from then on: reaps orphans, and stops the VM on a signal.
pub(crate) fn supervise(job: &Job<'_>) -> ! {
    let signals = sys::signalfd(&supervised()).unwrap_or(-1);
    loop {
        let mut fds = [PollFd {
            fd: signals,
            events: sys::POLLIN,
            revents: 0,
        }];
        let _ = sys::poll(&mut fds, -1);
        let mut information = [0u8; 128];
        let _ = sys::read(signals, &mut information);
        while sys::reap().is_some() {}
        let number = i32::from_le_bytes([
            information[0],
            information[1],
            information[2],
            information[3],
        ]);
        if STOPS.contains(&number) {
            stop(job);
        }
    }
}

fn stop(job: &Job<'_>) -> ! {
    let _ = sys::kill(-1, sys::SIGTERM);
    let mut left = PATIENCE;
    // Whoever lost its parent is our child: without children there is nobody but us.
    while left > 0 && sys::has_children() {
        sys::sleep(STEP as i64 * 1_000_000);
        left -= STEP;
        while sys::reap().is_some() {}
    }
    job.unmount();
    sys::restart();
}

/// Serves one port, each host in a process of its own, so that its resources are freed with it.
fn serve(number: usize) -> ! {
    let _ = sys::block_signals(&[sys::SIGIO]);
    let signals = sys::signalfd(&[sys::SIGIO]).unwrap_or(-1);
    loop {
        // Opened anew each time: what an earlier host did not take back is thrown away with it.
        let Ok(fd) = Port::device(number) else {
            sys::exit(1);
        };
        sys::signals_of(fd);
        wait_for_host(fd, signals);
        match sys::fork() {
            Ok(0) => session(fd),
            Ok(worker) => sys::wait(worker),
            Err(_) => sys::sleep(100_000_000),
        }
        sys::close(fd);
    }
}

/// The driver sends `SIGIO` when a host comes or goes (`drivers/char/virtio_console.c`).
fn wait_for_host(fd: i32, signals: i32) {
    loop {
        let mut port = [PollFd {
            fd,
            events: sys::POLLIN,
            revents: 0,
        }];
        let _ = sys::poll(&mut port, 0);
        if port[0].revents & sys::POLLHUP == 0 {
            return;
        }
        let mut signal = [PollFd {
            fd: signals,
            events: sys::POLLIN,
            revents: 0,
        }];
        let _ = sys::poll(&mut signal, -1);
        let mut information = [0u8; 128];
        let _ = sys::read(signals, &mut information);
    }
}

fn session(fd: i32) -> ! {
    let trace = Trace::off();
    if let Ok(mut port) = Port::serving(fd) {
        port.greet();
        if let Err(trouble) = run(&mut port, trace) {
            port.fail(trouble);
        }
        port.wait_for_power_off();
    }
    sys::exit(0);
}

fn run(port: &mut Port, trace: Trace) -> Result<(), Trouble<'static>> {
    let script = port.receive_script()?;
    let mut job = setup::carry_out(script, port, trace)?;
    if job.argc == 1 {
        port.started(&[]);
        return Ok(());
    }
    let child = spawn::spawn(&mut job)?;
    port.started(&[(crate::protocol::GuestTimestamp::Start, child.started)]);
    relay::relay(port, &child, &mut job, trace);
    Ok(())
}

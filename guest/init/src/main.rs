//! PID 1 of brisk's guests: loads modules, executes the host's script, runs the command and carries
//! its bytes.
//!
//! No standard library, no C library, no allocator: the whole program is a few pages, and
//! under emulation every instruction of a boot is paid for. Compiled by the build script of
//! `brisk-vm`.
#![no_std]
#![no_main]
#![no_builtins]
#![deny(unsafe_op_in_unsafe_fn)]

mod job;
mod memory;
mod modules;
mod mounts;
mod network;
mod port;
mod prepared;
#[expect(
    dead_code,
    reason = "the host's half of the protocol is used on the host"
)]
mod protocol;
mod random;
mod relay;
#[expect(
    dead_code,
    reason = "the list of codes is for the host, which writes scripts"
)]
mod script;
mod serve;
mod setup;
mod spare;
mod spawn;
mod sys;
mod trace;

use job::Trouble;
use port::Port;
use protocol::{GuestTimestamp, Kind, Stage};
use sys::Text;
use trace::Trace;

core::arch::global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "and rsp, -16",
    "call {init}",
    "ud2",
    init = sym init,
);

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    last_words(b"internal error", b"");
}

extern "C" fn init() -> ! {
    let started = sys::now();
    let cycles = sys::cycles();
    let _ = sys::mkdir(Text::new(b"/dev\0"), 0o755);
    let _ = sys::mount(
        Text::new(b"dev\0"),
        Text::new(b"/dev\0"),
        Text::new(b"devtmpfs\0"),
        0,
        Text::new(b"\0"),
    );
    let trace = Trace::new();
    let failed_module = modules::load_all(trace);
    let modules = sys::now();
    let mut port = match Port::open() {
        Ok(port) => port,
        // A module that failed is then the likely reason.
        Err(_) => match failed_module {
            Some((path, _)) => last_words(b"cannot load module ", path),
            None => last_words(b"no virtio-serial port appeared", b""),
        },
    };
    let mut hello = [0u8; 4 + 4 * GuestTimestamp::SIZE];
    hello[..4].copy_from_slice(&protocol::VERSION.to_le_bytes());
    for (slot, (stamp, ns)) in hello[4..].chunks_exact_mut(GuestTimestamp::SIZE).zip([
        (GuestTimestamp::Init, started),
        (GuestTimestamp::Cycles, cycles),
        (GuestTimestamp::Modules, modules),
        (GuestTimestamp::Port, sys::now()),
    ]) {
        slot.copy_from_slice(&stamp.encode(ns));
    }
    port.send(Kind::Hello, &hello);
    if let Err(trouble) = run(&mut port, trace) {
        // Where a device or a file system is missing, a module that failed is the reason.
        port.fail(match (trouble.stage, failed_module) {
            (Stage::Mount | Stage::Device | Stage::Network, Some((path, errno))) => Trouble {
                stage: Stage::Module,
                errno,
                subject: path,
            },
            _ => trouble,
        });
    }
    port.wait_for_power_off();
    sys::restart();
}

fn run(port: &mut Port, trace: Trace) -> Result<(), Trouble<'static>> {
    let script = match setup::packed_script()? {
        Some(script) => script,
        None => port.receive_script()?,
    };
    let received = sys::now();
    let mut job = setup::carry_out(script, port, trace)?;
    let ready = sys::now();
    let prepared = [
        (GuestTimestamp::Config, received),
        (GuestTimestamp::Root, ready),
    ];
    if job.ports > 0 {
        serve::start(&job).map_err(internal)?;
        port.started(&prepared);
        port.drain();
        if job.init {
            let errno = spawn::become_command(&mut job);
            last_words(
                b"cannot execute init, error ",
                &[b'0' + (errno / 10) as u8 % 10, b'0' + (errno % 10) as u8],
            );
        }
        serve::supervise(&job);
    }
    trace.begin(b"command", b"");
    let child = spawn::spawn(&mut job)?;
    let [config, root] = prepared;
    port.started(&[config, root, (GuestTimestamp::Start, child.started)]);
    relay::relay(port, &child, &mut job, trace);
    Ok(())
}

fn internal(errno: i32) -> Trouble<'static> {
    Trouble {
        stage: Stage::Internal,
        errno,
        subject: b"processes",
    }
}

/// Writes to the kernel's log, which reaches the console even with `quiet`, why there is no port,
/// and ends the VM.
fn last_words(what: &[u8], subject: &[u8]) -> ! {
    let mut line = [0u8; 256];
    let mut len = 0;
    for part in [b"<0>brisk-init: ".as_slice(), what, subject, b"\n"] {
        let room = part.len().min(line.len() - len);
        line[len..len + room].copy_from_slice(&part[..room]);
        len += room;
    }
    if let Ok(log) = sys::open(Text::new(b"/dev/kmsg\0"), sys::O_WRONLY, 0) {
        let _ = sys::write(log, &line[..len]);
    }
    sys::restart();
}

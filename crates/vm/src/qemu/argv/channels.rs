//! Channels to QEMU and to the guest.

use super::part::{Parts, socket};
use crate::qemu::config::VmConfig;
use crate::qemu::machine::{Channels, Fds, Transport};

pub(super) fn add(parts: &mut Parts, plan: &VmConfig) {
    add_control(parts, plan);
    add_logs(parts, plan);
    add_ports(parts, plan);
}

/// QMP.
fn add_control(parts: &mut Parts, plan: &VmConfig) {
    parts.add(
        [
            "-chardev",
            &plan.socket("qmp", Fds::QMP),
            "-mon",
            "chardev=qmp,mode=control",
        ],
        "control channel",
    );
    if plan.memory.postcopy {
        parts.add(
            [
                "-chardev",
                &socket("urgent", Fds::OOB),
                "-mon",
                "chardev=urgent,mode=control",
            ],
            "control channel for when all others wait for the guest's memory",
        );
    }
}

/// Consoles of kernel and firmware, and a debugger.
fn add_logs(parts: &mut Parts, plan: &VmConfig) {
    let why = "the kernel's console: its last words are shown when it fails";
    match plan.channels {
        Channels::Connected => parts.add(
            [
                "-chardev",
                &socket("console", Fds::CONSOLE),
                "-serial",
                "chardev:console",
            ],
            why,
        ),
        Channels::Listening { .. } => parts.add(
            [
                "-add-fd",
                &format!("fd={0},set={0}", Fds::CONSOLE),
                "-chardev",
                &format!("file,id=console,path=/dev/fdset/{},append=on", Fds::CONSOLE),
                "-serial",
                "chardev:console",
            ],
            why,
        ),
    }
    if plan.debugging.firmware_log {
        parts.add(
            [
                "-chardev",
                &socket("firmware", Fds::FIRMWARE),
                "-device",
                "isa-debugcon,iobase=0x402,chardev=firmware",
            ],
            "SeaBIOS says here what it does",
        );
    }
    if plan.debugging.debugger {
        parts.add(
            [
                "-chardev",
                &socket("debugger", Fds::DEBUGGER),
                "-gdb",
                "chardev:debugger",
            ],
            "a breakpoint shows when the kernel is entered",
        );
    }
}

/// Ports of our init.
fn add_ports(parts: &mut Parts, plan: &VmConfig) {
    let suffix = plan.machine.transport().suffix();
    // Notified through an eventfd, QEMU's main loop would serve the channel when it gets to it.
    let at_once = match plan.machine.transport() {
        Transport::Pci if plan.processors.instructions => ",ioeventfd=off",
        _ => "",
    };
    let slot = parts.slots.next();
    let ports = match plan.channels {
        Channels::Connected => 0,
        Channels::Listening { ports } => ports,
    };
    parts.add(
        [
            "-chardev",
            &plan.socket("guest", Fds::GUEST),
            "-device",
            &format!(
                "virtio-serial-{suffix},max_ports={}{at_once}{slot}",
                2 + ports
            ),
            "-device",
            "virtserialport,chardev=guest,name=brisk.0,nr=1",
        ],
        "the channel of our init: the command's input and output, signals, exit status",
    );
    for port in 1..=ports {
        parts.add(
            [
                "-chardev",
                &plan.socket(&format!("port{port}"), Fds::PORTS + port as i32 - 1),
                "-device",
                &format!(
                    "virtserialport,chardev=port{port},name=brisk.{port},nr={}",
                    port + 1
                ),
            ],
            "one command at a time is asked for here",
        );
    }
}

impl VmConfig {
    /// A channel that a brisk is connected to, or will be.
    fn socket(&self, id: &str, fd: i32) -> String {
        match self.channels {
            Channels::Connected => socket(id, fd),
            Channels::Listening { .. } => format!("{},server=on,wait=off", socket(id, fd)),
        }
    }
}

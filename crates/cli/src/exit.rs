//! Exit statuses of brisk.
//!
//! `brisk run` exits with the status of the guest's command, or with 128 plus the number of
//! the signal that ended it. What goes wrong around the command has a status that a shell
//! would not give it.

/// All is well.
pub const OK: u8 = 0;
/// `brisk doctor` found a problem that makes boots impossible, `brisk image verify` damage, `brisk
/// ktext verify` copies that differ, or `brisk ktext check` a machine that would not gain.
pub const FOUND: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// `brisk reboot check`: the machine has to be restarted through its firmware; `brisk reboot
/// rehearse`: what was rehearsed did not reach its goal.
pub const COLD: u8 = 10;
/// `brisk reboot check`: a warm reboot is refused.
pub const REFUSED: u8 = 11;
/// `brisk reboot rehearse`: what comes after a passphrase is not known.
pub const UNDECIDED: u8 = 12;
/// QEMU ended by itself.
pub const QEMU: u8 = 120;
/// The guest's kernel panicked.
pub const PANIC: u8 = 121;
/// The guest could not prepare what was asked for: a module, a mount, a device.
pub const GUEST: u8 = 122;
/// The time limit passed, as with timeout(1).
pub const TIMEOUT: u8 = 124;
/// brisk failed before the guest ran.
pub const BRISK: u8 = 125;
/// A signal ended the command in good order: 128 and the number of SIGINT.
pub const INTERRUPTED: u8 = 130;
/// The command is there but cannot be executed, as in a shell.
pub const NOT_EXECUTABLE: u8 = 126;
/// There is no such command, as in a shell.
pub const NOT_FOUND: u8 = 127;

/// A signal ended the command in good order, as a shell has it: 128 and its number.
pub(crate) const fn by_signal(signal: i32) -> u8 {
    128 + (signal & 0x7f) as u8
}

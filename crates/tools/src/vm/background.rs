//! Processes of brisk's own that go on when the command that started them has ended.

use std::io;
use std::process::{Command, Stdio};

/// How much of a processor such a process has.
pub(super) enum Priority {
    /// As much as any other.
    Usual,
    /// Only what nobody else wants, so that a guest that is being loaded has all of it.
    Idle,
}

/// A command of this program, in a session of its own and without streams: what it has to say is in
/// the VM's log.
pub(super) fn command(words: &[&str], priority: Priority) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words);
    command.stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    match priority {
        Priority::Usual => brisk_sys::own_session(&mut command),
        Priority::Idle => brisk_sys::in_background(&mut command),
    };
    Ok(command)
}

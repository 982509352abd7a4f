//! QEMU's monitor.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::wait::until;

/// What QEMU says to commands of qemu-monitor(7).
pub(crate) fn monitor(socket: &Path, commands: &str) -> String {
    let mut monitor = until("QEMU has made its socket", || {
        UnixStream::connect(socket).ok()
    });
    monitor.write_all(commands.as_bytes()).unwrap();
    // A prompt comes at first, and after each command.
    let prompts = 1 + commands.lines().count();
    let (mut said, mut buffer) = (String::new(), [0; 4096]);
    while said.matches("(qemu) ").count() < prompts {
        match monitor.read(&mut buffer) {
            Ok(count @ 1..) => said += &String::from_utf8_lossy(&buffer[..count]),
            _ => break,
        }
    }
    said
}

//! QEMU's debugger port: whatever arrives ends at the breakpoint or in an error.
#![no_main]

use brisk_vm::qemu::debugger::Debugger;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut debugger = Debugger::new(0x100_0000);
    for bytes in data.chunks(64) {
        match debugger.push(bytes) {
            Ok(reply) if !reply.there => {}
            _ => break,
        }
    }
});

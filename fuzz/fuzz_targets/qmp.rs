//! QEMU's control channel: whatever arrives ends in messages or an error.
#![no_main]

use brisk_vm::qemu::qmp::Reader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut reader = Reader::default();
    for bytes in data.chunks(64) {
        if reader.push(bytes).is_err() {
            break;
        }
    }
});

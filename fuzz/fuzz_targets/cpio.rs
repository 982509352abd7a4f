//! Any file may be listed as an initramfs, or be what a machine is to be restarted with.
#![no_main]

use brisk_vm::initramfs::{cpio, verify};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = cpio::read(data);
    let _ = verify(data);
});

//! Any file may be listed as an initramfs.
#![no_main]

use brisk_vm::initramfs::cpio;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = cpio::read(data);
});

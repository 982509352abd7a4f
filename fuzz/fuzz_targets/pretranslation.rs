//! A kernel and a trace of its boot, separated by a form feed: what QEMU would start is a kernel.
#![no_main]

use brisk_vm::kernel::pvh_entry;
use brisk_vm::pretranslation::from_trace;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let at = data.iter().position(|byte| *byte == 0x0c);
    let (kernel, trace) = data.split_at(at.unwrap_or(data.len()));
    if let Some(file) = from_trace(kernel, kernel, trace) {
        assert!(pvh_entry(&file).is_some());
    }
});

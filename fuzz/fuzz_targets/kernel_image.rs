//! Any file may be named as a kernel, or as a module.
#![no_main]

use brisk_vm::{initramfs, kernel};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(vmlinux) = kernel::extract_bytes(data) {
        let slim = kernel::slim(&vmlinux).expect("what was checked can be rewritten");
        assert_eq!(kernel::pvh_entry(&slim), kernel::pvh_entry(&vmlinux));
    }
    if let Some(signed) = kernel::Signed::parse(data) {
        let covered: usize = signed.parts.iter().map(|part| part.len()).sum();
        assert!(signed.signature.len() < data.len() && covered > 0);
    }
    let _ = initramfs::strip(data);
});

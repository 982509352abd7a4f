//! Another system's tree may have any configuration of a boot loader: up to the first NUL a script
//! of GRUB, then its environment block, then an entry of the Boot Loader Specification.
#![no_main]

use std::fs;
use std::path::Path;

use brisk_host::boot_entries::{self, Entry};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let root = tempfile::tempdir().expect("there is a directory for temporary files");
    let put = |path: &str, bytes: &[u8]| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("it is in a directory")).expect("it is new");
        fs::write(path, bytes).expect("it is new");
    };
    let mut parts = data.splitn(3, |byte| *byte == 0);
    let mut part = || parts.next().unwrap_or_default();
    put("boot/grub/grub.cfg", part());
    put("boot/grub/grubenv", part());
    put("boot/loader/entries/a-1.conf", part());
    put("boot/vmlinuz-1", b"");
    let boot = boot_entries::read(root.path());
    for choice in boot.default.iter().chain(&boot.next) {
        assert!(choice.entry < boot.entries.len());
    }
    // Nothing leads out of the tree.
    let is_inside = |entry: &Entry| entry.kernel.starts_with("/") || entry.kernel == Path::new("");
    assert!(boot.entries.iter().all(is_inside));
});

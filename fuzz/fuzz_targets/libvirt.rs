//! What virsh prints: definitions of domains and events, both with what others wrote in them.
#![no_main]

use brisk_vm::libvirt::{Definition, Event, Info, console_path};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let _ = Definition::parse(&text);
    let _ = console_path(&text);
    let _ = Event::parse(&text);
    let _ = Info::parse(&text);
});

//! Command lines of QEMU, as `/proc/PID/cmdline` shows them: any process can have any words.
#![no_main]

use brisk_vm::hardware::GuestHardware;
use brisk_vm::qemu::cmdline::{CommandLine, Field};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let line = CommandLine::of_process(data);
    let words: Vec<_> = data.split(|byte| *byte == 0).collect();
    let stands_there = |field: &Field| {
        for range in [Some(&field.bytes), field.value_bytes.as_ref()] {
            let range = range.cloned().unwrap_or_default();
            assert!(words[field.word].get(range).is_some(), "{field:?}");
        }
    };
    for item in line.items() {
        for field in item.fields().unwrap_or_default().iter() {
            stands_there(field);
        }
    }
    line.machine().iter().for_each(stands_there);
    line.set()
        .iter()
        .for_each(|setting| stands_there(&setting.field));
    assert!(!line.accelerators().is_empty());
    let _ = (line.globals(), line.errors());
    let _ = GuestHardware::of_arguments(&line);
});

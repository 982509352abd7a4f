//! Both directions of the channel: frames as the host reads them, scripts as init reads them.
#![no_main]

use brisk_init::script::Script;
use brisk_vm::guest::Decoder;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut decoder = Decoder::new();
    // Cut where the first byte says: a stream may arrive in any pieces.
    let piece = usize::from(data.first().copied().unwrap_or(1)).max(1);
    'frames: for bytes in data.chunks(piece) {
        decoder.push(bytes);
        loop {
            match decoder.next_event() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => break 'frames,
            }
        }
    }
    let mut script = Script::new(data);
    while let Ok(Some(_)) = script.next_op() {}
});

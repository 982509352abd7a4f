//! What a guest and its firmware print: any text is explained, and none of it takes long.
#![no_main]

use std::sync::LazyLock;

use brisk_tools::boot::analyze::{LogPatterns, analyze};
use brisk_tools::boot::{Observation, Piece};
use libfuzzer_sys::fuzz_target;

static MARKERS: LazyLock<LogPatterns> =
    LazyLock::new(|| LogPatterns::own().expect("they are brisk's own"));

// The first byte says how the text is cut into pieces; of its parts, which NUL bytes separate,
// one is the console, one the firmware's, and one the log.
fuzz_target!(|data: &[u8]| {
    let Some((cut, data)) = data.split_first() else {
        return;
    };
    let mut parts = data.split(|byte| *byte == 0);
    let mut at = 0;
    let mut pieces = || -> Vec<Piece> {
        let bytes = parts.next().unwrap_or_default();
        let pieces = bytes.chunks(usize::from(*cut).max(1)).map(|bytes| {
            at += 1_000_000;
            Piece {
                at,
                text: String::from_utf8_lossy(bytes).into_owned(),
            }
        });
        pieces.collect()
    };
    let (console, firmware) = (pieces(), pieces());
    let log = pieces().into_iter().map(|piece| piece.text).collect();
    let observation = Observation {
        console,
        firmware,
        log,
        ..serde_json::from_str(r#"{"clock":"host-monotonic"}"#).expect("it is one")
    };
    let analysis = analyze(&observation, &MARKERS);
    let _ = analysis.timeline.explained_fraction();
});

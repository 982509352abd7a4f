//! All parsers of the format on one input, for fuzzing.

use crate::format::chunk;
use crate::format::codec::Decoder;
use crate::format::head::Head;
use crate::format::header::{Header, RECORD};
use crate::format::pages;
use crate::format::record::Record;
use crate::format::working_set;
use crate::memory::{PAGE, PAGE_SIZE};

/// Parses bytes as a header, and as the sealed parts. The seal protects the latter from strangers,
/// but not from somebody who may encrypt an image to the reader.
///
/// # Panics
/// If a parser accepts what it would not write.
pub fn parse_anything(bytes: &[u8]) {
    let (start, rest) = bytes.split_at(bytes.len().min(PAGE));
    // No fuzzer guesses a checksum.
    let mut start = start.to_vec();
    if start.len() == PAGE {
        start[96..128].fill(0);
        let checksum = blake3::hash(&start);
        start[96..128].copy_from_slice(checksum.as_bytes());
    }
    let Ok(header) = Header::decode(&start) else {
        return;
    };
    assert!(
        header.encode() == start,
        "a header that would not be written so"
    );
    let _ = Head::decode(rest, &header);
    let _ = working_set::decode(rest, header.memory / PAGE_SIZE);
    for record in rest.chunks_exact(RECORD) {
        if let Some(known) = Record::decode(record) {
            assert!(
                known.encode() == record,
                "a record that would not be written so"
            );
        }
    }
    let Ok(mut decoder) = Decoder::new() else {
        return;
    };
    let mut out = vec![0; header.chunk_len(0)];
    if let Some(bitmap) = chunk::decode(&mut decoder, &header, 0, rest, &mut out) {
        pages::scatter(&mut out, bitmap);
    }
}

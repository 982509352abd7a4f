//! What an image has behind its pieces, and its header.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::error::{Error, io_error};
use super::head::Head;
use super::header::{self, Header};
use super::reader::Record;
use super::seal::{self, DataKey, Kind, Owner, TAG};

/// What the key of the pieces is for; the image's identity is its material.
pub(super) const PIECES: &str = "brisk suspend image 1: memory, device state, working set";
/// What the key of head and records is for; the whole header is its material.
pub(super) const INDEX: &str = "brisk suspend image 1: head and records";

/// Seals head and records under a key of this very header, and writes all three.
pub(super) fn write_index(
    file: &File,
    path: &Path,
    key: &DataKey,
    owner: &Owner,
    header: &mut Header,
    head: &Head,
    records: &[Record],
) -> Result<(), Error> {
    let mut head = head.encode();
    header.head_len = u32::try_from(head.len() + TAG)
        .ok()
        .filter(|length| *length <= header::MAX_HEAD)
        .ok_or_else(|| Error::invalid("the description is too long"))?;
    let encoded = header.encode();
    let key = key.derive(INDEX, &encoded);
    let put = |bytes: &[u8], offset| {
        file.write_all_at(bytes, offset)
            .map_err(io_error("write", path))
    };
    // The owner is not known before the head is open: it binds itself by its key.
    let nobody = Owner {
        vm: [0; 16],
        image: header.id,
    };
    let tag = key.seal(
        (Kind::Head, 0),
        &seal::associated(&nobody, (Kind::Head, 0), 1),
        &mut head,
    );
    head.extend(tag);
    let mut offset = header.head_offset();
    put(&head, offset)?;
    offset += head.len() as u64;
    let count = header.record_pieces();
    let mut piece = Vec::new();
    for (index, records) in (0..).zip(records.chunks(header::RECORDS_IN_PIECE as usize)) {
        piece.clear();
        records
            .iter()
            .for_each(|record| piece.extend(record.encode()));
        let associated = seal::associated(owner, (Kind::Records, index), count);
        let tag = key.seal((Kind::Records, index), &associated, &mut piece);
        piece.extend(tag);
        put(&piece, offset)?;
        offset += piece.len() as u64;
    }
    put(&encoded, 0)
}

//! The end of an image behind its pieces (head and records), and its header.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Error, io_error};
use crate::format::head::Head;
use crate::format::header::{self, Header};
use crate::format::record::Record;
use crate::format::seal::{self, DataKey, INDEX, Kind, Owner, TAG};

/// Head and records of an image, and to whom they belong.
pub(crate) struct Index<'a> {
    pub(crate) owner: &'a Owner,
    pub(crate) head: &'a Head,
    pub(crate) records: &'a [Record],
}

/// Seals head and records under a key of this very header, and writes all three.
pub(crate) fn write_index(
    file: &File,
    path: &Path,
    key: &DataKey,
    header: &mut Header,
    index: &Index<'_>,
) -> Result<(), Error> {
    let mut head = index.head.encode();
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
        Kind::Head.piece(0),
        &seal::associated(&nobody, Kind::Head.piece(0), 1),
        &mut head,
    );
    head.extend(tag);
    let mut offset = header.head_offset();
    put(&head, offset)?;
    offset += head.len() as u64;
    let count = header.record_pieces();
    let mut piece = Vec::new();
    let pieces = index.records.chunks(header::RECORDS_IN_PIECE as usize);
    for (number, records) in (0..).zip(pieces) {
        piece.clear();
        records
            .iter()
            .for_each(|record| piece.extend(record.encode()));
        let associated = seal::associated(index.owner, Kind::Records.piece(number), count);
        let tag = key.seal(Kind::Records.piece(number), &associated, &mut piece);
        piece.extend(tag);
        put(&piece, offset)?;
        offset += piece.len() as u64;
    }
    put(&encoded, 0)
}

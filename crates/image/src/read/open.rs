//! Opening an image: header, head and list of chunks.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Error, Place, io_error};
use crate::format::chunk;
use crate::format::head::Head;
use crate::format::header::{Fault, Header, RECORD, RECORDS_IN_PIECE};
use crate::format::record::Record;
use crate::format::seal::{self, Kind, Owner, SealKey, TAG};
use crate::memory::PAGE;

/// The header and its bytes, of a file that is as long as it says.
pub(crate) fn read_header(file: &File, path: &Path) -> Result<(Header, Vec<u8>), Error> {
    let fault = |fault| match fault {
        Fault::NotAnImage => Error::NotAnImage {
            path: path.to_owned(),
        },
        Fault::Version(version) => Error::Version {
            path: path.to_owned(),
            version,
        },
        Fault::Damaged(what) => Error::damaged(path, Place::Header, what),
    };
    let mut start = [0; PAGE];
    let got = read_up_to(file, &mut start).map_err(io_error("read", path))?;
    let length = Header::expected_len(&start[..got]).map_err(fault)?;
    let mut bytes = vec![0; length];
    let got = read_up_to(file, &mut bytes).map_err(io_error("read", path))?;
    if got < length {
        let what = format!("the file ends after {got} bytes, in the header");
        return Err(Error::damaged(path, Place::Length, what));
    }
    let header = Header::decode(&bytes).map_err(fault)?;
    let actual = file.metadata().map_err(io_error("examine", path))?.len();
    if actual != header.file_len() {
        let expected = header.file_len();
        let what = format!("it has {actual} bytes and was written with {expected}");
        return Err(Error::damaged(path, Place::Length, what));
    }
    Ok((header, bytes))
}

fn read_up_to(file: &File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match file.read_at(&mut bytes[got..], got as u64) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

pub(crate) fn read_head(
    file: &File,
    path: &Path,
    header: &Header,
    key: &SealKey,
) -> Result<Head, Error> {
    let mut sealed = vec![0; header.head_len as usize];
    file.read_exact_at(&mut sealed, header.head_offset())
        .map_err(io_error("read", path))?;
    let nobody = Owner {
        vm: [0; 16],
        image: header.id,
    };
    let piece = Kind::Head.piece(0);
    let plain = key
        .open(piece, &seal::associated(&nobody, piece, 1), &mut sealed)
        .ok_or_else(|| {
            let what = "it or the header is not what was written";
            Error::damaged(path, Place::Head, what)
        })?;
    Head::decode(plain, header).map_err(|what| Error::damaged(path, Place::Head, what))
}

pub(crate) fn read_records(
    file: &File,
    path: &Path,
    header: &Header,
    key: &SealKey,
    owner: &Owner,
) -> Result<(Vec<Record>, [u8; 32]), Error> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&header.id);
    let mut records = Vec::with_capacity(header.chunks() as usize);
    let mut sealed = Vec::new();
    let mut offset = header.head_offset() + u64::from(header.head_len);
    let longest = chunk::sealed_bound(header.chunk_size as usize) as u64;
    let possible = |record: &Record| match *record {
        // All of the memory was kept, or none.
        Record::Kept => header.kept,
        _ if header.kept => false,
        Record::Zero => true,
        Record::Parent => header.incremental,
        Record::Here { offset, length, .. } => {
            let length = u64::from(length);
            let end = offset.checked_add(length);
            length > TAG as u64
                && length <= longest
                && end.is_some_and(|end| end <= header.data_len)
        }
    };
    for piece in 0..header.record_pieces() {
        let altered = || {
            let what = "it is not what was written";
            Error::damaged(path, Place::Records(piece), what)
        };
        let count = (header.chunks() - piece * RECORDS_IN_PIECE).min(RECORDS_IN_PIECE);
        sealed.resize(count as usize * RECORD + TAG, 0);
        file.read_exact_at(&mut sealed, offset)
            .map_err(io_error("read", path))?;
        offset += sealed.len() as u64;
        let id = Kind::Records.piece(piece);
        let associated = seal::associated(owner, id, header.record_pieces());
        let plain = key.open(id, &associated, &mut sealed).ok_or_else(altered)?;
        hasher.update(plain);
        for bytes in plain.chunks(RECORD) {
            let record = Record::decode(bytes).filter(possible);
            records.push(record.ok_or_else(altered)?);
        }
    }
    let here = |record: &&Record| matches!(record, Record::Here { .. });
    if records.iter().filter(here).count() as u64 != header.stored_chunks {
        let what = "it has another number of chunks than its list";
        return Err(Error::damaged(path, Place::Header, what));
    }
    Ok((records, hasher.finalize().into()))
}

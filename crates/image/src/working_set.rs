//! The order in which a guest needed its pages after a resume.
//!
//! It is learnt when an image has long been written, and is wanted when the next one is
//! resumed. So it is kept in a file of its own, sealed for those who could open the image it
//! was learnt from, until the next image takes it in.

use std::io::Write;
use std::ops::Range;
use std::path::Path;

use super::durable::Durable;
use super::error::{Error, Place, io_error};
use super::head::MAX_BLOB;
use super::keys::Keys;
use super::pages::Pages;
use super::reader::Image;
use super::seal::{self, Kind, Owner, TAG};
use super::slot;

const MAGIC: [u8; 8] = *b"\x89briskw\n";
const FIXED: usize = 64;
const PURPOSE: &str = "brisk working set 1";
/// How many pages of the working set an image has a second time, at most: 64 MiB.
pub const WORKING_PAGES: usize = 16 << 10;
/// Largest file, of some four million ranges.
const MAX_FILE: u64 = 64 << 20;

/// 16 bytes for each range: its first page and how many they are.
pub(super) fn encode(ranges: &[Range<u64>]) -> Vec<u8> {
    let numbers = ranges
        .iter()
        .flat_map(|range| [range.start, range.end.saturating_sub(range.start)]);
    numbers.flat_map(u64::to_le_bytes).collect()
}

/// The reverse; `None` if one is outside of the memory.
pub(super) fn decode(bytes: &[u8], pages: u64) -> Option<Vec<Range<u64>>> {
    if bytes.len() % 16 != 0 {
        return None;
    }
    let ranges = bytes.chunks_exact(16).map(|bytes| {
        let start = u64::from_le_bytes(*bytes.first_chunk()?);
        let count = u64::from_le_bytes(*bytes.last_chunk()?);
        let end = start.checked_add(count)?;
        (end <= pages).then_some(start..end)
    });
    ranges.collect()
}

/// The same without pages that the image leaves out: there is nothing to have of them, neither
/// soon nor later.
pub(super) fn without(ranges: &[Range<u64>], left_out: Option<&Pages>) -> Vec<Range<u64>> {
    let Some(left_out) = left_out else {
        return ranges.to_vec();
    };
    let mut kept: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        let mut open = false;
        for page in range.clone().filter(|page| !left_out.contains(*page)) {
            match kept.last_mut() {
                Some(last) if open && last.end == page => last.end += 1,
                _ => kept.push(page..page + 1),
            }
            open = true;
        }
    }
    kept.truncate(MAX_BLOB as usize / 16);
    kept
}

/// Pages whose contents are stored a second time, one after the other, so that they are there
/// soon: the first ones.
pub(super) fn first_pages(ranges: &[Range<u64>]) -> Vec<u64> {
    let pages = ranges.iter().cloned().flatten();
    pages.take(WORKING_PAGES).collect()
}

/// Writes what was learnt from a resume of `image`, replacing what was known before.
///
/// # Errors
/// If the file cannot be written.
pub fn write_working_set(path: &Path, image: &Image, ranges: &[Range<u64>]) -> Result<(), Error> {
    let mut payload = image.head.description.uuid.to_vec();
    payload.extend((image.header.memory / super::PAGE as u64).to_le_bytes());
    payload.extend(encode(ranges));
    let mut file = Vec::from(MAGIC);
    file.extend(super::VERSION.to_le_bytes());
    file.extend([image.header.slots.len() as u8, 0, 0, 0]);
    file.extend(image.header.id);
    file.extend(seal::random::<32>()?);
    slot::encode(&image.header.slots, &mut file);
    if (file.len() + payload.len() + TAG) as u64 > MAX_FILE {
        return Err(Error::invalid("a working set of too many ranges"));
    }
    let key = image.data_key.derive(PURPOSE, &file);
    let kind = (Kind::WorkingSet, 0);
    let tag = key.seal(kind, &associated(image.header.id), &mut payload);
    file.extend(payload);
    file.extend(tag);
    let durable = Durable::create(path)?;
    let mut out = &durable.file;
    out.write_all(&file).map_err(io_error("write", path))?;
    durable.sync()?;
    durable.publish(true)
}

/// Reads it back: the machine's UUID and the ranges.
///
/// # Errors
/// If it cannot be read, was altered, or no key fits.
pub fn read_working_set(path: &Path, keys: &Keys) -> Result<([u8; 16], Vec<Range<u64>>), Error> {
    let length = path.metadata().map_err(io_error("read", path))?.len();
    let altered = || Error::damaged(path, Place::WorkingSet(0), "it is not what was written");
    if length > MAX_FILE {
        return Err(altered());
    }
    let mut file = std::fs::read(path).map_err(io_error("read", path))?;
    if file.len() < FIXED || file[..8] != MAGIC {
        return Err(Error::NotAnImage {
            path: path.to_owned(),
        });
    }
    let version = u32::from_le_bytes([8, 9, 10, 11].map(|at| file[at]));
    if version != super::VERSION {
        return Err(Error::Version {
            path: path.to_owned(),
            version,
        });
    }
    let (slots, rest) = slot::decode(&file[FIXED..], file[12].into()).map_err(|_| altered())?;
    let sealed = file.len() - rest.len();
    let id = *file[16..].first_chunk().ok_or_else(altered)?;
    let key = keys.unwrap(path, &slots)?;
    let (header, payload) = file.split_at_mut(sealed);
    let plain = key
        .derive(PURPOSE, header)
        .open((Kind::WorkingSet, 0), &associated(id), payload)
        .ok_or_else(altered)?;
    let (uuid, plain) = plain.split_first_chunk().ok_or_else(altered)?;
    let (pages, ranges) = plain.split_first_chunk().ok_or_else(altered)?;
    let ranges = decode(ranges, u64::from_le_bytes(*pages)).ok_or_else(altered)?;
    Ok((*uuid, ranges))
}

fn associated(image: [u8; 16]) -> [u8; 64] {
    let nobody = Owner { vm: [0; 16], image };
    seal::associated(&nobody, (Kind::WorkingSet, 0), 1)
}

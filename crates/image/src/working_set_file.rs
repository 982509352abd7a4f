//! Files of working sets: the order in which a guest needed its pages after a resume.
//!
//! A working set is recorded after its image was written, and needed when the next image is
//! resumed. So it is in a file of its own, sealed for the recipients of the image that it was
//! recorded from, until the next image includes it.

use std::io::{Read, Write};
use std::ops::Range;
use std::path::Path;

use crate::durable::Durable;
use crate::error::{Error, Place, io_error};
use crate::format::seal::{self, Kind, Owner, TAG};
use crate::format::slot;
use crate::format::working_set;
use crate::keys::Keys;
use crate::read::reader::{Image, open_unknown};

const MAGIC: [u8; 8] = *b"\x89briskw\n";
const FIXED: usize = 64;
const PURPOSE: &str = "brisk working set 1";
/// Largest file, of some four million ranges.
const MAX_FILE: u64 = 64 << 20;

/// Writes the working set of a resume of `image`, and replaces an earlier one.
///
/// # Errors
/// If the file cannot be written.
pub fn write_working_set(path: &Path, image: &Image, ranges: &[Range<u64>]) -> Result<(), Error> {
    let mut payload = image.head.description.uuid.to_vec();
    payload.extend((image.header.memory / crate::PAGE_SIZE).to_le_bytes());
    payload.extend(working_set::encode(ranges));
    let mut file = Vec::from(MAGIC);
    file.extend(crate::VERSION.to_le_bytes());
    file.extend([image.header.slots.len() as u8, 0, 0, 0]);
    file.extend(image.header.id);
    file.extend(seal::random::<32>()?);
    slot::encode(&image.header.slots, &mut file);
    if (file.len() + payload.len() + TAG) as u64 > MAX_FILE {
        return Err(Error::invalid("a working set of too many ranges"));
    }
    let key = image.data_key.derive(PURPOSE, &file);
    let piece = Kind::WorkingSet.piece(0);
    let tag = key.seal(piece, &associated(image.header.id), &mut payload);
    file.extend(payload);
    file.extend(tag);
    let durable = Durable::create(path)?;
    let mut out = &durable.file;
    out.write_all(&file).map_err(io_error("write", path))?;
    durable.sync()?;
    durable.publish(true)
}

/// Reads the file of a working set: the UUID of the VM, and the ranges.
///
/// # Errors
/// If it cannot be read, was altered, or no key fits.
pub fn read_working_set(path: &Path, keys: &Keys) -> Result<([u8; 16], Vec<Range<u64>>), Error> {
    let failed = || io_error("read", path);
    let mut opened = open_unknown(path).map_err(failed())?;
    let meta = opened.metadata().map_err(failed())?;
    let altered = || Error::damaged(path, Place::WorkingSet(0), "it is not what was written");
    // A pipe would be waited for, with a guest that stands still.
    if !meta.is_file() || meta.len() > MAX_FILE {
        return Err(altered());
    }
    let mut file = Vec::new();
    opened.read_to_end(&mut file).map_err(failed())?;
    if file.len() < FIXED || file[..8] != MAGIC {
        return Err(Error::NotAnImage {
            path: path.to_owned(),
        });
    }
    let version = u32::from_le_bytes([8, 9, 10, 11].map(|at| file[at]));
    if version != crate::VERSION {
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
        .open(Kind::WorkingSet.piece(0), &associated(id), payload)
        .ok_or_else(altered)?;
    let (uuid, plain) = plain.split_first_chunk().ok_or_else(altered)?;
    let (pages, ranges) = plain.split_first_chunk().ok_or_else(altered)?;
    let ranges = working_set::decode(ranges, u64::from_le_bytes(*pages)).ok_or_else(altered)?;
    Ok((*uuid, ranges))
}

fn associated(image: [u8; 16]) -> [u8; 64] {
    let nobody = Owner { vm: [0; 16], image };
    seal::associated(&nobody, Kind::WorkingSet.piece(0), 1)
}

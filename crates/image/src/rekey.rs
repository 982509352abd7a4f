//! Encryption of an image to other keys, while its chunks stay as they are.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use rustix::fs::copy_file_range;
use rustix::io::Errno;

use crate::claim::lock;
use crate::durable::Durable;
use crate::error::{Error, io_error};
use crate::keys::{self, Keys, Recipient};
use crate::naming::{check_name, real_path};
use crate::pipeline::{Control, Progress};
use crate::read::reader::Image;
use crate::write::index::{Index, write_index};

/// Bytes that are copied between two checks for cancellation.
const STEP: u64 = 64 << 20;

/// Encrypts an image to other recipients than before. The new file is whole and durable before it
/// replaces the old one, whose owner and mode it has, and which is unchanged until then. The result
/// is the number of other names (hard links) of the old one, which stays as it is under those.
///
/// The data key does not change: somebody who could open the image before and kept a copy of it
/// still can.
///
/// # Errors
/// If no key fits, or the new file cannot be written.
pub fn rekey(
    path: &Path,
    keys: &Keys,
    recipients: &[Recipient],
    control: Control<'_>,
) -> Result<u64, Error> {
    // A link is not replaced, but the image that it leads to.
    let path = &real_path(path.to_owned());
    let file = lock(path)?;
    let image = Image::from_file(file, path, keys)?;
    let durable = Durable::create(path)?;
    let old = image.file.metadata().map_err(io_error("read", path))?;
    keep_owner(&durable.file, &old).map_err(io_error("write", path))?;
    let mut header = image.header.clone();
    header.slots = keys::wrap(&image.data_key, recipients)?;
    let mut head = image.head.clone();
    head.description.locks.clear();
    copy(
        Position {
            file: &image.file,
            at: image.header.len(),
        },
        Position {
            file: &durable.file,
            at: header.len(),
        },
        header.data_len,
        control,
    )
    .map_err(|error| error.unwrap_or_else(|errno| io_error("copy", path)(errno)))?;
    write_index(
        &durable.file,
        path,
        &image.data_key,
        &mut header,
        &Index {
            owner: &image.owner,
            head: &head,
            records: &image.records,
        },
    )?;
    durable.sync()?;
    // Another image may have been put there meanwhile.
    check_name(&image.file, path)?;
    durable.publish(true)?;
    Ok(old.nlink().saturating_sub(1))
}

/// Gives the new file owner and mode of the old one, by its descriptor: another user may be able to
/// write to the directory.
fn keep_owner(new: &File, old: &Metadata) -> io::Result<()> {
    // Only root can give files to others; for others the file is their own.
    let _ = fchown(new, Some(old.uid()), Some(old.gid()));
    new.set_permissions(Permissions::from_mode(old.mode() & 0o777))
}

/// An offset in a file.
struct Position<'a> {
    file: &'a File,
    at: u64,
}

/// Copies in the kernel, or only refers to the same blocks where the file system can.
fn copy(
    mut from: Position<'_>,
    mut to: Position<'_>,
    length: u64,
    control: Control<'_>,
) -> Result<(), Result<Error, Errno>> {
    let mut left = length;
    while left > 0 {
        if control.cancelled() {
            return Err(Ok(Error::Cancelled));
        }
        let step = left.min(STEP) as usize;
        let copied = copy_file_range(
            from.file,
            Some(&mut from.at),
            to.file,
            Some(&mut to.at),
            step,
        );
        match copied {
            Ok(0) => return Err(Err(Errno::IO)),
            Ok(bytes) => left -= bytes as u64,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(Err(errno)),
        }
        let done = length - left;
        (control.progress)(Progress {
            done,
            total: length,
            stored: done,
        });
    }
    Ok(())
}

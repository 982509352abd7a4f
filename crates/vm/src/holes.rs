//! Walk over the data of files with holes.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// Calls `take` for each range of data in the first `length` bytes of a file, in order, until
/// `take` fails (lseek(2), `SEEK_DATA`).
///
/// # Errors
/// The error of `take`, or of lseek(2).
pub fn each_stretch(
    from: &impl AsFd,
    length: u64,
    mut take: impl FnMut(Range<u64>) -> io::Result<()>,
) -> io::Result<()> {
    let mut at = 0;
    while at < length {
        let start = match seek(from, SeekFrom::Data(at)) {
            Ok(start) => start.min(length),
            // No more data.
            Err(Errno::NXIO) => break,
            // This file system does not report holes: a hole is as good as zeros.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
            Err(error) => return Err(error.into()),
        };
        let end = match seek(from, SeekFrom::Hole(start)) {
            Ok(end) => end.min(length),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => length,
            Err(error) => return Err(error.into()),
        };
        if start >= end {
            break;
        }
        take(start..end)?;
        at = end;
    }
    Ok(())
}
